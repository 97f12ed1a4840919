//! Runs a job without a sandbox, as an ordinary process of the current user. The only limits are
//! the deadline and those on the output. The layout of a sandbox is imitated in a temporary
//! directory, but nothing is enforced.
//!
//! This is a function and not a `Launcher`, so that no code that takes a launcher can run a job
//! unconfined.

mod logs;
mod orphans;
mod permit;
mod results;
mod run_directory;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};
use tokio::process::Child;
use tokio_util::sync::CancellationToken;

use crate::SandboxNetwork;
use crate::delivery;
use crate::guest_error::GuestError;
use crate::isolation::Isolation;
use crate::job::{Job, Sink};
use crate::outcome::{Outcome, RunReport, RunUsage};
use logs::{LogPipes, LogRelay};
pub use permit::{UnconfinedPermit, UntrustedDirectory};
use results::OutputDocument;
use run_directory::RunDirectory;

/// Runs the job without confinement. `search_path` is the `PATH` of the script.
pub async fn run_unconfined(
    job: &Job,
    _: UnconfinedPermit,
    search_path: Option<OsString>,
    stop: CancellationToken,
    sink: &mut dyn Sink,
) -> Result<RunReport, GuestError> {
    delivery::validate(job).map_err(GuestError::Job)?;
    let directory =
        RunDirectory::create(job).await.map_err(setup_error("write the files of the job"))?;
    // Orphans of the script become children of this process, which can find and kill them.
    let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
    let began = Instant::now();
    let (child, pipes) =
        directory.start(job, search_path).map_err(setup_error("start the script"))?;
    let mut logs = LogRelay::new(job.output_limits.log_bytes, sink);
    let end = supervise(child, pipes, job.timeout, &stop, &mut logs)
        .await
        .map_err(setup_error("wait for the script"))?;
    let (wall_ms, logs_truncated) = (began.elapsed().as_millis() as u64, logs.truncated);
    let (document, skipped) = directory.collect(&job.output_limits, sink).await?;
    let (outcome, exit_code) = match end {
        RunEnd::Exited(status) if matches!(document, OutputDocument::TooLarge) => {
            (Outcome::OutputTooLarge, Some(shell_exit_code(status)))
        }
        RunEnd::Exited(status) => (Outcome::Exited, Some(shell_exit_code(status))),
        RunEnd::Deadline => (Outcome::TimedOut, None),
        RunEnd::Cancelled => (Outcome::Cancelled, None),
    };
    Ok(RunReport {
        outcome,
        cause: None,
        exit_code,
        output: document.bytes().map(Into::into),
        skipped,
        usage: RunUsage { wall_ms, bytes_in: delivery::input_bytes(job), ..RunUsage::default() },
        logs_truncated,
        connect_attempts: None,
        isolation: no_isolation(),
        startup_time: Duration::ZERO,
    })
}

/// How the run ended.
enum RunEnd {
    Exited(ExitStatus),
    Deadline,
    Cancelled,
}

/// Forwards the log until the script has end, then kills all processes that it left running.
async fn supervise(
    mut child: Child,
    mut pipes: LogPipes,
    timeout: Duration,
    stop: &CancellationToken,
    logs: &mut LogRelay<'_>,
) -> io::Result<RunEnd> {
    let group = child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
    let deadline = tokio::time::sleep(timeout);
    tokio::pin!(deadline);
    let end = loop {
        tokio::select! {
            status = child.wait() => break RunEnd::Exited(status?),
            () = &mut deadline => break RunEnd::Deadline,
            () = stop.cancelled() => break RunEnd::Cancelled,
            index = pipes.ready(), if !pipes.is_empty() => logs.forward(&mut pipes, index).await,
        }
    };
    if let Some(group) = group {
        let _ = rustix::process::kill_process_group(group, Signal::KILL);
    }
    child.wait().await?;
    orphans::kill_orphans().await;
    logs.drain(&mut pipes).await;
    Ok(end)
}

/// The exit code that a shell would report.
fn shell_exit_code(status: ExitStatus) -> i32 {
    status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or_default())
}

/// No control is in force, and the network is the host's.
fn no_isolation() -> Isolation {
    Isolation {
        backend: "none",
        runtime: None,
        image: None,
        network: SandboxNetwork::Host,
        controls: BTreeMap::new(),
    }
}

fn setup_error(step: &'static str) -> impl Fn(io::Error) -> GuestError {
    move |source| GuestError::Setup { step: step.to_owned(), source }
}
