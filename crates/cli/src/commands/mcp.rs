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
pub(crate) struct McpArgs {
    /// Directory with skills, which run on this machine. By default the skills of the server.
    #[arg(value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Provide one tool for each skill, in addition to the general tools.
    #[arg(long)]
    skill_tools: bool,
    /// With DIR: store the files of runs below this directory. By default they are deleted when this
    /// program ends.
    #[arg(long, value_name = "DIR", requires = "dir")]
    files: Option<PathBuf>,
    /// With DIR: let scripts use the whole network of this machine.
    #[arg(long, requires = "dir")]
    allow_network: bool,
    /// With DIR: sandbox to use. By default the native sandbox, or Docker where that does not work.
    #[arg(long, value_enum, value_name = "KIND", requires = "dir")]
    sandbox: Option<LocalSandbox>,
}

pub(crate) async fn run(global: &Global, args: McpArgs) -> Result<ExitCode> {
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
    note(
        "serving MCP on standard input and output; this command is meant to be started by an agent",
    );
    mcp::serve_stdio(ServedSkills { skills, skill_tools }, stop_on_signal()?)
        .await
        .context("the MCP connection failed")?;
    Ok(ExitCode::SUCCESS)
}

/// A token that is cancelled by SIGTERM or Ctrl-C, so that active runs are stopped before this program
/// ends.
fn stop_on_signal() -> Result<CancellationToken> {
    let kind = tokio::signal::unix::SignalKind::terminate();
    let mut terminate = tokio::signal::unix::signal(kind).context("cannot listen for signals")?;
    let stop = CancellationToken::new();
    let cancel = stop.clone();
    tokio::spawn(async move {
        tokio::select! { _ = terminate.recv() => {}, _ = tokio::signal::ctrl_c() => {} }
        cancel.cancel();
    });
    Ok(stop)
}
