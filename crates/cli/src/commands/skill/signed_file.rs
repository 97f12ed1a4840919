//! `skill sign --file` and `skill verify --file`: signatures over any file, such as the checksums
//! of a release.
//!
//! The format is the one of minisign: `minisign -V -p KEY -m FILE` accepts these signatures, and
//! `verify` accepts those of minisign.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use serde_json::json;
use skill::signature::{
    PublicKey, SecretKey, Signature, SignatureError, SkillStatement, VerifiedSignature,
};

use crate::output::Output;
use crate::terminal;

pub(super) fn sign(
    path: &Path,
    key: &SecretKey,
    out: Option<&Path>,
    signed_at: u64,
    output: Output,
) -> Result<ExitCode> {
    let content = read(path)?;
    // A signature of a statement is a valid signature of that skill. Only `sign DIR` may make one,
    // because it checks the skill first.
    if content.starts_with(SkillStatement::HEADER.as_bytes()) {
        bail!("{} is the statement of a skill; sign the skill without --file", path.display());
    }
    let comment = format!("timestamp:{signed_at}\tfile:{}\thashed", file_name(path)?);
    let signature = key.sign(&content, "skillbox file signature", &comment);
    let out = out.map_or_else(|| signature_path(path), Path::to_owned);
    std::fs::write(&out, signature.to_string())
        .with_context(|| format!("cannot write {}", out.display()))?;
    let key_id = signature.key_id().to_string();
    match output.is_json() {
        true => output.line(&json!({"file": path, "key_id": key_id, "path": out}).to_string())?,
        false => {
            output.line(&format!("{} signed with {key_id} in {}", path.display(), out.display()))?
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Exit code 1 means that the signature is missing or does not match, 2 that the file could not be
/// read.
pub(super) fn verify(
    path: &Path,
    signature: Option<&Path>,
    keys: &[PublicKey],
    output: Output,
) -> Result<ExitCode> {
    let content = read(path)?;
    let signature = signature.map_or_else(|| signature_path(path), Path::to_owned);
    let checked = check(&content, &signature, keys);
    report(path, &checked, output)?;
    Ok(if checked.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn check(
    content: &[u8],
    signature: &Path,
    keys: &[PublicKey],
) -> Result<VerifiedSignature, String> {
    let text = std::fs::read_to_string(signature).map_err(|error| {
        format!("the signature {} cannot be read: {error}", signature.display())
    })?;
    let signature: Signature = text.parse().map_err(|error: SignatureError| error.to_string())?;
    let key = keys.iter().find(|key| key.id() == signature.key_id());
    let key = key
        .ok_or_else(|| format!("the key {} is not one of the trusted keys", signature.key_id()))?;
    signature.verify(key, content).map_err(|error| error.to_string())
}

fn report(path: &Path, checked: &Result<VerifiedSignature, String>, output: Output) -> Result<()> {
    if output.is_json() {
        let (verified, problem) = (checked.as_ref().ok(), checked.as_ref().err());
        let report = json!({
            "file": path, "verified": checked.is_ok(), "problem": problem,
            "key_id": verified.map(|verified| verified.key_id.to_string()),
            "signed_at": verified.and_then(|verified| verified.signed_at),
            "comment": verified.map(|verified| &verified.trusted_comment),
        });
        return Ok(output.line(&report.to_string())?);
    }
    let line = match checked {
        Ok(verified) => {
            format!(
                "{} is signed with {} ({})",
                path.display(),
                verified.key_id,
                verified.trusted_comment
            )
        }
        Err(problem) => format!("{}: {problem}", path.display()),
    };
    Ok(output.line(&terminal::sanitize(&line))?)
}

fn read(path: &Path) -> Result<Vec<u8>> {
    std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))
}

/// The name for the trusted comment, which is a single line and so cannot contain control characters.
fn file_name(path: &Path) -> Result<&str> {
    let name = path.file_name().and_then(|name| name.to_str());
    let name = name.filter(|name| !name.contains(char::is_control));
    name.with_context(|| {
        format!(
            "the file name of {} cannot be written to a signature; rename the file",
            path.display()
        )
    })
}

/// The path at which minisign writes and expects the signature of a file.
fn signature_path(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".minisig");
    name.into()
}
