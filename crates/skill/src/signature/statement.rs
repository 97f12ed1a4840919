//! The statement that is signed about a skill.

use std::fmt;

use super::{SecretKey, Signature};
use crate::Package;

/// Name, version and content of one skill. A signature is over exactly this text, so it cannot be
/// moved to another name, another version or other content; `SKILL.md`, with everything it
/// declares, is part of the content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SkillStatement<'a> {
    pub name: &'a str,
    pub version: &'a str,
    pub digest: &'a str,
}

impl<'a> SkillStatement<'a> {
    /// The first line of every statement.
    pub const HEADER: &'static str = "skillbox skill statement 1\n";

    pub fn from_package(package: &'a Package) -> SkillStatement<'a> {
        let manifest = &package.manifest;
        SkillStatement { name: &manifest.name, version: &manifest.version, digest: &package.digest }
    }

    /// Signs the statement. `signed_at` is in seconds since 1970.
    pub fn sign(&self, key: &SecretKey, signed_at: u64) -> Signature {
        let about = format!("timestamp:{signed_at}\tskill:{}@{}", self.name, self.version);
        key.sign(self.to_string().as_bytes(), "skillbox skill signature", &about)
    }
}

/// The signed text. None of the three values can contain a line break, so it is unambiguous.
impl fmt::Display for SkillStatement<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SkillStatement { name, version, digest } = self;
        let header = Self::HEADER;
        write!(f, "{header}name: {name}\nversion: {version}\ndigest: {digest}\n")
    }
}
