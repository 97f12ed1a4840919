#!/usr/bin/env bash
# A private Docker engine for tests, separate from any other on the machine: its own socket, data, containerd and cgroups, no network.
#   scripts/test-engine.sh start     starts it unless it is running, and prints DOCKER_HOST=unix://… and SKILLBOX_TEST_IMAGES, the
#                                    directory with the image archives and nginx
#   scripts/test-engine.sh status    prints the same if it responds, otherwise fails
#   scripts/test-engine.sh restart   kills its dockerd and starts another with the same data
#   scripts/test-engine.sh stop      stops everything that start started and removes its files
# It has the images skillbox/python:test, skillbox/node:test and skillbox/bash:test, and the runtimes runc and runsc.
#
#   SKILLBOX_TEST_DIR    directory for its files (default: /var/tmp/skillbox-test-$UID)
#   SKILLBOX_TEST_CACHE  cache for the image archives (default: cache in that directory); stop does not remove it
# Use another SKILLBOX_TEST_DIR for a second engine. If dockerd was killed, start restarts it with the same data.
set -euo pipefail
cd "$(dirname "$0")/.."

dir=${SKILLBOX_TEST_DIR:-/var/tmp/skillbox-test-$UID}
cache=${SKILLBOX_TEST_CACHE:-$dir/cache}
engine=$dir/engine
export DOCKER_HOST=unix://$engine/docker.sock
# All containers of this engine are below one dedicated cgroup.
cgroup=skillbox-test-$(printf %s "$engine" | cksum | cut -d' ' -f1)

say() { echo "test-engine: $*" >&2; }

answers() { [[ -S $engine/docker.sock ]] && docker version >/dev/null 2>&1; }

# Prints the arguments of the process $1; nothing if it has exited or is a zombie.
arguments_of() { tr '\0' ' ' 2>/dev/null <"/proc/$1/cmdline"; } 2>/dev/null

# Prints the pid in the pid file $1, if it still belongs to this engine: the pid may have been reused.
process_of() {
  local pid
  pid=$(cat "$engine/$1" 2>/dev/null) || return 1
  arguments_of "$pid" | grep --quiet --fixed-strings "$engine/" && echo "$pid"
}

# Waits up to $1 seconds until the command in the other arguments succeeds.
wait_until() {
  local tries=$(($1 * 5))
  shift
  while ! "$@"; do
    ((tries-- > 0)) || return 1
    sleep 0.2
  done
}

write_configuration() {
  mkdir -p -m 700 "$engine"
  # gVisor: the sandboxes of the tests have no network, and ptrace is the platform without requirements on the machine.
  cat >"$engine/daemon.json" <<JSON
{
  "data-root": "$engine/data",
  "exec-root": "$engine/exec",
  "pidfile": "$engine/docker.pid",
  "hosts": ["$DOCKER_HOST"],
  "containerd": "$engine/containerd.sock",
  "bridge": "none",
  "iptables": false,
  "ip-forward": false,
  "cgroup-parent": "/$cgroup",
  "exec-opts": ["native.cgroupdriver=cgroupfs"],
  "runtimes": { "runsc": { "path": "$(command -v runsc)", "runtimeArgs": ["--network=none", "--platform=ptrace"] } }
}
JSON
  # Start a private containerd, because dockerd would share that of the machine if it is running.
  cat >"$engine/containerd.toml" <<TOML
version = 2
root = "$engine/containerd"
state = "$engine/containerd-state"
disabled_plugins = ["io.containerd.grpc.v1.cri"]
[grpc]
  address = "$engine/containerd.sock"
TOML
}

start_processes() {
  if ! process_of containerd.pid >/dev/null; then
    # Started without the lock's file descriptor, because a daemon would hold the lock forever.
    setsid containerd --config "$engine/containerd.toml" </dev/null >>"$engine/containerd.log" 2>&1 9>&- &
    echo $! >"$engine/containerd.pid"
  fi
  wait_until 30 test -S "$engine/containerd.sock"
  if ! process_of docker.pid >/dev/null; then
    rm -f "$engine/docker.pid"
    setsid dockerd --config-file "$engine/daemon.json" </dev/null >>"$engine/dockerd.log" 2>&1 9>&- &
  fi
  wait_until 60 answers || { say 'dockerd does not answer:'; tail -20 "$engine/dockerd.log" >&2; return 1; }
}

# Prints the path of the image archive of the runtime $1 and builds it if it is not cached. A changed recipe gives a new archive.
archive_of() {
  local recipe
  recipe=$(cksum <deploy/images/build-rootfs.sh | cut -d' ' -f1)
  local archive=$cache/$1-$recipe.tar
  if [[ ! -f $archive ]]; then
    rm -f "$cache/$1"-*.tar
    BASE=$cache/base.tar deploy/images/build-rootfs.sh "$1" "$archive" || return
  fi
  echo "$archive"
}

import_images() {
  local runtime archive
  mkdir -p "$cache"
  for runtime in bash python node; do
    ! docker image inspect "skillbox/$runtime:test" >/dev/null 2>&1 || continue
    archive=$(archive_of "$runtime")
    deploy/images/import.sh "$runtime" "$archive" "skillbox/$runtime:test" >/dev/null
  done
}

# Provides nginx, the load balancer of docker-compose.yml, for the test of that file. The package is unpacked and not installed,
# because installing it would start nginx on this machine.
fetch_balancer() {
  [[ ! -x $cache/nginx/usr/sbin/nginx ]] || return 0
  local work
  work=$(mktemp -d)
  chmod 755 "$work"
  (
    cd "$work" &&
      { apt-get download --quiet=2 nginx || { apt-get update --quiet=2 && apt-get download --quiet=2 nginx; }; } &&
      dpkg -x nginx_*.deb root && root/usr/sbin/nginx -v && mv root "$cache/nginx"
  ) >"$dir/balancer.log" 2>&1 || say "no nginx: $(tail -1 "$dir/balancer.log")"
  rm -rf "$work" "$dir/balancer.log"
}

start() {
  ((EUID == 0)) || { say 'an engine needs root'; exit 1; }
  scripts/setup-tests.sh docker runsc debootstrap >&2
  mkdir -p "$dir"
  exec 9>"$dir/engine.lock"
  flock 9
  if answers; then
    say 'it runs already'
  else
    write_configuration
    start_processes
  fi
  import_images
  fetch_balancer
  exec 9>&-
}

# Simulates a crash of the machine's engine: SIGKILL without a graceful shutdown, and the containers die too.
restart() {
  local pid
  pid=$(process_of docker.pid) || { say 'it does not run'; exit 1; }
  kill -KILL "$pid"
  wait_until 20 gone "$pid"
  start_processes
}

end_process() {
  local pid
  pid=$(process_of "$1") || return 0
  kill "$pid" 2>/dev/null || return 0
  wait_until 20 gone "$pid" || kill -KILL "$pid"
}

gone() { [[ -z $(arguments_of "$1") ]]; }

# The shims of containers outlive containerd. Each has our socket in its arguments.
end_shims() {
  local process
  for process in /proc/[0-9]*; do
    if arguments_of "${process#/proc/}" | grep --quiet --fixed-strings -- "-address $engine/containerd.sock"; then
      kill -KILL "${process#/proc/}" 2>/dev/null || true
    fi
  done
}

stop() {
  [[ -d $engine ]] || return 0
  if answers; then
    docker ps --all --quiet | xargs --no-run-if-empty docker rm --force --volumes >/dev/null 2>&1 || true
  fi
  end_process docker.pid
  end_shims
  end_process containerd.pid
  # Unmount in reverse order of depth, nested mounts first.
  awk -v dir="$engine/" 'index($5, dir) == 1 { print $5 }' /proc/self/mountinfo | sort --reverse |
    while read -r mount; do umount --lazy "$mount" || true; done
  find /sys/fs/cgroup -depth -type d -path "*/$cgroup*" -exec rmdir {} + 2>/dev/null || true
  rm -rf --one-file-system "$engine"
  rm -f "$dir/engine.lock"
}

print_where() { printf 'DOCKER_HOST=%s\nSKILLBOX_TEST_IMAGES=%s\n' "$DOCKER_HOST" "$cache"; }

case ${1-} in
  start) start; print_where ;;
  status) answers && print_where ;;
  restart) restart ;;
  stop) stop ;;
  *) echo 'usage: test-engine.sh start|status|restart|stop' >&2; exit 2 ;;
esac
