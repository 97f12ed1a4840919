#!/usr/bin/env bash
# Runs the workspace's tests and ends with a summary: totals, failures, and what could not run without root.
# Arguments go to `cargo test`: scripts/test.sh -p store
set -euo pipefail

target=${CARGO_TARGET_DIR:-target}
mkdir -p "$target"
log=$target/test.log
# Arguments that pick packages replace the whole workspace.
[[ " $* " == *" -p "* ]] || set -- --workspace "$@"

status=0
# The output of tests that pass is shown too: it is where a test says that it needs root.
cargo test --no-fail-fast "$@" -- --show-output 2>&1 | tee "$log" || status=$?

echo
echo '== Summary'
awk '/^test result:/ { passed += $4; failed += $6; ignored += $8 }
     END { printf "%d passed, %d failed, %d ignored\n", passed, failed, ignored }' "$log"
failed=$(sed -n 's/^test \(.*\) \.\.\. FAILED$/  failed: \1/p' "$log")
[[ -z $failed ]] || echo "$failed"

needs_root=$(grep -o 'NEEDS ROOT: .*' "$log" | sort -u || true)
if [[ -n $needs_root ]]; then
  echo 'These did not run, because this user is not root:'
  echo "${needs_root//NEEDS ROOT:/ -}"
elif ((EUID != 0)); then
  echo 'No test said that it needs root.'
fi
if ((status == 0)); then echo 'All tests passed.'; else echo "The tests failed; the whole output is in $log."; fi
exit "$status"
