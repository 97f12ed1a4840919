#!/usr/bin/env bash
# Runs a command under a dedicated user-mode Linux kernel, as root, on this machine's file system:
#   scripts/in-uml.sh cargo test -p sandbox
# This provides a second kernel with cgroup v2, for machines that have v1, do not allow user namespaces, or whose kernel hangs.
# Temporary files are in memory. Needs the Debian package user-mode-linux.
set -euo pipefail

if [[ ${1-} == --inside ]]; then
  # The init process of that kernel. Its environment contains only what was passed on the kernel command line.
  job=$2
  mount -t proc proc /proc
  mount -t sysfs sysfs /sys
  mount -t cgroup2 cgroup2 /sys/fs/cgroup
  mkdir -p /dev/shm
  mount -t tmpfs -o mode=1777 tmpfs /dev/shm
  # All files of the host belong to root in here, but Postgres runs as another user. /tmp is therefore in memory too,
  # except for the files of the host that the command needs.
  mkdir /dev/shm/host-tmp
  mount --bind /tmp /dev/shm/host-tmp
  mount -t tmpfs -o mode=1777 tmpfs /tmp
  while read -r path; do
    [[ $path == /tmp/* ]] || continue
    mkdir -p "$path"
    mount --bind "/dev/shm/host-tmp/${path#/tmp/}" "$path"
  done <"/dev/shm/host-tmp/${job#/tmp/}/paths"
  python3 -c 'import fcntl, socket, struct
fcntl.ioctl(socket.socket(), 0x8914, struct.pack("16sh14x", b"lo", 0x41))'
  status=0
  bash "$job/command" </dev/null || status=$?
  echo "$status" >"$job/status"
  sync
  # Power off through sysrq, because there is no init system.
  echo o >/proc/sysrq-trigger
  sleep 60
fi

command -v linux.uml >/dev/null || { echo 'in-uml: install the Debian package user-mode-linux' >&2; exit 1; }
job=$(mktemp -d /tmp/in-uml.XXXXXX)
trap 'rm -rf "$job"' EXIT
{
  export -p
  echo 'unset TMPDIR'
  printf 'cd %q\nexec' "$PWD"
  printf ' %q' "$@"
  echo
} >"$job/command"
printf '%s\n' "$job" "$(git rev-parse --show-toplevel)" "${CARGO_TARGET_DIR:-$PWD}" >"$job/paths"
linux.uml mem="${UML_MEMORY:-6G}" rootfstype=hostfs rw quiet loglevel=1 con=null con0=fd:0,fd:1 \
  init="$(realpath "$0")" -- --inside "$job" </dev/null
exit "$(cat "$job/status")"
