# The commands of a developer's day. `make` alone lists them.
.DEFAULT_GOAL := help
.PHONY: help run test test-sdks test-deploy test-dist test-uml test-kubernetes fmt lint sbom dist unit integration bench bench-store fuzz openapi docs-reference clean

# Arguments for the service, as in `make run ARGS=--once`.
ARGS ?=
# How many executions of each fuzz target.
RUNS ?= 1000000
SKILLBOX := cargo run --bin skillbox --

help: ## list these targets
	@sed -n 's/^\([a-z -]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 32

run: ## build, start the embedded service, push the examples and run one (ARGS=--once: then stop)
	@scripts/setup-tests.sh cc python3
	@echo "building Skillbox; the first time takes some minutes"
	@$(SKILLBOX) serve --demo examples/skills $(ARGS)

test: ## everything: install what tests need, format, lints, all tests, a summary
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

test-dist: ## only the release packages, made from target/debug/skillbox and installed into clean places
	@scripts/test-dist.sh

test-uml: ## the tests under a user-mode kernel of their own, which has cgroup v2
	@scripts/setup-tests.sh
	@KERNEL=uml scripts/test.sh

test-kubernetes: ## pods on a real Kubernetes, built from Debian's sources the first time (root)
	@scripts/setup-tests.sh
	@scripts/test-kubernetes.sh

fmt: ## format the code and wrap the Markdown
	cargo fmt --all
	@scripts/wrap-markdown.py

lint: ## format check (code and Markdown), clippy with warnings denied, licences, sources and duplicates of dependencies, and their SBOM
	cargo fmt --all --check
	@scripts/wrap-markdown.py --check
	@scripts/check-links.py
	cargo clippy --workspace --all-targets -- -D warnings
	@scripts/deny.sh
	@scripts/sbom.sh test

sbom: ## write target/sbom/skillbox.cdx.json: every crate in the program, as CycloneDX
	@scripts/sbom.sh

dist: ## build the files of a release in target/dist: tarball, wheel, npm packages, image, SBOM, signatures
	@scripts/dist.sh

unit: ## only the tests beside the code
	@scripts/test.sh --lib --bins

integration: ## only the integration tests
	@scripts/setup-tests.sh
	@scripts/test.sh --test '*'

bench: ## one request against bare python3, release build, printed side by side
	cargo run --release --bin skillbox -- bench

bench-store: ## what a throw-away Postgres here records and claims a second, release build (ARGS=--seconds 60)
	cargo build --release --bin skillbox
	scripts/bench-store.sh $(ARGS)

fuzz: ## a million executions each of the readers of archives and of SKILL.md (RUNS=n: that many)
	@scripts/setup-tests.sh cc c++
	@scripts/fuzz.sh $(RUNS)

openapi docs-reference: ## write openapi.json and docs/configuration.md again from the code
	UPDATE=1 cargo test -p server --test it committed

clean: ## remove everything that was built
	cargo clean
