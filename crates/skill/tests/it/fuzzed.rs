//! The fuzz targets, compiled with everything else and run on their seeds, so that they do not rot
//! between two runs of `make fuzz`.

use crate::corpus::{SKILL_FILES, archives};

#[expect(unused_attributes, reason = "a target is a program of its own when it is fuzzed")]
#[path = "../../fuzz/fuzz_targets/archive.rs"]
mod archive;
#[expect(unused_attributes, reason = "a target is a program of its own when it is fuzzed")]
#[path = "../../fuzz/fuzz_targets/skill_file.rs"]
mod skill_file;

/// Stands in for libFuzzer's, which calls the same code.
#[macro_export]
macro_rules! fuzz_target {
    (|$bytes:ident: &[u8]| $body:block) => {
        pub(crate) fn fuzz($bytes: &[u8]) {
            $body
        }
    };
}

#[test]
fn the_fuzz_targets_pass_on_their_seeds() {
    for (_, bytes) in archives() {
        archive::fuzz(&bytes);
    }
    for text in SKILL_FILES {
        skill_file::fuzz(text.as_bytes());
    }
}
