# Targets for everyday development. `make` without a target lists them.
.DEFAULT_GOAL := help
.PHONY: help run test test-sdks test-deploy test-dist test-uml test-kubernetes fmt lint sbom dist unit integration bench bench-store fuzz openapi docs-reference clean

# Arguments for the program, as in `make run ARGS=--once`.
ARGS ?=
# Number of executions of each fuzz target.
RUNS ?= 1000000
SKILLBOX := cargo run --bin skillbox --

help: ## list these targets
	@sed -n 's/^\([a-z -]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 32

run: ## build, start the embedded service, publish the examples and run one (ARGS=--once: then exit)
	@scripts/setup-tests.sh cc python3
	@echo "building Skillbox; the first build takes a few minutes"
	@$(SKILLBOX) serve --demo examples/skills $(ARGS)

test: ## everything: install test dependencies, check format, run lints and all tests, print a summary
	@scripts/setup-tests.sh
	cargo fmt --all --check
	@scripts/wrap-markdown.py --check
	@scripts/check-links.py
	cargo clippy --workspace --all-targets -- -D warnings
	@scripts/deny.sh
	@scripts/sbom.sh test
	@scripts/test.sh
	@scripts/test-sdks.sh
	@scripts/test-deploy.sh
	@scripts/test-dist.sh

test-sdks: ## only the SDKs, against target/debug/skillbox
	@scripts/test-sdks.sh

test-deploy: ## only the Helm chart and the kustomizations, with target/debug/skillbox
	@scripts/test-deploy.sh

test-dist: ## only the release packages, built from target/debug/skillbox and installed into clean environments
	@scripts/test-dist.sh

test-uml: ## the tests under a dedicated user-mode kernel with cgroup v2
	@scripts/setup-tests.sh
	@KERNEL=uml scripts/test.sh

test-kubernetes: ## the tests that need a real Kubernetes, built from Debian's sources on first use (needs root)
	@scripts/setup-tests.sh
	@scripts/test-kubernetes.sh

fmt: ## format the code and wrap the Markdown
	cargo fmt --all
	@scripts/wrap-markdown.py

lint: ## check format (code and Markdown), clippy with warnings denied, dependency licences, sources and duplicates, and the SBOM
	cargo fmt --all --check
	@scripts/wrap-markdown.py --check
	@scripts/check-links.py
	cargo clippy --workspace --all-targets -- -D warnings
	@scripts/deny.sh
	@scripts/sbom.sh test

sbom: ## write target/sbom/skillbox.cdx.json, a CycloneDX SBOM with every crate of the program
	@scripts/sbom.sh

dist: ## build the release files in target/dist: tarball, wheel, npm packages, image, SBOM, signatures
	@scripts/dist.sh

unit: ## only the unit tests
	@scripts/test.sh --lib --bins

integration: ## only the integration tests
	@scripts/setup-tests.sh
	@scripts/test.sh --test '*'

bench: ## compare the latency of one request with plain python3 (release build)
	cargo run --release --bin skillbox -- bench

bench-store: ## measure executions recorded and claimed per second on a temporary local Postgres, release build (ARGS=--seconds 60)
	cargo build --release --bin skillbox
	scripts/bench-store.sh $(ARGS)

fuzz: ## fuzz the archive reader and the SKILL.md parser, a million executions each (RUNS=n sets the number)
	@scripts/setup-tests.sh cc c++
	@scripts/fuzz.sh $(RUNS)

openapi docs-reference: ## regenerate openapi.json and docs/configuration.md from the code
	UPDATE=1 cargo test -p server --test it committed

clean: ## remove all build output
	cargo clean
