//! Skill packages: `SKILL.md`, the files around it, and the canonical archive made from them.
//!
//! All input is untrusted. The crate is pure except for [`read_directory`]: it knows no HTTP, no
//! database and no sandbox, and its callers decide what to do about an error.
//!
//! Three readers ([`read_archive`], [`read_directory`], [`read_parts`]) return a [`Package`]; the
//! same content has the same digest with each of them.

#![forbid(unsafe_code)]

mod archive;
mod canonical;
mod collector;
mod directory;
mod error;
mod file_index;
mod finding;
mod frontmatter;

mod invisible;
mod languages;
mod limits;
mod lint;
mod manifest;
mod manifest_sources;
mod open_directory;
mod package;
mod path;
mod permissions;
mod profile;
mod rules;
mod scan;
mod script;
pub mod signature;
mod units;
mod yaml;

pub use archive::{declared_unpacked_bytes, read_archive};
pub use canonical::SkillFile;
pub use directory::{read_directory, read_open_directory};
pub use error::{Hazard, SkillError};
pub use file_index::{IndexedFile, index_files, verify_and_index};
pub use finding::{Finding, Severity};
pub use frontmatter::read_frontmatter;
pub use limits::PackageLimits;
pub use manifest::{Manifest, SkillMode, SkillResources};
pub use open_directory::OpenDirectory;
pub use package::{Package, read_parts};
pub use path::is_skill;
pub use permissions::{
    EgressRule, EnvVarPermissions, FilesystemPermissions, NetworkPermissions, Permissions,
    SyscallPermissions,
};
pub use profile::Profile;
pub use rules::{FindingRule, RULES};
pub use scan::{SCAN_RULES, scan};
pub use script::{Shim, SkillScript};
pub use units::{
    UnitError, format_cpu, format_duration, format_memory, parse_cpu, parse_duration, parse_memory,
};
