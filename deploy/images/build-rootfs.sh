#!/usr/bin/env bash
# Builds the root file system of one runtime from Debian packages, for machines that have no image registry:
#   deploy/images/build-rootfs.sh python python.tar
# Then deploy/images/import.sh python python.tar skillbox/python:1 gives it to an engine. Needs root and debootstrap.
#
#   SUITE   the Debian release (bookworm)
#   MIRROR  where its packages are, if not where debootstrap looks by itself
#   BASE    a tar file of the base all three share: used if it exists, else written
set -euo pipefail
umask 022

runtime=${1-} output=${2-}
case $runtime in
  python) packages=(python3) interpreter=python3 ;;
  node) packages=(nodejs) interpreter=node ;;
  bash) packages=() interpreter=bash ;;
  *) echo 'usage: build-rootfs.sh <python|node|bash> <output.tar>' >&2; exit 2 ;;
esac
[[ -n $output ]] || { echo 'build-rootfs: name the tar file to write' >&2; exit 2; }
((EUID == 0)) || { echo 'build-rootfs: needs root, as debootstrap does' >&2; exit 1; }
command -v debootstrap >/dev/null || { echo 'build-rootfs: install the Debian package debootstrap' >&2; exit 1; }

# In mounts of its own, which end with it however it ends.
[[ ${0##*/} != "${INSIDE-}" ]] && exec env INSIDE="${0##*/}" unshare --mount --propagation private "$0" "$@"

suite=${SUITE:-bookworm}
work=$(mktemp -d "${TMPDIR:-/var/tmp}/skillbox-rootfs.XXXXXX")
root=$work/root
trap 'umount --quiet --recursive --lazy "$work" || true; rm -rf --one-file-system "$work"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
# In memory where there is enough: on a disk, dpkg waits for it with every file.
if (($(awk '/^MemAvailable:/ { print $2 }' /proc/meminfo) > 3 << 20)); then
  mount -t tmpfs -o mode=700,size=2g skillbox-rootfs "$work"
fi

# Runs a command inside the new root.
inside() {
  chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive \
    http_proxy="${http_proxy-}" https_proxy="${https_proxy-}" "$@"
}

# A Debian with nothing but its essential packages and apt, with the package lists still in it.
make_base() {
  echo "build-rootfs: debootstrap of $suite" >&2
  if ! debootstrap --variant=minbase "$suite" "$root" ${MIRROR:+"$MIRROR"} >"$work/log" 2>&1; then
    tail -20 "$work/log" >&2
    return 1
  fi
  # Nothing here has to survive a power cut.
  echo force-unsafe-io >"$root/etc/dpkg/dpkg.cfg.d/unsafe-io"
  printf 'path-exclude=/usr/share/%s/*\n' man locale info lintian >"$root/etc/dpkg/dpkg.cfg.d/small"
  rm -rf "$root"/var/cache/apt/archives/*.deb
}

install_packages() {
  ((${#packages[@]} > 0)) || return 0
  echo "build-rootfs: installing ${packages[*]}" >&2
  inside apt-get install --quiet=2 --yes --no-install-recommends "${packages[@]}" >"$work/log" 2>&1 ||
    { tail -20 "$work/log" >&2; return 1; }
}

# The date of the newest package in it. Files made while installing get this date, so that the same packages give the same
# archive; files of the packages keep theirs, which Python's compiled modules depend on.
newest_package() {
  find "$root/usr/share/doc" -name 'changelog*' -type f -printf '%T@\n' | sort -n | tail -1 | cut -d. -f1
}

# Takes out what no skill needs and what differs from build to build.
strip_root() {
  cd "$root"
  # A sandbox installs nothing. Programs of packages stay, the means to get more of them do not.
  rm -rf usr/bin/apt* usr/lib/apt var/lib/apt var/cache/apt etc/apt var/lib/dpkg/*-old usr/lib/x86_64-linux-gnu/libapt-*
  rm -rf usr/share/{doc,man,info,locale,lintian,bug} var/log var/cache boot home media mnt opt srv
  rm -rf etc/{machine-id,hostname,resolv.conf,passwd-,group-,shadow-,gshadow-} var/lib/dbus dev run tmp
  mkdir -m 755 dev run var/log var/cache
  mkdir -m 1777 tmp
  # No way to another user or group, and no node that reaches hardware.
  find . -xdev -perm /6000 \( -type f -o -type d \) -exec chmod ug-s {} +
  find . -xdev \( -type b -o -type c -o -type p -o -type s \) -delete
  cd - >/dev/null
}

mkdir -p "$root"
if [[ -n ${BASE-} && -f $BASE ]]; then
  tar -xf "$BASE" -C "$root"
else
  make_base
  if [[ -n ${BASE-} ]]; then
    tar -cf "$BASE.part" -C "$root" .
    mv "$BASE.part" "$BASE"
  fi
fi
install_packages
date=${SOURCE_DATE_EPOCH:-$(newest_package)}
strip_root
inside "$interpreter" --version >/dev/null || { echo "build-rootfs: $interpreter does not run in it" >&2; exit 1; }
tar --sort=name --format=gnu --numeric-owner --mtime="@$date" --clamp-mtime -cf "$output.part" -C "$root" .
"$(dirname "$0")/check-rootfs.sh" "$runtime" "$output.part" >&2
mv "$output.part" "$output"
