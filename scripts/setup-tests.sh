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
    docker) command -v dockerd >/dev/null && command -v containerd >/dev/null && command -v docker >/dev/null ;;
    compose) docker compose version >/dev/null 2>&1 || command -v docker-compose >/dev/null ;;
    venv) python3 -c 'import ensurepip, venv' 2>/dev/null ;;
    prometheus) /usr/bin/python3 -c 'import prometheus_client' 2>/dev/null ;;
    *) command -v "$1" >/dev/null ;;
  esac
}

# The Debian packages that meet the need $1.
packages() {
  case $1 in
    cc) echo gcc libc6-dev ;;
    c++) echo g++ ;;
    node) echo nodejs ;;
    ip) echo iproute2 ;;
    postgres) echo postgresql ;;
    uml) echo user-mode-linux ;;
    docker) echo docker.io ;;
    compose) echo docker-compose ;;
    debootstrap) echo debootstrap debian-archive-keyring ;;
    venv) echo python3-venv ;;
    prometheus) echo python3-prometheus-client ;;
    kubectl) echo kubernetes-client ;;
    *) echo "$1" ;;
  esac
}

# What the need $1 is for.
reason() {
  case $1 in
    cc) echo 'links the program and, statically, the guest' ;;
    c++) echo 'builds libFuzzer' ;;
    python3 | node | bash) echo 'runs skills' ;;
    chromium) echo 'a browser that the TypeScript SDK is tested in' ;;
    npm) echo 'brings what the TypeScript SDK is built and tested with' ;;
    curl) echo 'repeats what the demo prints' ;;
    jq) echo 'reads the results in the picture of the README' ;;
    zip | unzip) echo 'makes and reads archives to compare with ours' ;;
    minisign) echo 'makes and checks signatures to compare with ours' ;;
    uml) echo 'a second kernel for the tests' ;;
    docker) echo 'a private engine for the container sandbox' ;;
    runsc) echo 'gVisor, a second runtime for that engine' ;;
    debootstrap) echo 'makes the images of the runtimes, which no registry has to give' ;;
    compose) echo 'reads docker-compose.yml as its users do' ;;
    venv) echo 'a place of its own for the object store that tests use' ;;
    ip) echo 'gives pods an address' ;;
    openssl) echo 'makes the certificates of the clusters for tests' ;;
    prometheus) echo 'reads the metrics as their users do' ;;
    kubectl) echo 'asks our stand-in for Kubernetes what it asks the real one' ;;
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

if (($# == 0)); then
  set -- cc python3 node bash curl jq zip unzip minisign postgres venv prometheus
  # An engine needs root, so nobody else needs its programs.
  ((EUID != 0)) || set -- "$@" docker runsc debootstrap compose
fi
missing=()
for need in "$@"; do
  present "$need" && continue
  for package in $(packages "$need"); do missing+=("$package"); done
  echo "setup: missing $need: $(reason "$need")"
done
((${#missing[@]} > 0)) || exit 0

# Another process may hold the package manager's lock.
install=(apt-get -o DPkg::Lock::Timeout=300 install --yes --no-install-recommends "${missing[@]}")
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
