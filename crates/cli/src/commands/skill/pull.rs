//! `skill pull`.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use clap::Args;
use client::Client;
use skill::signature::{SIGNATURE_FILE, Signature};
use skill::{Package, PackageLimits};

use crate::output::Output;
use crate::output_directory::OutputDirectory;
use crate::{input, terminal};

#[derive(Args)]
pub(crate) struct PullArgs {
    /// The skill's name, or name@version.
    name: String,
    /// Directory to create, or file to write with --zip. By default the skill's name.
    #[arg(short = 'O', long = "out", value_name = "PATH")]
    out: Option<PathBuf>,
    /// Write the zip instead of extracting it.
    #[arg(long)]
    zip: bool,
}

pub(super) async fn run(client: &Client, args: &PullArgs, output: Output) -> Result<()> {
    let (name, version) = input::name_and_version(&args.name);
    let package = fetch(client, name, version).await?;
    let manifest = &package.manifest;
    let out = args.out.clone().unwrap_or_else(|| match args.zip {
        true => format!("{}-{}.zip", manifest.name, manifest.version).into(),
        false => manifest.name.clone().into(),
    });
    if out.exists() {
        bail!("{} already exists; remove it or choose another path with -O", out.display());
    }
    if args.zip {
        std::fs::write(&out, package.to_upload_archive()?)
            .with_context(|| format!("cannot write {}", out.display()))?;
    } else {
        let directory = OutputDirectory::open(&out)?;
        for file in &package.files {
            let mut partial = directory.create(&file.path, file.executable)?;
            partial.write(&file.bytes)?;
            partial.finish()?;
        }
        if let Some(signature) = &package.signature {
            let mut partial = directory.create(SIGNATURE_FILE, false)?;
            partial.write(signature.as_bytes())?;
            partial.finish()?;
        }
    }
    if output.is_json() {
        let report = serde_json::json!({"name": manifest.name, "version": manifest.version, "digest": package.digest, "path": out});
        output.line(&report.to_string())?;
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

/// Fetches a published skill with its signature. The server is not trusted: its archive must pass the
/// same checks as an upload before anything is written to disk.
pub(super) async fn fetch(client: &Client, name: &str, version: &str) -> Result<Package> {
    let limits = PackageLimits::default();
    let max = usize::try_from(limits.unpacked_bytes).unwrap_or(usize::MAX);
    let skill = client.skill(name, version).await?;
    // The exact version, because `latest` may have changed since the first request, and the signature
    // belongs to one version.
    let zip = client.skill_content(name, &skill.version).await?.bytes(max).await?;
    let read = skill::read_archive(&zip, &limits);
    let mut package = read.context("the server sent an archive that is not a valid skill")?;
    if let Some(signature) = &skill.signature {
        signature.text.parse::<Signature>().context("the server sent an invalid signature")?;
        package.signature = Some(signature.text.clone());
    }
    Ok(package)
}
