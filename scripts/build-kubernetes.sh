#!/usr/bin/env bash
# Builds the Kubernetes that scripts/test-cluster.sh runs, from the source package of Debian 12, which has no packages of its server:
#   scripts/build-kubernetes.sh <directory>
# Then <directory>/bin holds etcd, kubectl, kube-apiserver, kube-controller-manager, kube-scheduler and kubelet. Nothing is installed:
# packages are unpacked in the directory, and the package manager's own lists and sources stay as they are.
set -euo pipefail

target=${1:?usage: build-kubernetes.sh <directory>}
release=1.20.2
commands=(kube-apiserver kube-controller-manager kube-scheduler kubelet)

mkdir -p "$target"
target=$(realpath "$target")
work=$(mktemp -d "$target/work.XXXXXX")
trap 'rm -rf "$work"' EXIT
# The package manager drops to a user of its own to download.
chmod 755 "$work"

say() { echo "build-kubernetes: $* ($(date +%T))" >&2; }

# The package manager with lists and sources of our own: those of the machine, and those of the sources with them.
own_apt() {
  apt-get --quiet=2 -o Dir::Etc::sourcelist="$work/apt/sources.list" -o Dir::Etc::sourceparts="$work/apt/parts" \
    -o Dir::State::lists="$work/apt/lists" -o Dir::Cache="$work/apt/cache" "$@"
}

fetch() {
  mkdir -p "$work/apt/parts" "$work/apt/lists/partial" "$work/apt/cache/archives/partial" "$work/packages"
  sed -n 's/^deb /&/p; s/^deb /deb-src /p' /etc/apt/sources.list >"$work/apt/sources.list" 2>/dev/null || true
  local part
  for part in /etc/apt/sources.list.d/*.sources; do
    [[ ! -f $part ]] || sed 's/^Types: deb$/Types: deb deb-src/' "$part" >"$work/apt/parts/${part##*/}"
  done
  own_apt update
  cd "$work/packages"
  own_apt download golang-1.19-go golang-1.19-src etcd-server kubernetes-client
  own_apt source --download-only kubernetes
  local package
  for package in *.deb; do dpkg -x "$package" "$work/root"; done
  tar -xf kubernetes_*.orig.tar.gz -C "$work"
}

# The source as a workspace of Go's: it is older than modules are good for.
prepare() {
  export GOROOT=$work/root/usr/lib/go-1.19 GOPATH=$work/go GOCACHE=$work/go-cache GO111MODULE=off GOFLAGS='' CGO_ENABLED=0
  export GOMAXPROCS=${GOMAXPROCS:-$(nproc)}
  mkdir -p "$GOPATH/src/k8s.io"
  mv "$work/kubernetes-$release" "$GOPATH/src/k8s.io/kubernetes"
  cd "$GOPATH/src/k8s.io/kubernetes"
  # Since Go 1.18 the runtime fills an iterator that its caller brings, so this one must be as large as the runtime's.
  cd vendor/github.com/modern-go/reflect2
  sed -i -e 's/^\(func mapiterinit(rtype unsafe.Pointer, m unsafe.Pointer\)) \*hiter$/\1, it *hiter)/' \
    -e 's|// rest fields are ignored|pointers [6]unsafe.Pointer\n\tnumbers [4]uintptr|' unsafe_link.go
  sed -i -e 's/^\treturn &UnsafeMapIterator{$/\tvar it hiter\n\tmapiterinit(type2.rtype, *(*unsafe.Pointer)(obj), \&it)\n&/' \
    -e 's/^\(\t\thiter: *\)mapiterinit.*/\1\&it,/' unsafe_map.go
  cd -
  # Root without the capability to do so, as in many a container, could not start a pod that is spared when memory is short.
  sed -i 's/\(OOM[A-Za-z]*Adj *int *= \)-[0-9]*$/\10/' pkg/kubelet/dockershim/docker_sandbox.go pkg/kubelet/qos/policy.go
}

go_build() { nice -n 10 "$GOROOT/bin/go" build -p "$GOMAXPROCS" -o "$work/bin/" "$@"; }

# The one generated file that the source does not bring: the API's description of itself.
generate_openapi() {
  local tag='+k8s:openapi-gen=' inputs
  inputs=$(grep --recursive --files-with-matches --include='*.go' --exclude='*_test.go' -e "$tag" pkg cmd plugin staging/src/k8s.io |
    grep --invert-match -e /code-generator/ -e /sample-apiserver/ | xargs -n1 dirname | sort --unique |
    sed 's|^staging/src/|vendor/|; s|^|k8s.io/kubernetes/|' | paste --serial --delimiters=,)
  go_build ./vendor/k8s.io/kube-openapi/cmd/openapi-gen
  PATH=$GOROOT/bin:$PATH nice -n 10 "$work/bin/openapi-gen" --input-dirs "$inputs" --report-filename /dev/null \
    --output-package k8s.io/kubernetes/pkg/generated/openapi --output-file-base zz_generated.openapi \
    --go-header-file vendor/k8s.io/code-generator/hack/boilerplate.go.txt
}

build() {
  local flags='-s -w' package command
  for package in client-go/pkg component-base; do
    package=k8s.io/kubernetes/vendor/k8s.io/$package/version
    flags+=" -X $package.gitVersion=v$release -X $package.gitMajor=1 -X $package.gitMinor=20"
  done
  for command in "${commands[@]}"; do
    say "building $command"
    # Without the clouds, which are most of what there is to compile.
    go_build -tags providerless -ldflags "$flags" "./cmd/$command"
  done
}

say 'fetching the sources and a Go'
fetch
prepare >/dev/null
generate_openapi
build
rm "$work/bin/openapi-gen"
mv "$work/root/usr/bin/"{etcd,kubectl} "$work/bin/"
rm -rf "$target/bin"
mv "$work/bin" "$target/bin"
say 'built'
