#!/usr/bin/env bash
# Writes an SBOM (CycloneDX, JSON) of the program `skillbox`: every crate that is compiled into it or runs during its build.
#   scripts/sbom.sh [file]   validates the SBOM against CycloneDX's schema and writes it (default: target/sbom/skillbox.cdx.json)
#   scripts/sbom.sh test     runs the tests of the SBOM and writes nothing
#   SBOM_TARGET              the platform (default: x86_64-unknown-linux-gnu)
# The CycloneDX library is installed into the test cache.
set -euo pipefail
cd "$(dirname "$0")/.."

cache=${SKILLBOX_TEST_CACHE:-${SKILLBOX_TEST_DIR:-/var/tmp/skillbox-test-$UID}/cache}
requirements=scripts/sbom/requirements.txt
venv=$cache/sbom-$(cksum <$requirements | tr -d ' ')
if [[ ! -e $venv/installed ]]; then
  echo 'sbom: installing the CycloneDX library' >&2
  scripts/setup-tests.sh python3 venv >&2
  rm -rf "$venv"
  mkdir -p "$cache"
  python3 -m venv "$venv"
  "$venv/bin/pip" install --quiet --disable-pip-version-check -r $requirements >&2
  touch "$venv/installed"
fi

export PYTHONDONTWRITEBYTECODE=1
case ${1-} in
  test) exec "$venv/bin/python" -m unittest discover --start-directory scripts/sbom --quiet ;;
  *) exec "$venv/bin/python" scripts/sbom/sbom.py "${1:-${CARGO_TARGET_DIR:-target}/sbom/skillbox.cdx.json}" ;;
esac
