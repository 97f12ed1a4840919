//! `skillbox guest-copy`: what the init container of a pod does, before the skill's container
//! starts.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, anyhow};
use clap::Args;

#[derive(Args)]
pub struct GuestCopyArgs {
    /// Directory to put the guest into.
    directory: PathBuf,
    /// SHA-256 of the guest that is wanted.
    digest: Option<String>,
}

pub fn run(args: &GuestCopyArgs) -> Result<ExitCode> {
    sandbox::copy_guest(&args.directory, args.digest.as_deref()).map_err(|why| anyhow!(why))?;
    Ok(ExitCode::SUCCESS)
}
