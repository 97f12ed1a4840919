//! A skill that was read: everything the rest of Skillbox wants to know about it.

use bytes::Bytes;

use crate::canonical::{self, SkillFile};
use crate::frontmatter::Frontmatter;
use crate::intake::{Content, Intake};
use crate::manifest::Manifest;
use crate::script::{self, Lang, Script};
use crate::{Finding, Limits, SkillError, lint, path};

/// A skill, whole and checked.
#[derive(Debug, Clone)]
pub struct Package {
    pub manifest: Manifest,
    /// All files in path order; the bytes are views into `archive`.
    pub files: Vec<SkillFile>,
    /// The files that can run.
    pub scripts: Vec<Script>,
    /// What runs when the caller names no script.
    pub entrypoint: Option<Script>,
    /// `sha256:<hex>` of `archive`.
    pub digest: String,
    /// The canonical zip, which is what is stored.
    pub archive: Bytes,
    pub findings: Vec<Finding>,
}

impl Package {
    /// The declared language, else that of the entrypoint.
    pub fn lang(&self) -> Option<Lang> {
        let of_entrypoint = self.entrypoint.as_ref().map(|script| script.lang);
        self.manifest.lang.or(of_entrypoint)
    }
}

/// Reads a skill that arrived as separate files, each with its path below the skill or below one wrapper directory.
pub fn read_parts(parts: Vec<(String, Vec<u8>)>, limits: &Limits) -> Result<Package, SkillError> {
    let mut intake = Intake::new(limits);
    for (name, bytes) in parts {
        intake.file(&name, None, bytes.len() as u64, Content::Bytes(bytes))?;
    }
    assemble(intake, None)
}

/// Turns what a reader took in into a package. `directory` is the name of the directory it lay in, if it did.
pub(crate) fn assemble(mut intake: Intake<'_>, directory: Option<String>) -> Result<Package, SkillError> {
    let directory = intake.unwrap().or(directory);
    let Intake { limits, sources, junk, .. } = intake;
    // Looked for before anything is unpacked, so that what is no skill costs nothing.
    if !sources.iter().any(|source| path::is_skill_file(&source.path)) {
        return Err(SkillError::NoSkillFile);
    }
    let canonical = canonical::pack(sources)?;
    let files = canonical.files;
    let skill_file = files.iter().find(|file| path::is_skill_file(&file.path)).ok_or(SkillError::NoSkillFile)?;

    let scripts = script::find_scripts(&files);
    let frontmatter = Frontmatter::read(&skill_file.bytes, limits)?;
    let mut findings = lint::text(&frontmatter);
    let manifest = Manifest::read(frontmatter, !scripts.is_empty(), &mut findings)?;
    let entrypoint = find_entrypoint(&manifest, &files, &scripts);

    let subject = lint::Subject {
        manifest: &manifest,
        files: &files,
        scripts: &scripts,
        entrypoint: entrypoint.as_ref(),
        directory: directory.as_deref(),
        junk,
    };
    findings.extend(subject.findings());
    Ok(Package { manifest, scripts, entrypoint, digest: canonical.digest, archive: canonical.archive, findings, files })
}

/// The declared entrypoint if it can run, else the default one if none is declared.
fn find_entrypoint(manifest: &Manifest, files: &[SkillFile], scripts: &[Script]) -> Option<Script> {
    let Some(declared) = &manifest.entrypoint else {
        let found = script::default_entrypoint(scripts, manifest.lang)?;
        let lang = manifest.lang.unwrap_or(found.lang);
        return Some(Script { lang, ..found.clone() });
    };
    let path = declared.strip_prefix("./").unwrap_or(declared);
    let file = files.iter().find(|file| file.path == path)?;
    let lang = manifest.lang.or_else(|| Lang::of(file))?;
    let path = path.to_owned();
    Some(Script { path, lang })
}
