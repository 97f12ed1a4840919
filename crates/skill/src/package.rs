//! A skill that was read and checked.

use bytes::Bytes;
use language::Language;

use crate::canonical::{self, CanonicalArchive, SkillFile};
use crate::collector::{FileCollector, FileContent, SourceFile};
use crate::finding::Diagnostics;
use crate::manifest::{Manifest, ManifestSources, Origin};
use crate::script::{self, SkillScript};
use crate::signature::{self, SIGNATURE_FILE};
use crate::{Finding, PackageLimits, Profile, SkillError, lint, manifest_sources, path};

/// A complete, checked skill.
#[derive(Debug, Clone)]
pub struct Package {
    pub manifest: Manifest,
    /// All files in path order; the bytes are views into `archive`.
    pub files: Vec<SkillFile>,
    /// The files that can run.
    pub scripts: Vec<SkillScript>,
    /// The script that runs if the caller names none.
    pub entrypoint: Option<SkillScript>,
    /// `sha256:<hex>` of `archive`.
    pub digest: String,
    /// The canonical archive, which is stored.
    pub archive: Bytes,
    /// The findings of the default profile.
    pub findings: Vec<Finding>,
    /// The text of `SKILL.md.minisig`, which is not part of the archive. Only its format is checked
    /// here, not whether it is valid or trusted.
    pub signature: Option<String>,
    /// The lints of all profiles.
    lints: Vec<Finding>,
    /// The locations of the schemas.
    schemas: [Option<(String, u32)>; 2],
}

impl Package {
    /// The findings of this profile.
    pub fn findings_for(&self, profile: Profile) -> Vec<Finding> {
        profile.evaluate(&self.lints)
    }

    pub fn has_schema(&self) -> bool {
        self.manifest.input_schema.is_some() || self.manifest.output_schema.is_some()
    }

    /// A finding about `input_schema` or `output_schema`, located at that schema.
    pub fn locate_schema_finding(&self, key: &str, finding: Finding) -> Finding {
        let [input, output] = &self.schemas;
        match if key == "input_schema" { input } else { output } {
            Some((path, line)) => finding.at(path, *line),
            None => finding,
        }
    }

    /// The declared language, else that of the entrypoint.
    pub fn lang(&self) -> Option<Language> {
        let of_entrypoint = self.entrypoint.as_ref().map(|script| script.lang);
        self.manifest.lang.or(of_entrypoint)
    }

    /// A zip for an upload: the canonical archive, plus the signature if there is one.
    pub fn to_upload_archive(&self) -> Result<Bytes, SkillError> {
        let Some(signature) = &self.signature else { return Ok(self.archive.clone()) };
        let source = |path: &str, executable, bytes: &[u8]| SourceFile {
            path: path.to_owned(),
            executable: Some(executable),
            size: bytes.len() as u64,
            content: FileContent::Bytes(bytes.to_vec()),
        };
        let files = self.files.iter().map(|file| source(&file.path, file.executable, &file.bytes));
        let signature = source(SIGNATURE_FILE, false, signature.as_bytes());
        Ok(canonical::pack(files.chain([signature]).collect())?.archive)
    }
}

/// Reads a skill from separate files, whose paths are relative to the skill or to one wrapper
/// directory.
pub fn read_parts(
    parts: Vec<(String, Vec<u8>)>,
    limits: &PackageLimits,
) -> Result<Package, SkillError> {
    let mut collector = FileCollector::new(limits);
    for (name, bytes) in parts {
        collector.add_file(&name, None, bytes.len() as u64, FileContent::Bytes(bytes))?;
    }
    assemble(collector, None)
}

/// Assembles a package from the collected files. `directory` is the name of its directory, if it
/// was read from one.
pub(crate) fn assemble(
    mut collector: FileCollector<'_>,
    directory: Option<String>,
) -> Result<Package, SkillError> {
    let directory = collector.strip_wrapper().or(directory);
    // Checked before anything is unpacked, so that rejecting other archives is cheap.
    if !path::is_skill(collector.sources.iter().map(|source| source.path.as_str())) {
        return Err(SkillError::NoSkillFile);
    }
    // The signature is over the digest of the archive, so it cannot be part of the archive.
    let signature = signature::take_signature(&mut collector)?;
    if let Some(documents) = collector.precheck()? {
        read_manifest(&documents, &mut [], collector.limits, &mut Diagnostics::default())?;
    }
    let FileCollector { limits, sources, dropped_junk_files, .. } = collector;
    let CanonicalArchive { archive, digest, files } = canonical::pack(sources)?;

    let mut scripts = script::find_scripts(&files);
    let mut diagnostics = Diagnostics::default();
    let (manifest, origin) = read_manifest(&files, &mut scripts, limits, &mut diagnostics)?;
    let entrypoint = find_entrypoint(&manifest, &files, &scripts);

    let lint_input = lint::LintInput {
        manifest: &manifest,
        origin: &origin,
        files: &files,
        scripts: &scripts,
        entrypoint: entrypoint.as_ref(),
        directory: directory.as_deref(),
        dropped_junk_files,
    };
    let mut lints = diagnostics.lints;
    lints.extend(lint_input.lint());
    let lints = sort_findings(lints, origin.path);
    let findings = Profile::Default.evaluate(&lints);
    let schemas = [origin.input_schema, origin.output_schema]
        .map(|place| place.map(|(path, line)| (path.to_owned(), line)));
    Ok(Package {
        manifest,
        scripts,
        entrypoint,
        digest,
        archive,
        findings,
        lints,
        schemas,
        files,
        signature,
    })
}

/// The manifest, or all of its errors. No other file is read.
fn read_manifest<'a>(
    files: &'a [SkillFile],
    scripts: &mut [SkillScript],
    limits: &PackageLimits,
    diagnostics: &mut Diagnostics,
) -> Result<(Manifest, Origin<'a>), SkillError> {
    let sources = manifest_sources::find(files, limits, diagnostics)?;
    if let ManifestSources::Skillware(..) = sources {
        manifest_sources::set_shim(scripts);
    }
    let (manifest, origin) = Manifest::read(sources, !scripts.is_empty(), diagnostics);
    let problems = std::mem::take(&mut diagnostics.errors);
    if problems.is_empty() {
        Ok((manifest, origin))
    } else {
        Err(SkillError::Invalid(sort_findings(problems, origin.path)))
    }
}

/// In reading order: the manifest from top to bottom, then the other files.
fn sort_findings(mut findings: Vec<Finding>, manifest: &str) -> Vec<Finding> {
    findings.sort_by(|a, b| {
        let key = |finding: &Finding| {
            (finding.path.as_deref() != Some(manifest), finding.path.clone(), finding.line)
        };
        key(a).cmp(&key(b))
    });
    findings
}

/// The declared entrypoint if it can run, or the default one if none is declared.
fn find_entrypoint(
    manifest: &Manifest,
    files: &[SkillFile],
    scripts: &[SkillScript],
) -> Option<SkillScript> {
    let path = match &manifest.entrypoint {
        Some(declared) => declared.strip_prefix("./").unwrap_or(declared),
        None => script::default_entrypoint(scripts, manifest.lang)?.path.as_str(),
    };
    let file = files.iter().find(|file| file.path == path)?;
    let lang = manifest.lang.or_else(|| script::detect_language(file))?;
    let script = SkillScript::new(file, lang);
    // A command that names the interpreter ignores the shebang of the file.
    let flags = manifest.entrypoint_flags.clone().unwrap_or_else(|| script.flags.clone());
    let found = scripts.iter().find(|script| script.path == path).cloned();
    Some(SkillScript { lang, flags, ..found.unwrap_or(script) })
}
