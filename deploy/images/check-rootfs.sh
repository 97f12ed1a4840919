#!/usr/bin/env bash
# Lists files that must not be in the root file system of a runtime, and fails if there are any:
#   deploy/images/check-rootfs.sh python python.tar
set -euo pipefail

runtime=${1-} archive=${2-}
case $runtime in
  python) interpreter=python3 ;;
  node) interpreter=node ;;
  bash) interpreter=bash ;;
  *) echo 'usage: check-rootfs.sh <python|node|bash> <rootfs.tar>' >&2; exit 2 ;;
esac
listing=$(mktemp)
trap 'rm -f "$listing"' EXIT
# One line per file: mode, owner, size, date, time, and the name without the leading `./` or `/`.
tar --numeric-owner -tvf "$archive" | sed -E 's#^((\S+\s+){5})(\./|/)?#\1#' >"$listing"

failed=0
# Prints the lines that the awk condition $2 finds, under the complaint $1.
refuse() {
  local found
  found=$(awk "$2" "$listing")
  [[ -n $found ]] || return 0
  printf '%s: %s: %s\n' "$archive" "$1" "$(head -5 <<<"$found")" >&2
  failed=1
}
refuse 'gives the rights of another user or group' '$1 !~ /^l/ && substr($1, 1, 7) ~ /[sS]/'
refuse 'a device, a pipe or a socket' '$1 ~ /^[bcps]/'
refuse 'every user may change it' '$1 ~ /^-.......w/'
refuse 'a package manager or what it fetched' '$6 ~ /^(usr\/bin\/apt|var\/lib\/apt\/|var\/cache\/apt\/|etc\/apt\/)|\.deb$/'
for program in sh sha256sum "$interpreter"; do
  grep --quiet --extended-regexp " (usr/(local/)?)?bin/$program( |$)" "$listing" ||
    { echo "$archive: has no $program" >&2; failed=1; }
done
((failed == 0)) || exit 1
echo "$runtime: $(wc -l <"$listing") files, $(($(stat --format %s "$archive") >> 20)) MiB"
