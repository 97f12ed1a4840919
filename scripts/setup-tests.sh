#!/usr/bin/env bash
# Installs missing dependencies for building and testing Skillbox on Debian or Ubuntu.
# With arguments, only these dependencies are checked: scripts/setup-tests.sh cc python3
set -euo pipefail

# Checks for the Postgres server programs. Debian does not install them into PATH.
postgres_programs() {
  command -v initdb >/dev/null || compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null
}

# Checks whether the dependency $1 is installed.
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

# Prints the Debian packages that provide the dependency $1.
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

# Prints what the dependency $1 is used for.
reason() {
  case $1 in
    cc) echo 'links the program and, statically, the guest' ;;
    c++) echo 'builds libFuzzer' ;;
    python3 | node | bash) echo 'runs skills' ;;
    chromium) echo 'a browser for the tests of the TypeScript SDK' ;;
    npm) echo 'installs the build and test dependencies of the TypeScript SDK' ;;
    curl) echo 'runs the commands that the demo prints' ;;
    jq) echo 'formats the results in the README image' ;;
    zip | unzip) echo 'creates and reads archives to compare with ours' ;;
    minisign) echo 'creates and verifies signatures to compare with ours' ;;
    uml) echo 'a second kernel for the tests' ;;
    docker) echo 'a private engine for container sandboxes' ;;
    runsc) echo 'gVisor, a second runtime for that engine' ;;
    debootstrap) echo 'builds the runtime images without a registry' ;;
    compose) echo 'checks docker-compose.yml' ;;
    venv) echo 'isolates the object store for tests' ;;
    ip) echo 'assigns addresses to pods' ;;
    openssl) echo 'creates certificates for test clusters' ;;
    prometheus) echo 'parses the metrics' ;;
    kubectl) echo 'client for the stand-in cluster' ;;
    postgres) echo 'a temporary cluster for the store tests; existing databases are not changed' ;;
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
  # An engine needs root, so its programs are only installed for root.
  ((EUID != 0)) || set -- "$@" docker runsc debootstrap compose
fi
missing=()
for need in "$@"; do
  present "$need" && continue
  for package in $(packages "$need"); do missing+=("$package"); done
  echo "setup: missing $need: $(reason "$need")"
done
((${#missing[@]} > 0)) || exit 0

# Wait if another process holds the lock of the package manager.
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
