#!/usr/bin/env bash
# Checks licences, sources and duplicate versions of the dependencies against deny.toml, with cargo-deny.
# No distribution packages a current cargo-deny, so it is compiled once, unoptimized (about 90 seconds on two cores), into
# the test cache. Advisories are not checked, because their database must be downloaded.
set -euo pipefail
cd "$(dirname "$0")/.."

version=0.20.2
cache=${SKILLBOX_TEST_CACHE:-${SKILLBOX_TEST_DIR:-/var/tmp/skillbox-test-$UID}/cache}
program=$cache/cargo-deny-$version/bin/cargo-deny

if [[ ! -x $program ]]; then
  echo "deny: compiling cargo-deny $version, once"
  mkdir -p "$cache"
  build=$(mktemp -d "$cache/cargo-deny-build.XXXXXX")
  trap 'rm -rf "$build"' EXIT
  # Run outside of the workspace, so that its cargo configuration does not apply.
  (cd / && CARGO_PROFILE_DEV_DEBUG=0 cargo install "cargo-deny@$version" --locked --quiet --profile dev \
    --root "$cache/cargo-deny-$version" --target-dir "$build")
fi
# cargo-deny checks every crate in the lock file, including those that are not built on this platform.
cargo fetch --locked --quiet
"$program" --offline --locked check --hide-inclusion-graph -D unmatched-skip "$@" licenses bans sources
