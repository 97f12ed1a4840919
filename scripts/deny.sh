#!/usr/bin/env bash
# Checks licences, sources and duplicate versions of the dependencies against deny.toml, with cargo-deny.
# There is no package with a current cargo-deny, so it is compiled once, unoptimized (about 90 seconds on two cores), into
# the cache of the tests. Advisories are left out: they need a database that is fetched from elsewhere.
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
  # The workspace's own settings of cargo mean nothing to it.
  (cd / && CARGO_PROFILE_DEV_DEBUG=0 cargo install "cargo-deny@$version" --locked --quiet --profile dev \
    --root "$cache/cargo-deny-$version" --target-dir "$build")
fi
# It looks at every crate of the lock file, also those that this platform does not build.
cargo fetch --locked --quiet
"$program" --offline --locked check --hide-inclusion-graph -D unmatched-skip "$@" licenses bans sources
