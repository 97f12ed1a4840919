//! `skillbox mcp`: skills as tools of an agent, over standard input and output.

mod directory;
mod server_skills;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use clap::Args;
use mcp::{ServedSkills, SkillProvider};
use tokio_util::sync::CancellationToken;

use crate::args::Global;
use crate::connection;
use crate::local_run::{LocalArgs, LocalSandbox};
use crate::output::note;

#[derive(Args)]
pub struct McpArgs {
    /// A directory with skills, which run on this machine; without it, the skills of the server.
    #[arg(value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Offer one tool for each skill, beside the tools for all of them.
    #[arg(long)]
    skill_tools: bool,
    /// With DIR: keep the files of runs below this directory, and not only as long as this program
    /// runs.
    #[arg(long, value_name = "DIR", requires = "dir")]
    files: Option<PathBuf>,
    /// With DIR: let scripts use the whole network of this machine.
    #[arg(long, requires = "dir")]
    allow_network: bool,
    /// With DIR: where to run scripts; the native sandbox, or Docker where that does not work.
    #[arg(long, value_enum, value_name = "KIND", requires = "dir")]
    sandbox: Option<LocalSandbox>,
}

pub async fn run(global: &Global, args: McpArgs) -> Result<ExitCode> {
    let McpArgs { dir, skill_tools, files, allow_network, sandbox } = args;
    let skills: Arc<dyn SkillProvider> = match dir {
        Some(dir) => {
            if !dir.is_dir() {
                bail!("{} is not a directory", dir.display());
            }
            let args = LocalArgs { allow_network, sandbox, ..LocalArgs::default() };
            Arc::new(directory::DirectorySkills::new(dir, args, files)?)
        }
        None => Arc::new(server_skills::ServerSkills::new(connection::open(global)?)),
    };
    note("speaking MCP on standard input and output; an agent's program is meant to start this");
    mcp::serve_stdio(ServedSkills { skills, skill_tools }, stop_on_signal()?)
        .await
        .context("the MCP connection failed")?;
    Ok(ExitCode::SUCCESS)
}

/// Ended from outside, what runs is ended first.
fn stop_on_signal() -> Result<CancellationToken> {
    let kind = tokio::signal::unix::SignalKind::terminate();
    let mut terminate = tokio::signal::unix::signal(kind).context("cannot listen for signals")?;
    let stop = CancellationToken::new();
    let told = stop.clone();
    tokio::spawn(async move {
        tokio::select! { _ = terminate.recv() => {}, _ = tokio::signal::ctrl_c() => {} }
        told.cancel();
    });
    Ok(stop)
}
