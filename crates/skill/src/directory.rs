//! Reading a skill from a directory, for the command line.
//!
//! The only place of this crate that touches the file system. Links are refused rather than followed, so that packing a
//! directory never picks up anything from outside it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::intake::{Content, Intake};
use crate::package::{self, Package};
use crate::{Hazard, Limits, SkillError, path};

/// Reads the skill in `dir` as it would arrive from an upload of that directory.
pub fn read_directory(dir: &Path, limits: &Limits) -> Result<Package, SkillError> {
    let dir = fs::canonicalize(dir).map_err(|source| unreadable(dir, source))?;
    let name = dir.file_name().and_then(|name| name.to_str()).map(str::to_owned);
    let mut intake = Intake::new(limits);
    // Paths below `dir`, with `/` between components and at the end.
    let mut waiting = vec![String::new()];
    while let Some(prefix) = waiting.pop() {
        let place = dir.join(&prefix);
        for entry in fs::read_dir(&place).map_err(|source| unreadable(&place, source))? {
            let entry = entry.map_err(|source| unreadable(&place, source))?;
            let name = entry.file_name();
            let name = name.to_str().ok_or_else(|| Hazard::UnsafePath.of(&format!("{prefix}{}", name.display())))?;
            let name = format!("{prefix}{name}");
            if !path::is_junk(&name) {
                waiting.extend(take(&entry, name, &mut intake)?);
            }
        }
    }
    package::assemble(intake, name)
}

/// Takes one entry in; for a directory returns its name, still to be walked.
fn take(entry: &fs::DirEntry, name: String, intake: &mut Intake<'_>) -> Result<Option<String>, SkillError> {
    let place = entry.path();
    let metadata = entry.metadata().map_err(|source| unreadable(&place, source))?;
    if metadata.is_dir() {
        intake.directory(&name)?;
        return Ok(Some(name + "/"));
    }
    if metadata.is_symlink() {
        return Err(Hazard::Link.of(&name));
    }
    if !metadata.is_file() {
        return Err(Hazard::SpecialFile.of(&name));
    }
    let executable = metadata.permissions().mode() & 0o111 != 0;
    let size = metadata.len();
    intake.file(&name, Some(executable), size, Content::OnDisk { place, size })?;
    Ok(None)
}

fn unreadable(path: &Path, source: std::io::Error) -> SkillError {
    SkillError::Unreadable { path: path.to_owned(), source }
}
