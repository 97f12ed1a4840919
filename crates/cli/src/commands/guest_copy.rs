//! `skillbox guest-copy`: runs in the init container of a pod, before the container of the skill
//! starts.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Result, anyhow};
use clap::Args;

#[derive(Args)]
pub(crate) struct GuestCopyArgs {
    /// Directory to copy the guest into.
    directory: PathBuf,
    /// Expected SHA-256 of the guest.
    digest: Option<String>,
}

pub(crate) fn run(args: &GuestCopyArgs) -> Result<ExitCode> {
    sandbox::copy_guest(&args.directory, args.digest.as_deref()).map_err(|why| anyhow!(why))?;
    Ok(ExitCode::SUCCESS)
}
