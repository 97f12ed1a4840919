//! `skillbox exec`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, Subcommand};
use client::{ArtifactFile, Client, Execution, ExecutionFilter, ExecutionSummary, LogLine};

use super::follow::{FollowEnd, follow};
use super::listing::{ListArgs, collect};
use super::run::summary;
use crate::args::Global;
use crate::output::{Output, note};
use crate::output_directory::OutputDirectory;
use crate::{connection, progress, terminal, text};

#[derive(Subcommand)]
pub(crate) enum ExecCommand {
    /// List executions, newest first.
    List(FilterArgs),
    /// Show one execution.
    Get {
        /// The execution's id.
        id: String,
    },
    /// Print the log of an execution.
    Logs {
        /// The execution's id.
        id: String,
        /// Continue until the execution has ended.
        #[arg(long, short = 'f')]
        follow: bool,
    },
    /// Stop an execution that is queued or running.
    Cancel {
        /// The execution's id.
        id: String,
    },
    /// Print the signed receipt of an execution that has ended.
    Receipt {
        /// The execution's id.
        id: String,
    },
    /// List the files that an execution left, or download them.
    Files {
        /// The execution's id.
        id: String,
        /// Write the files into this directory.
        #[arg(long, value_name = "DIR")]
        download: Option<PathBuf>,
    },
}

#[derive(Args)]
pub(crate) struct FilterArgs {
    /// Only executions of this skill.
    #[arg(long, value_name = "NAME")]
    skill: Option<String>,
    /// Only executions with this status: queued, running, success, failed, timeout or cancelled.
    #[arg(long)]
    status: Option<String>,
    /// Only executions created since this time, such as 2026-01-31T12:00:00Z.
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
    /// Only executions that were started with the key of this id.
    #[arg(long, value_name = "ID")]
    key: Option<String>,
    #[command(flatten)]
    list: ListArgs,
}

pub(crate) async fn run(global: &Global, command: ExecCommand, output: Output) -> Result<ExitCode> {
    let client = connection::open(global)?;
    match command {
        ExecCommand::List(args) => list(&client, args, output).await?,
        ExecCommand::Get { id } => {
            let execution = client.execution(&id).await?;
            if output.is_json() {
                output.line(&execution.raw)?;
            } else {
                output.table(&[], details(&execution))?;
            }
        }
        ExecCommand::Logs { id, follow: true } => return follow_logs(&client, &id, output).await,
        ExecCommand::Logs { id, follow: false } => logs(&client, &id, output).await?,
        ExecCommand::Cancel { id } => {
            let answer = client.cancel(&id).await?;
            if output.is_json() {
                output.line(&answer.raw)?;
            } else {
                let status =
                    answer.get("status").and_then(|status| status.as_str()).unwrap_or("cancelled");
                output.line(&format!("{id} {status}"))?;
            }
        }
        // The receipt is printed unchanged in both formats, because its signature covers every
        // byte.
        ExecCommand::Receipt { id } => output.line(&client.execution_receipt(&id).await?.raw)?,
        ExecCommand::Files { id, download } => {
            let files = client.execution_files(&id).await?;
            if output.is_json() {
                output.array(&files.raw)?;
            } else {
                output.table(&["path", "size", "type"], files.items.iter().map(file_row))?;
            }
            if let Some(directory) = download {
                download_files(&client, &id, &files.items, &directory).await?;
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

async fn list(client: &Client, args: FilterArgs, output: Output) -> Result<()> {
    let filter = ExecutionFilter {
        skill: args.skill,
        status: args.status,
        since: args.since,
        key: args.key,
    };
    let rows = collect(args.list, async |page| client.executions(&filter, &page).await).await?;
    if output.is_json() {
        output.array(&rows.raw)?;
    } else {
        output.table(
            &["execution", "skill", "status", "took", "created", "error"],
            rows.items.iter().map(row),
        )?;
    }
    Ok(())
}

/// Prints the log chunk by chunk, so that a large log needs little memory.
async fn logs(client: &Client, id: &str, output: Output) -> Result<()> {
    let mut log = client.execution_logs(id).await?;
    if output.is_json() {
        let text = String::from_utf8_lossy(&log.bytes(usize::MAX).await?).into_owned();
        output.line(&serde_json::json!({"execution_id": id, "logs": text}).to_string())?;
        return Ok(());
    }
    let mut buffer = Vec::new();
    while let Some(chunk) = log.chunk().await? {
        buffer.extend_from_slice(&chunk);
        // A chunk may end within a character; its bytes wait for the next chunk.
        let rest = buffer.split_off(whole_characters_len(&buffer));
        output.untrusted(&String::from_utf8_lossy(&buffer))?;
        buffer = rest;
    }
    output.untrusted(&String::from_utf8_lossy(&buffer))?;
    Ok(())
}

/// Prints the log live. This command succeeds when the log is complete, so a failed script does not
/// change the exit code.
async fn follow_logs(client: &Client, id: &str, output: Output) -> Result<ExitCode> {
    let show = |line: &LogLine| {
        if output.is_json() {
            let line =
                serde_json::json!({"stream": line.stream, "time": line.time, "text": line.text});
            output.line(&line.to_string())?;
        } else {
            output.untrusted(&line.text)?;
        }
        Ok(())
    };
    match follow(client, id, show).await? {
        FollowEnd::Ended(ran) => {
            note(&summary(&ran));
            Ok(ExitCode::SUCCESS)
        }
        FollowEnd::Interrupted => Ok(FollowEnd::interrupted_exit_code()),
    }
}

/// The length of the bytes without an incomplete character at their end.
fn whole_characters_len(bytes: &[u8]) -> usize {
    bytes.len() - bytes.utf8_chunks().last().map_or(0, |last| last.invalid().len())
}

/// Downloads files into the directory. The names come from the skill and cannot lead out of it.
pub(crate) async fn download_files(
    client: &Client,
    id: &str,
    files: &[ArtifactFile],
    directory: &Path,
) -> Result<()> {
    let output = OutputDirectory::open(directory)?;
    for file in files {
        let mut partial = output.create(&file.name, false)?;
        let bar = progress::byte_bar(&terminal::sanitize(&file.name), file.size_bytes);
        let mut download = client.execution_file(id, &file.name).await?;
        while let Some(chunk) = download.chunk().await? {
            partial.write(&chunk)?;
            bar.inc(chunk.len() as u64);
        }
        partial.finish()?;
        bar.finish_and_clear();
    }
    note(&format!("saved {} to {}", text::count(files.len(), "file"), output.path().display()));
    Ok(())
}

fn row(execution: &ExecutionSummary) -> Vec<String> {
    vec![
        execution.execution_id.to_string(),
        format!("{}@{}", execution.skill_name, execution.skill_version),
        execution.status.as_str().to_owned(),
        text::duration(execution.duration_ms.unsigned_abs()),
        text::time(&execution.created_at),
        text::brief(execution.error.as_deref().unwrap_or_default(), 60),
    ]
}

fn file_row(file: &ArtifactFile) -> Vec<String> {
    vec![
        file.name.clone(),
        text::size(file.size_bytes),
        text::or_dash(file.content_type.as_deref()),
    ]
}

/// One row per property; properties without a value are left out.
fn details(execution: &Execution) -> Vec<Vec<String>> {
    let skill = execution
        .skill_name
        .as_ref()
        .map(|name| format!("{name}@{}", execution.skill_version.as_deref().unwrap_or("?")));
    let files: Vec<String> = execution
        .files
        .iter()
        .map(|file| format!("{} ({})", file.name, text::size(file.size_bytes)))
        .collect();
    let usage = execution.usage.as_ref().map(|usage| {
        format!(
            "cpu {}, memory {}",
            text::duration(usage.cpu_ms),
            text::size(usage.peak_memory_bytes)
        )
    });
    let properties = [
        ("execution", Some(execution.execution_id.to_string())),
        ("skill", skill),
        ("status", Some(execution.status.as_str().to_owned())),
        ("outcome", execution.outcome.clone()),
        ("exit code", execution.exit_code.map(|code| code.to_string())),
        ("error", execution.error.clone()),
        ("took", Some(text::duration(execution.duration_ms.unsigned_abs()))),
        ("usage", usage),
        ("created", execution.created_at.as_deref().map(text::time)),
        ("finished", execution.finished_at.as_deref().map(text::time)),
        ("files", (!files.is_empty()).then(|| files.join(", "))),
        ("output", execution.output.as_ref().map(|output| output.to_string())),
    ];
    properties.into_iter().filter_map(|(name, value)| Some(vec![name.to_owned(), value?])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_incomplete_character_is_not_counted() {
        let text = "aé".as_bytes();
        assert_eq!(whole_characters_len(&text[..2]), 1);
        assert_eq!(whole_characters_len(text), 3);
        assert_eq!(whole_characters_len(b""), 0);
    }
}
