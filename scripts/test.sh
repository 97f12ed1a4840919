#!/usr/bin/env bash
# Runs the workspace's tests and ends with a summary: totals, failures, and what could not run without root.
# Arguments go to `cargo test`: scripts/test.sh -p store
# Where this machine's kernel makes no sandboxes, or with KERNEL=uml, the tests run under a user-mode kernel instead.
set -euo pipefail
cd "$(dirname "$0")/.."

target=${CARGO_TARGET_DIR:-target}
mkdir -p "$target"
log=$target/test.log
# Arguments that pick packages replace the whole workspace.
[[ " $* " == *" -p "* ]] || set -- --workspace "$@"

# Makes one sandbox, and waits no longer than a minute: a kernel that is stuck does not even let a process be killed.
makes_sandboxes() {
  cargo build --quiet --bin skillbox
  "$target/debug/skillbox" doctor >"$target/doctor.log" 2>&1 &
  for _ in {1..60}; do
    sleep 1
    kill -0 $! 2>/dev/null || { wait $!; return; }
  done
  echo 'no sandbox was made within a minute' >>"$target/doctor.log"
  return 1
}

if [[ ${KERNEL-} == uml ]] || ! makes_sandboxes; then
  [[ ${KERNEL-} == uml ]] || { echo '== This kernel makes no sandboxes:'; cat "$target/doctor.log"; }
  echo '== The tests run under a user-mode kernel.'
  scripts/setup-tests.sh uml
  export CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER=$PWD/scripts/in-uml.sh
fi

status=0
# The output of tests that pass is shown too: it is where a test says that it needs root.
cargo test --no-fail-fast "$@" -- --show-output --color never 2>&1 | tee "$log" || status=$?

echo
echo '== Summary'
awk '/^test result:/ { passed += $4; failed += $6; ignored += $8 }
     END { printf "%d passed, %d failed, %d ignored\n", passed, failed, ignored }' "$log"
failed=$(sed -n 's/^test \(.*\) \.\.\. FAILED$/  failed: \1/p' "$log")
[[ -z $failed ]] || echo "$failed"

needs_root=$(grep -o 'NEEDS ROOT: .*' "$log" | sort -u || true)
if [[ -n $needs_root ]]; then
  echo 'These did not run, because this user is not root or this kernel lacks what they need:'
  echo "${needs_root//NEEDS ROOT:/ -}"
elif ((EUID != 0)); then
  echo 'No test said that it needs root.'
fi
if ((status == 0)); then echo 'All tests passed.'; else echo "The tests failed; the whole output is in $log."; fi
exit "$status"
