//! Errors of reading a skill.
//!
//! Messages are for the author of the skill: they name the entry or the line and how to fix it, and
//! contain nothing about this server.

use std::path::PathBuf;

use crate::Finding;
use crate::signature::{SIGNATURE_FILE, SignatureError};

/// A skill that cannot be accepted.
#[derive(Debug, thiserror::Error)]
pub enum SkillError {
    /// The bytes are not a zip, or a damaged or unsupported one.
    #[error("{0}")]
    Archive(String),
    #[error(
        "there is no SKILL.md; put one at the root of the skill, or inside its single top directory"
    )]
    NoSkillFile,
    /// The manifest is invalid. Has all the errors, and at least one.
    #[error("{}", summarize(.0))]
    Invalid(Vec<Finding>),
    /// Content that no legitimate tool produces, or that other programs would unpack differently.
    #[error("{}{}", entry_prefix(.entry), .hazard.message())]
    Refused { hazard: Hazard, entry: Option<String> },
    #[error("the skill unpacks to more than {limit_bytes} bytes; leave out what it does not need")]
    TooLarge { limit_bytes: u64 },
    #[error("cannot read {}: {source}", .path.display())]
    Unreadable { path: PathBuf, source: std::io::Error },
    /// The signature file does not contain a signature.
    #[error("{}: {}", SIGNATURE_FILE, .0)]
    Signature(SignatureError),
    /// A stored archive does not match its digest.
    #[error("the stored archive does not match its digest")]
    Digest,
}

/// Why a readable archive is rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hazard {
    UnsafePath,
    Link,
    SpecialFile,
    Duplicate,
    TooManyEntries,
    Bomb,
    HeaderMismatch,
    Method,
    Encrypted,
    StrayData,
    Overlap,
}

impl SkillError {
    /// The slug of this error in API responses. Slugs never change.
    pub fn slug(&self) -> &'static str {
        match self {
            Self::Archive(_) | Self::NoSkillFile | Self::Invalid(_) => "invalid_skill",
            Self::Refused { hazard, .. } => hazard.slug(),
            Self::TooLarge { .. } => "too_large",
            Self::Unreadable { .. } => "unreadable",
            Self::Signature(_) => "signature_invalid",
            Self::Digest => "digest_mismatch",
        }
    }

    /// Whether the archive was rejected as dangerous, as opposed to invalid.
    pub fn is_hostile(&self) -> bool {
        matches!(self, Self::Refused { .. } | Self::Signature(_))
    }

    /// Whether a smaller skill would have been accepted.
    pub fn is_too_large(&self) -> bool {
        matches!(self, Self::TooLarge { .. })
    }

    pub(crate) fn archive(message: impl Into<String>) -> Self {
        Self::Archive(message.into())
    }

    pub(crate) fn invalid(
        code: &'static str,
        path: &str,
        line: u32,
        message: impl Into<String>,
    ) -> Self {
        Self::Invalid(vec![Finding::from_rule(code, message).at(path, line)])
    }

    /// The error as findings, each with its own code, for callers that only report.
    pub fn findings(&self) -> Vec<Finding> {
        let one = |code| Finding::from_rule(code, self.to_string());
        match self {
            Self::Invalid(findings) => findings.clone(),
            Self::Archive(_) => vec![one("not_an_archive")],
            Self::NoSkillFile => vec![one("no_skill_file")],
            Self::Refused { hazard, entry } => {
                vec![Finding { path: entry.clone(), ..one(hazard.slug()) }]
            }
            Self::Signature(_) => {
                vec![Finding { path: Some(SIGNATURE_FILE.to_owned()), ..one(self.slug()) }]
            }
            Self::TooLarge { .. } | Self::Unreadable { .. } | Self::Digest => {
                vec![one(self.slug())]
            }
        }
    }
}

impl Hazard {
    /// The slug of this hazard in API responses. Slugs never change.
    pub fn slug(self) -> &'static str {
        match self {
            Self::UnsafePath => "unsafe_path",
            Self::Link => "link_entry",
            Self::SpecialFile => "special_file",
            Self::Duplicate => "duplicate_entry",
            Self::TooManyEntries => "too_many_entries",
            Self::Bomb => "zip_bomb",
            Self::HeaderMismatch => "header_mismatch",
            Self::Method => "unsupported_method",
            Self::Encrypted => "encrypted_entry",
            Self::StrayData => "trailing_data",
            Self::Overlap => "overlapping_entries",
        }
    }

    fn message(self) -> &'static str {
        match self {
            Self::UnsafePath => {
                "the path is not a plain relative one in UTF-8 (no leading slash, drive, `..`, backslash, control character, `;` and a number at the end, nor excessive length or depth)"
            }
            Self::Link => "links are not allowed; put the file itself into the skill",
            Self::SpecialFile => "only regular files and directories are allowed",
            Self::Duplicate => {
                "the name occurs twice, differs from another only in case or in how its letters are encoded, or is both a file and a directory"
            }
            Self::TooManyEntries => {
                "the skill has too many entries; leave out what it does not need"
            }
            Self::Bomb => "the content is compressed too strongly to be accepted",
            Self::HeaderMismatch => {
                "the archive describes this entry in contradicting ways; pack it again"
            }
            Self::Method => "only stored and deflated entries are read; pack with plain zip",
            Self::Encrypted => "encrypted entries are not read; pack without a password",
            Self::StrayData => {
                "the archive has bytes that belong to no entry, before, between or after them; pack it again"
            }
            Self::Overlap => "entries of the archive overlap; pack it again",
        }
    }

    /// This hazard found in the named entry.
    pub(crate) fn in_entry(self, entry: &str) -> SkillError {
        SkillError::Refused { hazard: self, entry: Some(printable(entry)) }
    }

    /// This hazard found in the archive as a whole.
    pub(crate) fn in_archive(self) -> SkillError {
        SkillError::Refused { hazard: self, entry: None }
    }
}

/// Text from an untrusted file for use in a message: short, and without control characters, which a
/// terminal would execute.
pub(crate) fn printable(text: &str) -> String {
    const MAX_CHARS: usize = 80;
    let mut short: String = text.chars().take(MAX_CHARS).flat_map(char::escape_debug).collect();
    if text.chars().nth(MAX_CHARS).is_some() {
        short.push('…');
    }
    short
}

/// The first finding, and the number of others.
fn summarize(findings: &[Finding]) -> String {
    let first = findings.first().map(Finding::to_string).unwrap_or_default();
    match findings.len() {
        0 | 1 => first,
        2 => format!("{first} (and one more problem)"),
        count => format!("{first} (and {} more problems)", count - 1),
    }
}

fn entry_prefix(entry: &Option<String>) -> String {
    entry.as_ref().map(|entry| format!("`{entry}`: ")).unwrap_or_default()
}
