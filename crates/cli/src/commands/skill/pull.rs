//! `skill pull`.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use clap::Args;
use client::Client;
use skill::signature::{SIGNATURE_FILE, Signature};
use skill::{Limits, Package};

use crate::output::Output;
use crate::output_directory::OutputDirectory;
use crate::{input, terminal};

#[derive(Args)]
pub struct PullArgs {
    /// The skill's name, or name@version.
    name: String,
    /// Directory to make, or file to write with --zip; the skill's name by default.
    #[arg(short = 'O', long = "out", value_name = "PATH")]
    out: Option<PathBuf>,
    /// Keep the zip as it is stored.
    #[arg(long)]
    zip: bool,
}

pub async fn run(client: &Client, args: &PullArgs, output: Output) -> Result<()> {
    let (name, version) = input::name_and_version(&args.name);
    let package = fetch(client, name, version).await?;
    let manifest = &package.manifest;
    let out = args.out.clone().unwrap_or_else(|| match args.zip {
        true => format!("{}-{}.zip", manifest.name, manifest.version).into(),
        false => manifest.name.clone().into(),
    });
    if out.exists() {
        bail!("{} exists already; remove it or choose another place with -O", out.display());
    }
    if args.zip {
        std::fs::write(&out, package.for_transport()?)
            .with_context(|| format!("cannot write {}", out.display()))?;
    } else {
        let target = OutputDirectory::open(&out)?;
        for file in &package.files {
            let mut incoming = target.create(&file.path, file.executable)?;
            incoming.write(&file.bytes)?;
            incoming.finish()?;
        }
        if let Some(signature) = &package.signature {
            let mut incoming = target.create(SIGNATURE_FILE, false)?;
            incoming.write(signature.as_bytes())?;
            incoming.finish()?;
        }
    }
    if output.is_json() {
        let pulled = serde_json::json!({"name": manifest.name, "version": manifest.version, "digest": package.digest, "path": out});
        output.line(&pulled.to_string())?;
    } else {
        output.line(&terminal::sanitize(&format!(
            "{}@{} in {}",
            manifest.name,
            manifest.version,
            out.display()
        )))?;
    }
    Ok(())
}

/// A published skill with its signature. The server is trusted no more than an upload: what it
/// sends passes the same checks before it touches the disk.
pub async fn fetch(client: &Client, name: &str, version: &str) -> Result<Package> {
    let limits = Limits::default();
    let max = usize::try_from(limits.unpacked_bytes).unwrap_or(usize::MAX);
    let skill = client.skill(name, version).await?;
    // `latest` may have moved on meanwhile; the signature belongs to one version.
    let zip = client.skill_content(name, &skill.version).await?.bytes(max).await?;
    let read = skill::read_archive(&zip, &limits);
    let mut package = read.context("the server sent an archive that is not a valid skill")?;
    if let Some(signature) = &skill.signature {
        signature.text.parse::<Signature>().context("the server sent a signature that is none")?;
        package.signature = Some(signature.text.clone());
    }
    Ok(package)
}
