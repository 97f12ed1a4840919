# Tests the TypeScript SDK. Sourced by scripts/test-sdks.sh.

prepare_typescript() {
  prepare_node
  once_for sdks/typescript/package.json typescript-packages install_typescript
  [[ -d sdks/typescript/node_modules ]] || install_typescript
  # The other runtimes that the package supports.
  scripts/setup-tests.sh chromium
  runtimes=$cache/runtimes
  [[ -e $runtimes/installed ]] || npm install --prefix "$runtimes" --no-audit --no-fund --loglevel=error deno@2 bun@1 playwright-core@1
  touch "$runtimes/installed"
}

prepare_node() {
  scripts/setup-tests.sh node npm
  # Debian's Node may be older than the versions that the package supports.
  if (($(node --version | tr -d v | cut -d. -f1) < 20)); then
    [[ -x $cache/node/node_modules/.bin/node ]] || npm install --prefix "$cache/node" --no-audit --no-fund --loglevel=error node@20
    export PATH=$cache/node/node_modules/.bin:$PATH
  fi
}

install_typescript() {
  npm --prefix sdks/typescript install --no-package-lock --no-audit --no-fund --loglevel=error
}

test_typescript() {
  (
    cd sdks/typescript
    npm run --silent check
    npm run --silent test -- --reporter=dot
  )
}

publish_typescript() {
  mkdir "$work/typescript-package" "$work/typescript-clean"
  npm pack ./sdks/typescript --silent --pack-destination "$work/typescript-package" >/dev/null
  rm -r sdks/typescript/dist
  (
    cd "$work/typescript-clean"
    npm init --yes >/dev/null
    npm install --offline --no-audit --no-fund --loglevel=error "$work"/typescript-package/*.tgz
    cp "$OLDPWD"/sdks/typescript/test/{conformance,browser,browser-page}.mjs .
    export SKILLBOX_CONFORMANCE=$OLDPWD/sdks/conformance
    node conformance.mjs
    bun_and_deno
    SKILLBOX_TEST_RUNTIMES=$runtimes node browser.mjs
    cp "$OLDPWD/examples/clients/typescript.mjs" .
    SKILLBOX_EXAMPLES=$OLDPWD/examples/skills example chart.svg node typescript.mjs
  )
}

bun_and_deno() {
  "$runtimes/node_modules/.bin/bun" conformance.mjs
  DENO_DIR=$cache/deno DENO_NO_UPDATE_CHECK=1 "$runtimes/node_modules/.bin/deno" run --allow-all --node-modules-dir=manual conformance.mjs
}
