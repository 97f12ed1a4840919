//! `skill keygen`, `skill sign` and `skill statement`: signatures that are compatible with minisign.

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};
use clap::Args;
use serde_json::json;
use skill::signature::{SIGNATURE_FILE, SecretKey, SignatureError, SkillStatement};

use super::signed_file;
use crate::output::{Output, note};
use crate::output_directory::OutputDirectory;
use crate::skill_reader;

#[derive(Args)]
pub(crate) struct KeygenArgs {
    /// File for the secret key. The public key is written beside it with the extension .pub.
    #[arg(long, value_name = "FILE", default_value = "skillbox.key")]
    key: PathBuf,
    #[command(flatten)]
    password: PasswordArgs,
    /// Do not encrypt the secret key.
    #[arg(long, conflicts_with = "password_file")]
    no_password: bool,
}

#[derive(Args)]
pub(crate) struct SignArgs {
    /// The skill's directory, or its zip with --out.
    #[arg(value_name = "DIR|ZIP|FILE")]
    path: PathBuf,
    /// Sign the file itself instead of a skill: writes FILE.minisig, which minisign can verify.
    #[arg(long)]
    file: bool,
    /// The secret key, from `skill keygen` or from minisign.
    #[arg(long, value_name = "FILE")]
    key: PathBuf,
    #[command(flatten)]
    password: PasswordArgs,
    /// File to write instead of SKILL.md.minisig in the directory.
    #[arg(short = 'O', long = "out", value_name = "FILE")]
    out: Option<PathBuf>,
}

#[derive(Args)]
pub(crate) struct StatementArgs {
    /// The skill's directory or zip.
    #[arg(value_name = "DIR|ZIP")]
    path: PathBuf,
}

#[derive(Args)]
struct PasswordArgs {
    /// Read the password of the key from the first line of this file instead of prompting for it.
    #[arg(long, value_name = "FILE")]
    password_file: Option<PathBuf>,
}

pub(super) fn keygen(args: &KeygenArgs, output: Output) -> Result<ExitCode> {
    let public_path = args.key.with_extension("pub");
    for path in [&args.key, &public_path] {
        if path.exists() {
            bail!("{} already exists; choose another file with --key", path.display());
        }
    }
    let key = SecretKey::from_seed(rand::random())?;
    let text = match args.no_password {
        true => key.to_file(None)?,
        false => key.to_file(Some((&args.password.new_password()?, rand::random())))?,
    };
    let public = key.public();
    write_new(&args.key, text.as_bytes(), 0o600)?;
    write_new(&public_path, public.to_file().as_bytes(), 0o644)?;
    if output.is_json() {
        let report = json!({
            "key_id": public.id().to_string(), "public_key": public.to_string(),
            "key": args.key, "public_key_file": public_path,
        });
        output.line(&report.to_string())?;
    } else {
        output.line(&public.to_string())?;
        note(&format!(
            "key {} in {} and {}",
            public.id(),
            args.key.display(),
            public_path.display()
        ));
        note(&format!("next: skillbox trust key add {}", public_path.display()));
    }
    Ok(ExitCode::SUCCESS)
}

pub(super) fn sign(args: &SignArgs, output: Output) -> Result<ExitCode> {
    if args.file {
        let key = secret_key(&args.key, &args.password)?;
        return signed_file::sign(&args.path, &key, args.out.as_deref(), now(), output);
    }
    let root = match &args.out {
        Some(_) => None,
        None => Some(skill_root(&args.path)?),
    };
    let package = skill_reader::read_valid(&args.path)?;
    let key = secret_key(&args.key, &args.password)?;
    let statement = SkillStatement::from_package(&package);
    let signature = statement.sign(&key, now());
    let out = write_signature(&signature.to_string(), args.out.as_deref(), root)?;
    if output.is_json() {
        let report = json!({
            "name": statement.name, "version": statement.version, "digest": statement.digest,
            "key_id": signature.key_id().to_string(), "path": out,
        });
        output.line(&report.to_string())?;
    } else {
        let SkillStatement { name, version, digest } = statement;
        output.line(&format!(
            "{name}@{version} {digest} signed with {} in {}",
            signature.key_id(),
            out.display()
        ))?;
    }
    Ok(ExitCode::SUCCESS)
}

pub(super) fn statement(args: &StatementArgs, output: Output) -> Result<ExitCode> {
    let package = skill_reader::read_valid(&args.path)?;
    let statement = SkillStatement::from_package(&package);
    match output.is_json() {
        true => {
            let SkillStatement { name, version, digest } = statement;
            let text = statement.to_string();
            output.line(
                &json!({"name": name, "version": version, "digest": digest, "statement": text})
                    .to_string(),
            )?;
        }
        false => output.bytes(statement.to_string().as_bytes())?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Writes to the file that the user selected, or into the skill. A link with the name of the file
/// inside the skill is not followed, because the skill may be untrusted.
fn write_signature(text: &str, out: Option<&Path>, root: Option<&Path>) -> Result<PathBuf> {
    let Some(root) = root else {
        let out = out.unwrap_or(Path::new(SIGNATURE_FILE));
        std::fs::write(out, text).with_context(|| format!("cannot write {}", out.display()))?;
        return Ok(out.to_owned());
    };
    let mut file = OutputDirectory::open(root)?.create(SIGNATURE_FILE, false)?;
    file.write(text.as_bytes())?;
    file.finish()?;
    Ok(root.join(SIGNATURE_FILE))
}

/// The directory with `SKILL.md`. An upload finds the signature only beside that file.
fn skill_root(path: &Path) -> Result<&Path> {
    if !path.is_dir() {
        bail!("{} is not a directory; set the signature file with --out", path.display());
    }
    let entries =
        std::fs::read_dir(path).with_context(|| format!("cannot read {}", path.display()))?;
    let is_skill_file =
        |entry: std::fs::DirEntry| entry.file_name().eq_ignore_ascii_case("SKILL.md");
    match entries.filter_map(Result::ok).any(is_skill_file) {
        true => Ok(path),
        false => bail!("{} has no SKILL.md; give the directory that contains it", path.display()),
    }
}

fn secret_key(path: &Path, password: &PasswordArgs) -> Result<SecretKey> {
    let text =
        std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let decode = |password: Option<&str>| SecretKey::read(&text, password);
    match decode(None) {
        Err(SignatureError::Locked) => {
            decode(Some(&password.password("Password of the secret key: ")?))
        }
        result => result,
    }
    .with_context(|| format!("cannot use {}", path.display()))
}

impl PasswordArgs {
    fn password(&self, prompt: &str) -> Result<String> {
        let Some(path) = &self.password_file else {
            return rpassword::prompt_password(prompt)
                .context("cannot prompt for the password without a terminal; use --password-file");
        };
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("cannot read {}", path.display()))?;
        Ok(text.lines().next().unwrap_or_default().to_owned())
    }

    /// Prompts twice, because a typo would make the key unusable.
    fn new_password(&self) -> Result<String> {
        let password = self.password("Password for the new key: ")?;
        if password.is_empty() {
            bail!("the password is empty; use --no-password for a key without a password");
        }
        if self.password_file.is_none() && self.password("Repeat the password: ")? != password {
            bail!("the two passwords differ");
        }
        Ok(password)
    }
}

/// Creates a file that must not exist yet. The mode is set at creation, so that a secret is never
/// readable by others, not even for a moment.
fn write_new(path: &Path, bytes: &[u8], mode: u32) -> Result<()> {
    let file = OpenOptions::new().write(true).create_new(true).mode(mode).open(path);
    file.and_then(|mut file| file.write_all(bytes))
        .with_context(|| format!("cannot write {}", path.display()))
}

fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
