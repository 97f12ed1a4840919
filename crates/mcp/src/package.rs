//! Skills that are packages in memory, for providers that have them so.

use data_encoding::HEXLOWER;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use skill::{Package, SkillFile};

use crate::provider::{FileContents, LoadedSkill, SkillFileInfo, is_skill_md};
use crate::provider_error::ProviderError;

impl From<Package> for LoadedSkill {
    fn from(package: Package) -> LoadedSkill {
        let info = |file: &SkillFile| SkillFileInfo {
            path: file.path.clone(),
            size: file.bytes.len() as u64,
            sha256: HEXLOWER.encode(&Sha256::digest(&file.bytes)),
        };
        let skill_md = package.files.iter().find(|file| is_skill_md(&file.path));
        LoadedSkill {
            frontmatter: skill_md.map(|file| parse_frontmatter(&file.bytes)).unwrap_or_default(),
            files: package.files.iter().map(info).collect(),
            manifest: package.manifest,
            scripts: package.scripts,
            entrypoint: package.entrypoint.map(|script| script.path),
            digest: package.digest,
        }
    }
}

/// The frontmatter of a `SKILL.md` as it was written; empty when it cannot be parsed.
pub fn parse_frontmatter(skill_md: &[u8]) -> Map<String, Value> {
    match skill::read_frontmatter(skill_md) {
        Ok(Value::Object(fields)) => fields,
        Ok(_) | Err(_) => Map::new(),
    }
}

/// One file of a package, by its exact path.
pub fn read_package_file(
    package: &Package,
    path: &str,
    max_bytes: usize,
) -> Result<FileContents, ProviderError> {
    let not_found = || ProviderError::FileNotFound {
        skill: package.manifest.name.clone(),
        path: path.to_owned(),
    };
    let file = package.files.iter().find(|file| file.path == path).ok_or_else(not_found)?;
    match file.bytes.len() > max_bytes {
        true => Err(ProviderError::TooLarge { size: file.bytes.len() as u64, max_bytes }),
        false => Ok(FileContents { bytes: file.bytes.to_vec(), content_type: None }),
    }
}
