#!/usr/bin/env bash
# Runs the tests of the workspace and prints a summary: totals, failures, and tests that could not run.
# Arguments are passed to `cargo test`: scripts/test.sh -p store
# For the tests it starts a private Docker engine (as root) and an S3 server, and stops them afterwards. Servers that are already running,
# started by scripts/test-engine.sh or scripts/test-s3.sh, are used and left running.
# With KERNEL=uml the tests run under a user-mode kernel. The same happens if this machine's kernel cannot create sandboxes, but the
# result is then a failure.
set -euo pipefail
cd "$(dirname "$0")/.."

target=${CARGO_TARGET_DIR:-target}
mkdir -p "$target"
log=$target/test.log
# Without an argument that selects packages, test the whole workspace.
[[ " $* " == *" -p "* ]] || set -- --workspace "$@"

# Checks that a sandbox can be created within a minute. The timeout is needed because a hanging kernel blocks even SIGKILL.
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
  # A server that is still starting cannot be stopped before it has started.
  wait
  for server in "${started[@]}"; do "scripts/test-$server.sh" stop || true; done
}
trap stop_started EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# Starts the server $1 in the background, unless it is running, with its output in a file.
start_server() {
  scripts/"test-$1.sh" status >"$target/test-$1.env" 2>/dev/null && return
  started+=("$1")
  scripts/"test-$1.sh" start >"$target/test-$1.env" 2>"$target/test-$1.log" &
  starting[$1]=$!
}

# Waits for the server $1 and exports the variables it printed. For root, a server that does not start is a failure, because too many
# tests would be skipped.
await_server() {
  if [[ -n ${starting[$1]-} ]] && ! wait "${starting[$1]}"; then
    echo "== No $1 for the tests:"
    cat "$target/test-$1.log"
    ((EUID != 0)) || status=1
    return
  fi
  # For the test that restarts the engine; no other test runs at the same time.
  [[ $1 != engine ]] || export SKILLBOX_TEST_ENGINE_RESTART="$PWD/scripts/test-engine.sh restart"
  local line
  while read -r line; do export "${line/#DOCKER_HOST=/SKILLBOX_TEST_ENGINE=}"; done <"$target/test-$1.env"
}

# The servers start while the tests are compiled. Unit tests do not need them, and a user-mode kernel cannot reach them.
servers=()
if [[ " $* " != *" --lib "* && ${KERNEL-} != uml ]]; then
  servers=(s3)
  ((EUID != 0)) || servers+=(engine)
fi
declare -A starting
# For the stand-in cluster. This comes before starting the engine, because its script installs packages too.
[[ " ${servers[*]} " != *" engine "* ]] || scripts/setup-tests.sh kubectl openssl
for server in "${servers[@]}"; do start_server "$server"; done

# Building all tests also builds the program. A separate build would compile its dependencies again, because the tests
# enable more features.
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

# The output of passing tests is shown too, because tests report missing requirements there.
cargo test --no-fail-fast "$@" -- --show-output --color never 2>&1 | tee "$log" || status=$?

echo
echo '== Summary'
# A test with missing requirements prints them and returns. The harness counts it as passed; here it counts as skipped.
awk '/^test result:/ { passed += $4; failed += $6; ignored += $8 }
     /^---- .* stdout ----$/ { counted = 0 }
     /NEEDS [A-Z0-9]+: / && !counted { counted = 1; skipped++ }
     END { printf "%d passed, %d failed, %d skipped\n", passed - skipped, failed, skipped + ignored }' "$log"
failed=$(sed -n 's/^test \(.*\) \.\.\. FAILED$/  failed: \1/p' "$log")
[[ -z $failed ]] || echo "$failed"

# Lists the tests that were skipped because of the missing requirement $1.
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
# As root, the engine and the object store are available, so a test that was skipped without them is a failure.
if ((EUID == 0)) && [[ ${#servers[@]} -gt 0 && ${KERNEL-} != uml ]] && grep --quiet 'NEEDS \(ENGINE\|S3\): ' "$log"; then status=1; fi
if ((status == 0)); then echo 'All tests passed.'; else echo "The tests failed; the whole output is in $log."; fi
exit "$status"
