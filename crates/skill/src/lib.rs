//! A skill as a value: `SKILL.md`, the files around it, and the one canonical archive they become.
//!
//! Everything that arrives here is hostile until read. The crate is pure but for
//! [`read_directory`]: it knows no HTTP, no database and no sandbox, and whoever uses it decides
//! what a refusal means.
//!
//! Three readers ([`read_archive`], [`read_directory`], [`read_parts`]) end in the same
//! [`Package`]; the same content gives the same digest whichever way it came.

#![forbid(unsafe_code)]

mod archive;
mod canonical;
mod dialect;
mod directory;
mod error;
mod file_index;
mod finding;
mod frontmatter;
mod intake;
mod invisible;
mod languages;
mod limits;
mod lint;
mod manifest;
mod package;
mod path;
mod permissions;
mod profile;
mod rules;
mod scan;
mod script;
pub mod signature;
mod tree;
mod units;
mod yaml;

pub use archive::{read_archive, unpacked_bytes};
pub use canonical::SkillFile;
pub use directory::{read_directory, read_tree};
pub use error::{Hazard, SkillError};
pub use file_index::{IndexedFile, file_index, index_canonical};
pub use finding::{Finding, Severity};
pub use frontmatter::frontmatter;
pub use limits::Limits;
pub use manifest::{Manifest, Mode, Resources};
pub use package::{Package, read_parts};
pub use path::is_skill;
pub use permissions::{Egress, EnvVars, Filesystem, Network, Permissions, Syscalls};
pub use profile::Profile;
pub use rules::{RULES, Rule};
pub use scan::{SCAN_RULES, scan};
pub use script::{Script, Shim};
pub use tree::Tree;
pub use units::{
    UnitError, format_cpu, format_duration, format_memory, parse_cpu, parse_duration, parse_memory,
};
