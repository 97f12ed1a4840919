//! Reads skills from this machine's disk.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use anyhow::{Context, Result};
use skill::{Finding, OpenDirectory, Package, PackageLimits, SkillError};

/// Reads a directory or a zip. The outer error is an I/O error of ours (no such file), the inner
/// one says why the content is not a valid skill.
pub(crate) fn read(path: &Path) -> Result<Result<Package, SkillError>> {
    Ok(read_with_directory(path)?.0)
}

/// Like [`read`], and also returns the open directory that the skill was read from, if it was one.
pub(crate) fn read_with_directory(
    path: &Path,
) -> Result<(Result<Package, SkillError>, Option<OpenDirectory>)> {
    let context = || format!("cannot read {}", path.display());
    // Opened once, so that the type check and the content use the same descriptor: the path could
    // be replaced between two opens.
    let mut zip = match OpenDirectory::from_file(File::open(path).with_context(context)?, path)
        .with_context(context)?
    {
        Ok(tree) => {
            return Ok((skill::read_open_directory(&tree, &PackageLimits::default()), Some(tree)));
        }
        Err(file) => file,
    };
    let mut bytes = Vec::new();
    zip.read_to_end(&mut bytes).with_context(context)?;
    Ok((skill::read_archive(&bytes, &PackageLimits::default()), None))
}

/// Findings beyond those of the linter: from the scanner, and for schemas that a server could not
/// enforce.
pub(crate) fn extra_findings(package: &Package) -> Vec<Finding> {
    let mut findings = skill::scan(&package.files, package.entrypoint.as_ref());
    findings.extend(catalogue::unusable_schemas(package));
    findings
}

/// Reads a skill for commands that require a valid one, with all of its findings.
pub(crate) fn read_valid(path: &Path) -> Result<Package> {
    let read = read(path)?;
    let mut package =
        read.with_context(|| format!("{} is not a skill that can be published", path.display()))?;
    package.findings.extend(extra_findings(&package));
    Ok(package)
}
