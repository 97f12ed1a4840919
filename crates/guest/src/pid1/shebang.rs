//! Parses the interpreter from the first line of an executable file.
//!
//! The kernel does that itself, but not on a file system mounted `noexec`, such as those of a
//! container.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;

/// The length that the kernel reads.
const MAX_LINE_BYTES: u64 = 256;

/// The interpreter and its optional argument, if this is an executable file with a shebang line.
pub(super) fn interpreter(path: &str) -> Option<Vec<String>> {
    let file = File::open(path).ok().filter(|_| path.contains('/'))?;
    let metadata = file.metadata().ok()?;
    if !metadata.is_file() || metadata.permissions().mode() & 0o111 == 0 {
        return None;
    }
    let mut start = Vec::new();
    file.take(MAX_LINE_BYTES).read_to_end(&mut start).ok()?;
    parse(&start)
}

/// Everything after the first blank is one argument, as in the kernel.
fn parse(start: &[u8]) -> Option<Vec<String>> {
    let line = start.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    let line = std::str::from_utf8(line).ok()?.trim_matches([' ', '\t']);
    let (program, argument) = line.split_once([' ', '\t']).unwrap_or((line, ""));
    let words = [program, argument.trim_start_matches([' ', '\t'])]
        .into_iter()
        .filter(|word| !word.is_empty());
    let words: Vec<String> = words.map(str::to_owned).collect();
    (!words.is_empty()).then_some(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_shebang_lines_like_the_kernel() {
        let table: [(&str, Option<&[&str]>); 6] = [
            ("#!/bin/sh\necho", Some(&["/bin/sh"])),
            ("#! /usr/bin/env  python3 -u \n", Some(&["/usr/bin/env", "python3 -u"])),
            ("#!/bin/sh", Some(&["/bin/sh"])),
            ("#!\n", None),
            ("echo", None),
            ("", None),
        ];
        for (text, expected) in table {
            let expected =
                expected.map(|words| words.iter().map(|word| word.to_string()).collect::<Vec<_>>());
            assert_eq!(parse(text.as_bytes()), expected, "{text:?}");
        }
    }
}
