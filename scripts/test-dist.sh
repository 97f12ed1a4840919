#!/usr/bin/env bash
# Tests the release files: packages the program with scripts/dist.sh, installs each package into a clean environment and
# runs a skill with it. The image needs the private Docker engine of the tests, so it is only tested as root.
#   SKILLBOX_BIN   the program to package (default: target/debug/skillbox)
#   DIST           tests the files in this directory instead, such as target/dist after `make dist`
set -euo pipefail
cd "$(dirname "$0")/.."

binary=${SKILLBOX_BIN:-${CARGO_TARGET_DIR:-target}/debug/skillbox}
work=$(mktemp -d)
engine_started=
clean_up() {
  [[ -z $engine_started ]] || scripts/test-engine.sh stop
  rm -rf "$work"
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

scripts/setup-tests.sh python3 venv node npm minisign
if [[ -z ${DIST-} ]]; then
  [[ -x $binary ]] || { echo "test-dist: there is no $binary; build it first (cargo build --bin skillbox) or name one in SKILLBOX_BIN" >&2; exit 1; }
  DIST=$work/dist
  scripts/dist.sh "$binary" "$DIST"
fi
DIST=$(realpath "$DIST")
if ((EUID == 0)); then
  if ! scripts/test-engine.sh status >"$work/engine" 2>/dev/null; then
    engine_started=1
    scripts/test-engine.sh start >"$work/engine"
  fi
  ENGINE=$(sed -n 's/^DOCKER_HOST=//p' "$work/engine")
  export ENGINE
fi
NODE_DIRECTORY=$(dirname "$(command -v node)")
export DIST NODE_DIRECTORY PYTHONDONTWRITEBYTECODE=1
python3 scripts/dist/test_dist.py
