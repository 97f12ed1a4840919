# Tests the Python SDK. Sourced by scripts/test-sdks.sh.

prepare_python() {
  [[ -x $cache/python/bin/python ]] || python3 -m venv "$cache/python"
  once_for sdks/python/requirements-dev.txt python-packages \
    "$cache/python/bin/pip" install --quiet --disable-pip-version-check -r sdks/python/requirements-dev.txt
}

test_python() {
  (
    cd sdks/python
    "$cache/python/bin/ruff" check --quiet --cache-dir "$cache/ruff" .
    "$cache/python/bin/ruff" format --check --quiet --cache-dir "$cache/ruff" .
    "$cache/python/bin/mypy" --cache-dir "$cache/mypy"
    PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=src "$cache/python/bin/python" -m pytest -p no:cacheprovider
  )
}

publish_python() {
  cp -r sdks/python "$work/python-source"
  "$cache/python/bin/python" -m build --outdir "$work/python-packages" "$work/python-source" >"$work/build.log" 2>&1 ||
    { cat "$work/build.log"; return 1; }
  python3 -m venv "$work/python-clean"
  "$work/python-clean/bin/pip" install --quiet --disable-pip-version-check --no-index "$work"/python-packages/*.whl
  cp sdks/python/tests/conformance.py "$work/conformance.py"
  SKILLBOX_CONFORMANCE=$PWD/sdks/conformance "$work/python-clean/bin/python" -I "$work/conformance.py"
  example chart.svg "$work/python-clean/bin/python" examples/clients/python_client.py
  with_langchain "$work"/python-packages/*.whl
}

# Installs the package $1 with its extra. The dependencies of the extra are installed already, so nothing is downloaded.
with_langchain() {
  local pip=("$cache/python/bin/pip" --quiet --disable-pip-version-check) python=$cache/python/bin/python
  # An interrupted run may have left the package installed.
  "${pip[@]}" uninstall --yes skillbox 2>/dev/null
  "${pip[@]}" install --no-index "$1[langchain]"
  example '"words": 3' "$python" -I examples/clients/langchain_agent.py
  "${pip[@]}" uninstall --yes skillbox
}
