//! Which files say what a skill is: `SKILL.md`, a Skillware manifest, a sidecar.

use crate::canonical::SkillFile;
use crate::finding::Notes;
use crate::frontmatter::{Frontmatter, check_len, clean_text};
use crate::manifest::{Sheet, Sheets, has_execute};
use crate::path::{SIDECAR, SKILLWARE_CODE, SKILLWARE_MANIFEST, SKILLWARE_TEXT, is_skill_file};
use crate::script::{Script, Shim};
use crate::{Limits, SkillError, lint, yaml};

/// Code longer than this is not looked through for a class.
const MOST_CODE_BYTES: u64 = 2 << 20;

/// How long a document is at most that says what a skill is, or decides which other file does;
/// nothing for other files.
pub(crate) fn most_bytes(path: &str, limits: &Limits) -> Option<u64> {
    match path {
        SIDECAR | SKILLWARE_MANIFEST => Some(yaml::MAX_BYTES as u64),
        SKILLWARE_TEXT => Some(limits.skill_file_bytes),
        SKILLWARE_CODE => Some(MOST_CODE_BYTES),
        _ => is_skill_file(path).then_some(limits.skill_file_bytes),
    }
}

/// The documents of the skill. A `SKILL.md` makes it an ordinary skill, whatever else lies beside
/// it.
pub(crate) fn sheets<'a>(
    files: &'a [SkillFile],
    limits: &Limits,
    notes: &mut Notes,
) -> Result<Sheets<'a>, SkillError> {
    let named = |name: &str| files.iter().find(|file| file.path == name);
    let sidecar = named(SIDECAR).map(sheet).transpose()?;
    if let Some(file) = files.iter().find(|file| is_skill_file(&file.path)) {
        let frontmatter = Frontmatter::read(&file.path, &file.bytes, limits)?;
        notes.remarks.extend(lint::text(&frontmatter));
        return Ok(Sheets::Open(frontmatter, sidecar));
    }
    let is_code =
        |file: &&SkillFile| file.bytes.len() as u64 <= MOST_CODE_BYTES && has_execute(&file.bytes);
    let code = named(SKILLWARE_CODE).filter(is_code);
    if let (Some(manifest), Some(_)) = (named(SKILLWARE_MANIFEST), code) {
        let text = named(SKILLWARE_TEXT).map(|file| text(file, limits)).transpose()?;
        return Ok(Sheets::Skillware(sheet(manifest)?, text.unwrap_or_default().trim(), sidecar));
    }
    sidecar.map(Sheets::Sidecar).ok_or(SkillError::NoSkillFile)
}

/// A Skillware skill runs through its class, however it is called.
pub(crate) fn mark_shim(scripts: &mut [Script]) {
    for script in scripts.iter_mut().filter(|script| script.path == SKILLWARE_CODE) {
        script.shim = Some(Shim::Skillware);
    }
}

fn text<'a>(file: &'a SkillFile, limits: &Limits) -> Result<&'a str, SkillError> {
    check_len(&file.path, file.bytes.len() as u64, limits)?;
    clean_text(&file.path, &file.bytes)
}

fn sheet(file: &SkillFile) -> Result<Sheet<'_>, SkillError> {
    Sheet::read(&file.path, &file.bytes)
}
