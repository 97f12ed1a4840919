//! A scanned file: its text with line numbers, and which of its lines run.

use std::borrow::Cow;
use std::ops::Range;

use crate::{Finding, Severity};

/// How the text of a file is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TextKind {
    /// An interpreter reads it.
    Code,
    /// People and models read it.
    Prose,
    /// Programs read it as data.
    Data,
}

/// The text of one file.
pub(super) struct ScannedFile<'a> {
    pub path: &'a str,
    pub text: &'a str,
    pub kind: TextKind,
    line_starts: Vec<usize>,
    /// The content of fenced blocks, in prose.
    fences: Vec<Range<usize>>,
}

const CODE: &[&str] = &[
    "py", "pyw", "js", "mjs", "cjs", "jsx", "ts", "mts", "tsx", "sh", "bash", "zsh", "fish", "rb",
    "pl", "php", "ps1", "bat", "cmd", "lua", "r", "go", "rs", "java", "c", "cc", "cpp", "cs",
    "swift", "kt", "mk", "pth",
];
const PROSE: &[&str] = &["md", "markdown", "mdx", "txt", "rst", "adoc", "html", "htm"];
const CODE_NAMES: &[&str] = &["Makefile", "Dockerfile", "Containerfile", "Justfile"];

impl TextKind {
    fn of(path: &str, text: &str) -> Self {
        let name = file_name(path);
        let extension = name
            .rsplit_once('.')
            .map(|(_, extension)| extension.to_ascii_lowercase())
            .unwrap_or_default();
        if CODE.contains(&extension.as_str())
            || CODE_NAMES.contains(&name)
            || text.starts_with("#!")
        {
            Self::Code
        } else if PROSE.contains(&extension.as_str()) && name != "requirements.txt" {
            Self::Prose
        } else {
            Self::Data
        }
    }

    /// Whether these are the first bytes of a program for Linux, Windows or macOS.
    pub(super) fn is_program(bytes: &[u8]) -> bool {
        const MACHO: [[u8; 4]; 3] =
            [[0xcf, 0xfa, 0xed, 0xfe], [0xce, 0xfa, 0xed, 0xfe], [0xca, 0xfe, 0xba, 0xbe]];
        bytes.starts_with(b"\x7fELF")
            || MACHO.iter().any(|magic| bytes.starts_with(magic))
            || (bytes.starts_with(b"MZ") && bytes.contains(&0))
    }
}

/// The text of a file as its readers decode it, and its kind; `None` for binary data.
///
/// An invalid byte does not stop an interpreter or a model from reading the rest, so only data must
/// be valid throughout. NUL is removed, because shells ignore it.
pub(super) fn read<'a>(
    path: &str,
    bytes: &'a [u8],
    runs: bool,
) -> Option<(Cow<'a, str>, TextKind)> {
    let whole = match std::str::from_utf8(bytes) {
        Ok(text) => Some(text),
        // The scanned part ends in the middle of a character.
        Err(error) if error.error_len().is_none() => {
            std::str::from_utf8(&bytes[..error.valid_up_to()]).ok()
        }
        Err(_) => None,
    };
    let clean = whole.filter(|text| !text.contains('\0')).map(Cow::Borrowed);
    let is_text = clean.is_some();
    let text = clean.unwrap_or_else(|| String::from_utf8_lossy(bytes).replace('\0', "").into());
    let kind = TextKind::of(path, &text);
    (is_text || runs || kind != TextKind::Data).then_some((text, kind))
}

impl<'a> ScannedFile<'a> {
    pub(super) fn new(path: &'a str, text: &'a str, kind: TextKind) -> Self {
        let line_starts =
            std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect();
        let fences = if kind == TextKind::Prose { fences(text) } else { Vec::new() };
        Self { path, text, kind, line_starts, fences }
    }

    pub(super) fn file_name(&self) -> &'a str {
        file_name(self.path)
    }

    /// Whether the file is in a directory of test data.
    pub(super) fn is_test_data(&self) -> bool {
        let directories =
            self.path.rsplit_once('/').map(|(directories, _)| directories).unwrap_or_default();
        let is_tests = |part: &str| {
            matches!(part, "test" | "tests" | "__tests__" | "testdata" | "fixtures" | "spec")
        };
        directories.split('/').any(is_tests) || self.file_name().starts_with("test_")
    }

    /// The number of the line with this offset.
    pub(super) fn line_of(&self, at: usize) -> u32 {
        let lines = self.line_starts.partition_point(|start| *start <= at);
        u32::try_from(lines).unwrap_or(u32::MAX)
    }

    /// The line with this offset.
    fn line_at(&self, at: usize) -> &'a str {
        let next = self.line_starts.partition_point(|start| *start <= at);
        let start = next.checked_sub(1).map_or(0, |line| self.line_starts[line]);
        let end = self.line_starts.get(next).copied().unwrap_or(self.text.len());
        &self.text[start..end]
    }

    /// The text around this offset on the same line.
    pub(super) fn around(&self, at: usize) -> &'a str {
        const NEAR: usize = 100;
        let line = self.line_at(at);
        let start = line.as_ptr().addr() - self.text.as_ptr().addr();
        let boundary = |at: usize| {
            (at..=line.len()).find(|at| line.is_char_boundary(*at)).unwrap_or(line.len())
        };
        let (from, to) = ((at - start).saturating_sub(NEAR), (at - start + NEAR).min(line.len()));
        &line[boundary(from)..boundary(to)]
    }

    /// Lines with their numbers.
    pub(super) fn lines(&self) -> impl Iterator<Item = (u32, &'a str)> {
        (1..).zip(self.text.lines())
    }

    /// The severity of code at this offset; `None` where it does not run. Comments do not run. A
    /// fenced block in prose is run only by a reader, who can see it, so its severity is lower.
    pub(super) fn severity_at(&self, at: usize, severity: Severity) -> Option<Severity> {
        match self.kind {
            TextKind::Code => (!is_comment(self.line_at(at))).then_some(severity),
            TextKind::Prose if self.fences.iter().any(|fence| fence.contains(&at)) => {
                Some(match severity {
                    Severity::Error => Severity::Warning,
                    _ => Severity::Info,
                })
            }
            TextKind::Prose | TextKind::Data => None,
        }
    }

    pub(super) fn finding(
        &self,
        code: &'static str,
        severity: Severity,
        at: usize,
        message: &str,
    ) -> Finding {
        Finding::new(code, severity, message).at(self.path, self.line_of(at))
    }
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

fn is_comment(line: &str) -> bool {
    let line = line.trim_start();
    let shebang = line.starts_with("#!");
    !shebang
        && (line.starts_with('#')
            || line.starts_with("//")
            || line.starts_with("* ")
            || line.starts_with("/*"))
}

fn fences(text: &str) -> Vec<Range<usize>> {
    let mut fences = Vec::new();
    let mut open: Option<(usize, &str)> = None;
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let mark = line.trim_start();
        let mark = &mark[..mark.len() - mark.trim_start_matches(['`', '~']).len()];
        match open {
            None if mark.len() >= 3 => open = Some((at + line.len(), mark)),
            Some((start, opened)) if mark.starts_with(opened) => {
                fences.push(start..at);
                open = None;
            }
            _ => {}
        }
        at += line.len();
    }
    fences.extend(open.map(|(start, _)| start..text.len()));
    fences
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn severity_depends_on_whether_the_line_runs() {
        let severity = |path: &str, text: &'static str| {
            let (_, kind) = read(path, text.as_bytes(), false).expect("text");
            ScannedFile::new(path, text, kind)
                .severity_at(text.find("evil").expect("there"), Severity::Error)
        };
        for (path, text, expected) in [
            ("a.sh", "x\nevil\n", Some(Severity::Error)),
            ("tool", "#!/bin/sh\nevil", Some(Severity::Error)),
            ("a.sh", "  # evil", None),
            ("a.js", "// evil", None),
            ("a.md", "evil", None),
            ("a.md", "```sh\nevil\n```\n", Some(Severity::Warning)),
            ("a.md", "~~~\nx\nevil", Some(Severity::Warning)),
            ("a.md", "```sh\nx\n```\nevil\n", None),
            ("a.json", "evil", None),
            ("requirements.txt", "evil", None),
        ] {
            assert_eq!(severity(path, text), expected, "{path} {text:?}");
        }
    }

    #[test]
    fn lines_count_from_one_and_truncation_keeps_whole_characters() {
        let (text, kind) = read("a", &"a\nbé".as_bytes()[..4], false).expect("text");
        let source = ScannedFile::new("a", &text, kind);
        assert_eq!((source.text, source.line_of(0), source.line_of(2)), ("a\nb", 1, 2));
    }

    #[test]
    fn invalid_bytes_do_not_hide_the_rest() {
        for (bytes, text) in
            [(&b"a\xffb"[..], "a\u{fffd}b"), (b"a\0b", "ab"), (b"\xff\0", "\u{fffd}")]
        {
            assert_eq!(read("a.bin", bytes, false), None);
            assert_eq!(read("a.bin", bytes, true), Some((text.into(), TextKind::Data)));
            assert_eq!(read("a.sh", bytes, false), Some((text.into(), TextKind::Code)));
            assert_eq!(read("a.md", bytes, false), Some((text.into(), TextKind::Prose)));
        }
    }
}
