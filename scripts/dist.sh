#!/usr/bin/env bash
# Builds the release files in target/dist:
#   skillbox-V-linux-ARCH.tar.gz        the program, shell completions, licence
#   skillbox-V-py3-none-PLATFORM.whl    the Python package with the program, which pip installs into PATH
#   skillbox-V-py3-none-any.whl         the Python package without the program, for other platforms
#   skillbox-V.tgz                      the npm package, with a command that starts the program
#   skillbox-linux-ARCH-V.tgz           the npm package with the program, an optional dependency of skillbox-V.tgz
#   skillbox-V-image.tar.gz             the container image, for `docker load`
#   skillbox-V.cdx.json                 the SBOM of the program
#   SHA256SUMS, *.minisig, skillbox.pub checksums, and signatures that `skillbox skill verify --file` and minisign verify
#
#   scripts/dist.sh                     builds the program with the release profile first
#   scripts/dist.sh PROGRAM [DIR]       packages this program, into DIR
#   RELEASE_KEY                         the secret signing key (default: a key that is created in target/release-key)
#   RELEASE_PASSWORD_FILE               the file with its password, if it has one
set -euo pipefail
cd "$(dirname "$0")/.."

target=${CARGO_TARGET_DIR:-target}
program=${1-} dist=${2:-$target/dist}
if [[ -z $program ]]; then
  cargo build --locked --release --bin skillbox
  program=$target/release/skillbox
fi
scripts/setup-tests.sh python3 venv node npm
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml)
arch=$(uname -m)
# Reproducible builds: every timestamp is that of the commit.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export SOURCE_DATE_EPOCH PYTHONDONTWRITEBYTECODE=1

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
rm -rf "$dist"
mkdir -p "$dist"
dist=$(realpath "$dist")

# The SDKs have the same version as the program, so all three must match.
check_versions() {
  local found
  for found in "$("$program" version -o json | python3 -c 'import json, sys; print(json.load(sys.stdin)["version"])')" \
    "$(sed -n 's/^VERSION = "\(.*\)"$/\1/p' sdks/python/src/skillbox/_version.py)" \
    "$(node -p 'require("./sdks/typescript/package.json").version')"; do
    [[ $found == "$version" ]] || { echo "dist: the version is $version in Cargo.toml, but $found elsewhere" >&2; exit 1; }
  done
}

# Debug information would be most of the size of each package, and only developers need it.
strip_program() {
  install -m 755 "$program" "$work/skillbox"
  strip "$work/skillbox"
  program=$work/skillbox
}

build_tarball() {
  local root=$work/skillbox-$version
  mkdir -p "$root/completions"
  cp "$program" README.md CHANGELOG.md LICENSE "$root"
  "$program" completions bash >"$root/completions/skillbox.bash"
  "$program" completions zsh >"$root/completions/_skillbox"
  "$program" completions fish >"$root/completions/skillbox.fish"
  tar --create --directory "$work" --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner \
    --mode=u+w,go-w,a+rX "skillbox-$version" | gzip -n9 >"$dist/skillbox-$version-linux-$arch.tar.gz"
}

build_wheels() {
  cp -r sdks/python "$work/python"
  python3 -m venv "$work/venv"
  "$work/venv/bin/pip" wheel --quiet --disable-pip-version-check --no-deps --wheel-dir "$work" "$work/python"
  cp "$work/skillbox-$version-py3-none-any.whl" "$dist"
  python3 scripts/dist/wheel.py "$work/skillbox-$version-py3-none-any.whl" "$program" "$dist"
}

build_npm_packages() {
  [[ -d sdks/typescript/node_modules ]] ||
    npm --prefix sdks/typescript install --no-package-lock --no-audit --no-fund --loglevel=error
  npm --prefix sdks/typescript run --silent build
  cp -r sdks/typescript "$work/npm"
  rm -r sdks/typescript/dist
  node scripts/dist/npm.mjs "$work/npm" "$program" "$work/npm-program"
  npm pack "$work/npm" "$work/npm-program" --ignore-scripts --silent --pack-destination "$dist" >/dev/null
}

# The release key is created only once, so that users who trust its public key can detect files signed by another key.
sign() {
  local key=${RELEASE_KEY:-$target/release-key/skillbox.key} file
  local password=(${RELEASE_PASSWORD_FILE:+--password-file "$RELEASE_PASSWORD_FILE"})
  if [[ ! -e $key ]]; then
    [[ -z ${RELEASE_KEY-} ]] || { echo "dist: there is no key $key" >&2; exit 1; }
    mkdir -p -m 700 "${key%/*}"
    "$program" skill keygen --key "$key" --no-password >/dev/null 2>&1
  fi
  for file in "$dist"/*; do
    "$program" skill sign --file "$file" --key "$key" "${password[@]}" >/dev/null
  done
  cp "${key%.key}.pub" "$dist/skillbox.pub"
  [[ -n ${RELEASE_KEY-} ]] || echo "dist: signed with this machine's key $key; name the project's with RELEASE_KEY" >&2
}

check_versions
strip_program
build_tarball
build_wheels
build_npm_packages
python3 scripts/dist/image.py deploy/docker/Dockerfile "$program" "$version" | gzip -n9 >"$dist/skillbox-$version-image.tar.gz"
scripts/sbom.sh "$dist/skillbox-$version.cdx.json" >/dev/null
(cd "$dist" && sha256sum -- * >SHA256SUMS)
sign
ls -l "$dist" | awk 'NR > 1 { printf "%10d  %s\n", $5, $NF }'
