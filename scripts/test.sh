#!/usr/bin/env bash
# Runs the workspace's tests and ends with a summary: totals, failures, and what could not run.
# Arguments go to `cargo test`: scripts/test.sh -p store
# For the tests it starts a private Docker engine (as root) and an S3 server, and ends them again. One that runs already, started by
# scripts/test-engine.sh or scripts/test-s3.sh, is used and left running.
# With KERNEL=uml the tests run under a user-mode kernel. Where this machine's own makes no sandboxes they do too, and fail.
set -euo pipefail
cd "$(dirname "$0")/.."

target=${CARGO_TARGET_DIR:-target}
mkdir -p "$target"
log=$target/test.log
# Arguments that pick packages replace the whole workspace.
[[ " $* " == *" -p "* ]] || set -- --workspace "$@"

# Makes one sandbox, and waits no longer than a minute: a kernel that is stuck does not even let a process be killed.
makes_sandboxes() {
  "$target/debug/skillbox" doctor >"$target/doctor.log" 2>&1 &
  for _ in {1..60}; do
    sleep 1
    kill -0 $! 2>/dev/null || { wait $!; return; }
  done
  echo 'no sandbox was made within a minute' >>"$target/doctor.log"
  return 1
}

status=0
started=()
stop_started() {
  # One that is still starting ends no sooner than it started.
  wait
  for server in "${started[@]}"; do "scripts/test-$server.sh" stop || true; done
}
trap stop_started EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# Starts the server $1 in the background, unless it runs; what it prints goes to a file.
start_server() {
  scripts/"test-$1.sh" status >"$target/test-$1.env" 2>/dev/null && return
  started+=("$1")
  scripts/"test-$1.sh" start >"$target/test-$1.env" 2>"$target/test-$1.log" &
  starting[$1]=$!
}

# Waits for the server $1 and exports what it printed. For root, one that does not start fails the tests: too many would not run.
await_server() {
  if [[ -n ${starting[$1]-} ]] && ! wait "${starting[$1]}"; then
    echo "== No $1 for the tests:"
    cat "$target/test-$1.log"
    ((EUID != 0)) || status=1
    return
  fi
  # For the test of an engine that goes away; it lets no other run meanwhile.
  [[ $1 != engine ]] || export SKILLBOX_TEST_ENGINE_RESTART="$PWD/scripts/test-engine.sh restart"
  local line
  while read -r line; do export "${line/#DOCKER_HOST=/SKILLBOX_TEST_ENGINE=}"; done <"$target/test-$1.env"
}

# The servers start while the tests are compiled. Unit tests need none, and a user-mode kernel cannot reach them.
servers=()
if [[ " $* " != *" --lib "* && ${KERNEL-} != uml ]]; then
  servers=(s3)
  ((EUID != 0)) || servers+=(engine)
fi
declare -A starting
# For the stand-in of Kubernetes; before the engine, whose script installs packages too.
[[ " ${servers[*]} " != *" engine "* ]] || scripts/setup-tests.sh kubectl openssl
for server in "${servers[@]}"; do start_server "$server"; done

# The tests of all crates have the program built on their way. Built by itself it would not share its dependencies with
# them, which have more features.
if [[ $* == --workspace ]]; then cargo test --no-run "$@"; else cargo build --bin skillbox; fi

if [[ ${KERNEL-} == uml ]] || ! makes_sandboxes; then
  if [[ ${KERNEL-} != uml ]]; then
    echo '== This kernel makes no sandboxes, so the tests fail in the end, whatever else they find:'
    cat "$target/doctor.log"
    status=1
    KERNEL=uml
  fi
  echo '== The tests run under a user-mode kernel.'
  scripts/setup-tests.sh uml
  export CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER=$PWD/scripts/in-uml.sh
else
  for server in "${servers[@]}"; do await_server "$server"; done
fi

# The output of tests that pass is shown too: it is where a test says what it needs and does not have.
cargo test --no-fail-fast "$@" -- --show-output --color never 2>&1 | tee "$log" || status=$?

echo
echo '== Summary'
# A test that lacks what it needs says so and returns. The harness counts it as passed; here it counts as skipped.
awk '/^test result:/ { passed += $4; failed += $6; ignored += $8 }
     /^---- .* stdout ----$/ { counted = 0 }
     /NEEDS [A-Z0-9]+: / && !counted { counted = 1; skipped++ }
     END { printf "%d passed, %d failed, %d skipped\n", passed - skipped, failed, skipped + ignored }' "$log"
failed=$(sed -n 's/^test \(.*\) \.\.\. FAILED$/  failed: \1/p' "$log")
[[ -z $failed ]] || echo "$failed"

# What the tests say that they need and did not have.
list_needs() {
  local lines
  lines=$(grep -o "NEEDS $1: .*" "$log" | sort -u) || return 0
  echo "These did not run, because $2:"
  echo "${lines//NEEDS $1:/ -}"
}
list_needs ROOT 'this user is not root or this kernel lacks what they need'
list_needs ENGINE 'there was no Docker engine for them (scripts/test-engine.sh needs root)'
list_needs CLUSTER 'a real Kubernetes takes minutes to build and to break (make test-kubernetes)'
list_needs S3 'there was no S3 server for them (scripts/test-s3.sh)'
grep --quiet 'NEEDS [A-Z0-9]*: ' "$log" || echo 'No test lacked anything.'
# Root was given an engine and an object store, so that nobody may do without.
if ((EUID == 0)) && [[ ${#servers[@]} -gt 0 && ${KERNEL-} != uml ]] && grep --quiet 'NEEDS \(ENGINE\|S3\): ' "$log"; then status=1; fi
if ((status == 0)); then echo 'All tests passed.'; else echo "The tests failed; the whole output is in $log."; fi
exit "$status"
