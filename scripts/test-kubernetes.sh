#!/usr/bin/env bash
# Runs the tests that need a real Kubernetes, on the cluster of scripts/test-cluster.sh. A running cluster is used and left running.
# Otherwise the cluster is started, which builds Kubernetes on first use, and stopped afterwards. Unlike in `make test`, a missing
# cluster is a failure.
set -euo pipefail
cd "$(dirname "$0")/.."

target=${CARGO_TARGET_DIR:-target}
mkdir -p "$target"
log=$target/test-kubernetes.log

if ! where=$(scripts/test-cluster.sh status); then
  trap 'scripts/test-cluster.sh stop' EXIT
  trap 'exit 130' INT
  trap 'exit 143' TERM
  where=$(scripts/test-cluster.sh start)
fi
while read -r line; do export "${line?}"; done <<<"$where"

# The whole workspace is built, as for all tests, but only the tests that use a real cluster run.
cargo test --workspace --test it --no-run
scripts/test-cluster.sh image "$target/debug/skillbox"
tests=(real_cluster contract::kubernetes outcomes::kubernetes hostile::kubernetes connect_attempts::kubernetes)
cargo test --workspace --no-fail-fast --test it -- "${tests[@]}" --show-output --color never --test-threads 1 2>&1 | tee "$log"
if grep --quiet 'NEEDS CLUSTER: ' "$log"; then
  echo "test-kubernetes: these tests did not use the cluster:"
  grep -o 'NEEDS CLUSTER: .*' "$log" | sort -u
  exit 1
fi
# Tests of the Helm chart that use this cluster.
scripts/test-deploy.sh real_server real_helm
