//! The crate from outside: skills that are accepted, and the many that are not.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop where it is")]

// What the fuzz targets take their macro from; here it is the one in `fuzzed`.
extern crate self as libfuzzer_sys;

mod accepted;
mod bounds;
mod canonical;
mod corpus;
mod directory;
mod findings;
mod fuzzed;
mod hostile;
mod manifest;
mod memory;
mod mutants;
mod peers;
mod scan;
mod signature;
mod styles;
mod support;
