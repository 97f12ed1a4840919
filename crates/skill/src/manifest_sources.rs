//! The files that a manifest is read from: `SKILL.md`, a Skillware manifest, a sidecar.

use crate::canonical::SkillFile;
use crate::finding::Diagnostics;
use crate::frontmatter::{Frontmatter, check_size, validate_text};
use crate::manifest::{ManifestSources, YamlDocument, defines_execute};
use crate::path::{SIDECAR, SKILLWARE_CODE, SKILLWARE_MANIFEST, SKILLWARE_TEXT, is_skill_file};
use crate::script::{Shim, SkillScript};
use crate::{PackageLimits, SkillError, lint, yaml};

/// Longer code is not searched for a class.
const MAX_CODE_BYTES: u64 = 2 << 20;

/// The maximum size of a file that the manifest is read from, or that decides which other file it
/// is read from; `None` for other files.
pub(crate) fn max_bytes(path: &str, limits: &PackageLimits) -> Option<u64> {
    match path {
        SIDECAR | SKILLWARE_MANIFEST => Some(yaml::MAX_BYTES as u64),
        SKILLWARE_TEXT => Some(limits.skill_file_bytes),
        SKILLWARE_CODE => Some(MAX_CODE_BYTES),
        _ => is_skill_file(path).then_some(limits.skill_file_bytes),
    }
}

/// The manifest sources of the skill. With a `SKILL.md` it is an ordinary skill, whatever other
/// files there are.
pub(crate) fn find<'a>(
    files: &'a [SkillFile],
    limits: &PackageLimits,
    diagnostics: &mut Diagnostics,
) -> Result<ManifestSources<'a>, SkillError> {
    let named = |name: &str| files.iter().find(|file| file.path == name);
    let sidecar = named(SIDECAR).map(read_yaml).transpose()?;
    if let Some(file) = files.iter().find(|file| is_skill_file(&file.path)) {
        let frontmatter = Frontmatter::read(&file.path, &file.bytes, limits)?;
        diagnostics.lints.extend(lint::lint_skill_file(&frontmatter));
        return Ok(ManifestSources::SkillFile(frontmatter, sidecar));
    }
    let is_code = |file: &&SkillFile| {
        file.bytes.len() as u64 <= MAX_CODE_BYTES && defines_execute(&file.bytes)
    };
    let code = named(SKILLWARE_CODE).filter(is_code);
    if let (Some(manifest), Some(_)) = (named(SKILLWARE_MANIFEST), code) {
        let text = named(SKILLWARE_TEXT).map(|file| read_instructions(file, limits)).transpose()?;
        return Ok(ManifestSources::Skillware(
            read_yaml(manifest)?,
            text.unwrap_or_default().trim(),
            sidecar,
        ));
    }
    sidecar.map(ManifestSources::Sidecar).ok_or(SkillError::NoSkillFile)
}

/// Marks the code of a Skillware skill, whose class is run by our shim.
pub(crate) fn set_shim(scripts: &mut [SkillScript]) {
    for script in scripts.iter_mut().filter(|script| script.path == SKILLWARE_CODE) {
        script.shim = Some(Shim::Skillware);
    }
}

fn read_instructions<'a>(
    file: &'a SkillFile,
    limits: &PackageLimits,
) -> Result<&'a str, SkillError> {
    check_size(&file.path, file.bytes.len() as u64, limits)?;
    validate_text(&file.path, &file.bytes)
}

fn read_yaml(file: &SkillFile) -> Result<YamlDocument<'_>, SkillError> {
    YamlDocument::read(&file.path, &file.bytes)
}
