# Tests MCP with both generations of the official clients. Sourced by scripts/test-sdks.sh.

prepare_mcp() {
  source scripts/sdks/typescript.sh
  prepare_node
  local place=sdks/conformance/mcp
  for generation in 1 2; do [[ -x $cache/mcp-$generation/bin/python ]] || python3 -m venv "$cache/mcp-$generation"; done
  once_for $place/requirements-1.txt mcp-1-packages "$cache/mcp-1/bin/pip" install --quiet --disable-pip-version-check -r $place/requirements-1.txt
  once_for $place/requirements.txt mcp-2-packages "$cache/mcp-2/bin/pip" install --quiet --disable-pip-version-check -r $place/requirements.txt
  once_for $place/package.json mcp-typescript-packages install_mcp
  [[ -d $place/node_modules ]] || install_mcp
}

install_mcp() {
  npm --prefix sdks/conformance/mcp install --no-package-lock --no-audit --no-fund --loglevel=error
}

test_mcp() {
  local python=$cache/mcp-2/bin/python command
  for command in check 'format --check'; do
    "$cache/mcp-2/bin/ruff" $command --quiet --cache-dir "$cache/ruff" sdks/conformance/mcp
    "$cache/mcp-2/bin/ruff" $command --quiet --cache-dir "$cache/ruff" --config sdks/python/pyproject.toml examples/clients/mcp
  done
  SKILLBOX_TEST_BINARY=$(realpath "$binary") SKILLBOX_MCP_PYTHON_1=$cache/mcp-1/bin/python SKILLBOX_MCP_PYTHON_2=$python \
    PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=sdks/python/src "$python" -m pytest -q -ra -p no:cacheprovider sdks/conformance/mcp
}

# The MCP server is part of the program, so there is no package to publish.
publish_mcp() { :; }
