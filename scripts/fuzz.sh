#!/usr/bin/env bash
# Fuzzes the archive reader and the SKILL.md parser with libFuzzer: scripts/fuzz.sh [RUNS of each, default one million]
# It uses the stable compiler of the workspace; RUSTC_BOOTSTRAP enables the instrumentation flags.
set -euo pipefail
cd "$(dirname "$0")/../crates/skill/fuzz"
runs=${1:-1000000}

target=${CARGO_TARGET_DIR:-$PWD/target}/fuzz
host=$(rustc -vV | sed -n 's/^host: //p')
export RUSTC_BOOTSTRAP=1 CARGO_TARGET_DIR=$target
# The same flags as cargo-fuzz. With an explicit --target, build scripts are not instrumented.
export RUSTFLAGS='--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4
  -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table
  -Cllvm-args=-sanitizer-coverage-trace-compares -Ccodegen-units=1'
RUSTFLAGS= cargo run --quiet --bin seeds -- corpus
cargo build --release --target "$host" --bin archive --bin skill_file

for name in archive skill_file; do
  echo "fuzz: $runs executions of $name"
  mkdir -p "artifacts/$name"
  # Rejecting an input may allocate at most 64 MiB; libFuzzer and its corpus need some more.
  "$target/$host/release/$name" "corpus/$name" -runs="$runs" -max_len=4096 -seed=1 -malloc_limit_mb=64 \
    -artifact_prefix="artifacts/$name/" -print_final_stats=1 2>&1 | grep -E 'DONE|stat::|ERROR|panicked|SUMMARY|Test unit'
done
