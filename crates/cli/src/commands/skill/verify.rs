//! `skill verify`: checks whether a skill is signed with a trusted key. For a local skill no server is
//! contacted.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::Args;
use serde_json::json;
use skill::Package;
use skill::signature::{PublicKey, Signature, SignatureError, SkillStatement, VerifiedSignature};

use super::{pull, signed_file};
use crate::args::Global;
use crate::output::Output;
use crate::{connection, input, skill_reader, terminal};

#[derive(Args)]
pub(crate) struct VerifyArgs {
    /// A directory or zip, or the name or name@version of a published skill.
    #[arg(value_name = "DIR|ZIP|NAME|FILE")]
    skill: String,
    /// Verify the signature of the file itself instead of a skill: reads FILE.minisig.
    #[arg(long)]
    file: bool,
    /// A trusted key: a public key file, or its base64 line. May be given several times.
    #[arg(long = "key", required = true, value_name = "PUBKEY")]
    keys: Vec<String>,
    /// Read the signature from this file instead of the skill.
    #[arg(long, value_name = "FILE")]
    signature: Option<PathBuf>,
}

/// Exit code 1 means that the skill is not trusted, 2 that this could not be determined.
pub(super) async fn run(global: &Global, args: &VerifyArgs, output: Output) -> Result<ExitCode> {
    let keys = public_keys(&args.keys)?;
    if args.file {
        return signed_file::verify(
            Path::new(&args.skill),
            args.signature.as_deref(),
            &keys,
            output,
        );
    }
    let mut package = match Path::new(&args.skill) {
        path if path.exists() => skill_reader::read_valid(path)?,
        _ => {
            let (name, version) = input::name_and_version(&args.skill);
            pull::fetch(&connection::open(global)?, name, version).await?
        }
    };
    if let Some(path) = &args.signature {
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("cannot read {}", path.display()))?;
        package.signature = Some(text);
    }
    let checked = check(&package, &keys);
    report(&package, &checked, output)?;
    Ok(if checked.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Parses public keys. Each value is the path of a file, or the key itself.
pub(crate) fn public_keys(values: &[String]) -> Result<Vec<PublicKey>> {
    let key = |value: &String| {
        let path = Path::new(value);
        let text = match path.exists() {
            true => {
                std::fs::read_to_string(path).with_context(|| format!("cannot read {value}"))?
            }
            false => value.clone(),
        };
        text.parse().with_context(|| format!("{value} is neither a file nor a public key"))
    };
    values.iter().map(key).collect()
}

fn check(package: &Package, keys: &[PublicKey]) -> Result<VerifiedSignature, String> {
    let Some(text) = &package.signature else { return Err("the skill is not signed".to_owned()) };
    let signature: Signature = text.parse().map_err(|error: SignatureError| error.to_string())?;
    let Some(key) = keys.iter().find(|key| key.id() == signature.key_id()) else {
        return Err(format!(
            "it is signed with the key {}, which is not one of the given keys",
            signature.key_id()
        ));
    };
    let statement = SkillStatement::from_package(package).to_string();
    let verified = signature.verify(key, statement.as_bytes());
    verified.map_err(|_| "its signature does not match its name, version and content".to_owned())
}

fn report(
    package: &Package,
    checked: &Result<VerifiedSignature, String>,
    output: Output,
) -> Result<()> {
    let SkillStatement { name, version, digest } = SkillStatement::from_package(package);
    if output.is_json() {
        let (verified, problem) = (checked.as_ref().ok(), checked.as_ref().err());
        let report = json!({
            "name": name, "version": version, "digest": digest, "verified": checked.is_ok(), "problem": problem,
            "key_id": verified.map(|verified| verified.key_id.to_string()),
            "signed_at": verified.and_then(|verified| verified.signed_at),
            "comment": verified.map(|verified| &verified.trusted_comment),
        });
        return Ok(output.line(&report.to_string())?);
    }
    let line = match checked {
        Ok(verified) => {
            let comment = &verified.trusted_comment;
            format!("{name}@{version} {digest} is signed with {} ({comment})", verified.key_id)
        }
        Err(problem) => format!("{name}@{version} {digest}: {problem}"),
    };
    Ok(output.line(&terminal::sanitize(&line))?)
}
