//! Any bytes as `SKILL.md`: refused as one, or read, with findings that name a line there is.
#![no_main]

use libfuzzer_sys::fuzz_target;
use skill::{PackageLimits, read_parts};

fuzz_target!(|bytes: &[u8]| {
    let parts = vec![("SKILL.md".to_owned(), bytes.to_vec()), ("main.py".to_owned(), Vec::new())];
    match read_parts(parts, &PackageLimits::default()) {
        Ok(package) => {
            // YAML takes a carriage return alone for the end of a line.
            let lines =
                bytes.iter().filter(|byte| matches!(byte, b'\n' | b'\r')).count() as u32 + 1;
            for finding in &package.findings {
                assert!(finding.line.is_none_or(|line| (1..=lines).contains(&line)), "{finding:?}");
            }
        }
        Err(error) => assert_eq!(error.slug(), "invalid_skill", "{error}"),
    }
});
