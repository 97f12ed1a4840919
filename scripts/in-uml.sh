#!/usr/bin/env bash
# Runs a command under a user-mode Linux kernel of its own, as root, on this machine's files:
#   scripts/in-uml.sh cargo test -p sandbox
# A second kernel, with cgroup v2, for machines that have v1, that allow no user namespaces, or whose own kernel is stuck.
# Temporary files go to memory. Needs Debian's package user-mode-linux.
set -euo pipefail

if [[ ${1-} == --inside ]]; then
  # The first process of that kernel. Its environment is empty but for what the kernel was told.
  job=$2
  mount -t proc proc /proc
  mount -t sysfs sysfs /sys
  mount -t cgroup2 cgroup2 /sys/fs/cgroup
  mkdir -p /dev/shm
  mount -t tmpfs -o mode=1777 tmpfs /dev/shm
  mkdir -m 1777 /dev/shm/tmp
  python3 -c 'import fcntl, socket, struct
fcntl.ioctl(socket.socket(), 0x8914, struct.pack("16sh14x", b"lo", 0x41))'
  status=0
  bash "$job/command" </dev/null || status=$?
  echo "$status" >"$job/status"
  sync
  # Ends the kernel; there is no init system to ask.
  echo o >/proc/sysrq-trigger
  sleep 60
fi

command -v linux.uml >/dev/null || { echo 'in-uml: install the Debian package user-mode-linux' >&2; exit 1; }
job=$(mktemp -d)
trap 'rm -rf "$job"' EXIT
{
  export -p
  echo 'export TMPDIR=/dev/shm/tmp'
  printf 'cd %q\nexec' "$PWD"
  printf ' %q' "$@"
  echo
} >"$job/command"
linux.uml mem="${UML_MEMORY:-6G}" rootfstype=hostfs rw quiet loglevel=1 con=null con0=fd:0,fd:1 \
  init="$(realpath "$0")" -- --inside "$job" </dev/null
exit "$(cat "$job/status")"
