#!/usr/bin/env bash
# Installs what building and testing Skillbox needs on Debian or Ubuntu, and only what is missing.
# With arguments, only those needs are looked at: scripts/setup-tests.sh cc python3
set -euo pipefail

# Where Debian keeps the server programs of Postgres; they are not in PATH.
postgres_programs() {
  command -v initdb >/dev/null || compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null
}

# Is the need $1 met?
present() {
  case $1 in
    cc) command -v cc >/dev/null && printf 'int main(void){return 0;}' | cc -static -x c - -o /dev/null 2>/dev/null ;;
    postgres) postgres_programs ;;
    uml) command -v linux.uml >/dev/null ;;
    *) command -v "$1" >/dev/null ;;
  esac
}

# The Debian packages that meet the need $1.
packages() {
  case $1 in
    cc) echo gcc libc6-dev ;;
    node) echo nodejs ;;
    postgres) echo postgresql ;;
    uml) echo user-mode-linux ;;
    *) echo "$1" ;;
  esac
}

# What the need $1 is for.
reason() {
  case $1 in
    cc) echo 'links the program and, statically, the guest' ;;
    python3 | node | bash) echo 'runs skills' ;;
    curl) echo 'repeats what the demo prints' ;;
    zip | unzip) echo 'makes and reads archives to compare with ours' ;;
    uml) echo 'a second kernel for the tests' ;;
    postgres) echo 'a throw-away cluster for the store tests; a database of yours is not touched' ;;
  esac
}

if ! command -v cargo >/dev/null; then
  echo 'setup: no Rust toolchain found; install one with rustup and run this again' >&2
  exit 1
fi
# Tests also check the format and the lints.
if (($# == 0)) && ! { cargo fmt --version && cargo clippy --version; } >/dev/null 2>&1; then
  echo 'setup: adding rustfmt and clippy to the Rust toolchain'
  rustup component add rustfmt clippy
fi

(($# > 0)) || set -- cc python3 node bash curl zip unzip postgres
missing=()
for need in "$@"; do
  present "$need" && continue
  for package in $(packages "$need"); do missing+=("$package"); done
  echo "setup: missing $need: $(reason "$need")"
done
((${#missing[@]} > 0)) || exit 0

install=(apt-get install --yes --no-install-recommends "${missing[@]}")
as_root=()
if ((EUID != 0)); then
  as_root=(sudo)
fi
if ! command -v apt-get >/dev/null || { ((EUID != 0)) && ! command -v sudo >/dev/null; }; then
  echo "setup: cannot install packages here; as root on Debian or Ubuntu run: ${install[*]}" >&2
  exit 1
fi
echo "setup: installing ${missing[*]} with apt-get"
"${as_root[@]}" apt-get update --quiet=2
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive "${install[@]}"
