//! Step four, run: a guest of the planned shape, the job sent to it, its output received as it
//! comes.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use sandbox::{
    Guest, GuestError, Job, LaunchError, OutputStream, RunReport, Shape, Sink, SinkError,
    StreamMode,
};

use super::accept::AcceptedRequest;
use super::plan::{Plan, input_files};
use super::stop::Stop;
use super::timing::timed;
use crate::artifacts::Artifacts;
use crate::logs::buffer::LogBuffer;
use crate::logs::live::{self, SharedLogs};
use crate::queue::leases::Hold;
use crate::runner::Runner;
use admission::Permit;
use catalogue::LoadedSkill;

/// Delays before a launch is tried again: an engine that is restarted is back soon.
const LAUNCH_RETRY_DELAYS: [Duration; 3] =
    [Duration::from_millis(100), Duration::from_secs(1), Duration::from_secs(3)];

/// The first half: the memory for the run, then a guest that waits for its one job.
pub(super) async fn launch(
    runner: &Runner,
    accepted: &AcceptedRequest,
    skill: &Arc<LoadedSkill>,
    plan: &Plan,
    launch_ms: &mut f64,
) -> Result<(Guest, Permit), Stop> {
    // Before the launch: what does not fit into memory must not cost a sandbox.
    let bytes = buffered_bytes(skill, accepted, plan);
    let memory = runner.memory.reserve(&accepted.tenant, bytes).await?;
    let launched = timed(launch_ms, launch_with_retries(runner, &plan.shape)).await;
    match &launched {
        Ok(_) => runner.meters.launch.record(Duration::from_secs_f64(*launch_ms / 1e3)),
        Err(_) => runner.meters.launches_failed.add(),
    }
    Ok((launched?, memory))
}

/// The most that a run takes in memory: the skill's files while they are sent, and the documents
/// and logs twice, because they are read and then converted to what is stored and sent.
fn buffered_bytes(skill: &LoadedSkill, accepted: &AcceptedRequest, plan: &Plan) -> u64 {
    let input = accepted.input().map_or(0, str::len) as u64;
    let documents = input + plan.job.output_limits.log_bytes + plan.job.output_limits.output_bytes;
    skill.files_bytes.saturating_add(documents.saturating_mul(2))
}

async fn launch_with_retries(runner: &Runner, shape: &Shape) -> Result<Guest, Stop> {
    let Some(launcher) = runner.launcher.as_deref() else {
        return Err(Stop::unready("This server has no sandbox."));
    };
    let mut delays = LAUNCH_RETRY_DELAYS.iter();
    loop {
        let (stop, full) = match launcher.launch(shape).await {
            Ok(guest) => {
                runner.probe.note_launch(None);
                return Ok(guest);
            }
            Err(error) => {
                runner.probe.note_launch(Some(&error));
                (launch_failed(shape, &error), matches!(error, LaunchError::NoRoom(_)))
            }
        };
        match delays.next() {
            // A launcher that reports no capacity has already waited for it.
            Some(delay) if stop.retryable && !full => tokio::time::sleep(*delay).await,
            _ => return Err(stop),
        }
    }
}

fn launch_failed(shape: &Shape, error: &LaunchError) -> Stop {
    tracing::error!(runtime = %shape.language, %error, "no sandbox could be started");
    match error {
        // These tell the operator what to do and contain no secret. Another attempt would fail for
        // the same reason.
        LaunchError::Missing(_)
        | LaunchError::NoInterpreter(_)
        | LaunchError::ImageNotAllowed(_)
        | LaunchError::ImageMissing(_)
        | LaunchError::ImageUnfit { .. } => Stop::refused(error.to_string()),
        LaunchError::NoRoom(_) => Stop::unready("There was no room for a sandbox in time."),
        _ => Stop::unready("The sandbox could not be started."),
    }
}

/// The second half: runs the job to its end. What the guest returned is in `output`, also when the
/// run is lost.
pub(super) async fn run(
    runner: &Runner,
    hold: &Hold,
    guest: Guest,
    job: &Job,
    output: &mut OutputSink,
    run_ms: &mut f64,
) -> Result<RunReport, Stop> {
    let logs = output.logs.clone();
    let running = timed(run_ms, guest.run(job, hold.stop_token(), output));
    let ran =
        live::publish_while(running, &runner.store, hold.lease(), &logs, hold.watched_token());
    ran.await.map_err(|error| match error {
        GuestError::Source { path, source } => input_files::unreadable(&path, &source),
        error => {
            tracing::error!(%error, "a run was lost");
            Stop::lost("The sandbox failed while the script ran; its result is lost.")
        }
    })
}

/// Receives what a run returns while it runs.
pub(crate) struct OutputSink {
    pub logs: SharedLogs,
    pub artifacts: Artifacts,
}

impl OutputSink {
    pub(crate) fn new(job: &Job, artifacts: Artifacts) -> OutputSink {
        let logs = match job.streams {
            StreamMode::Merged => LogBuffer::merged(job.output_limits.log_bytes),
            StreamMode::Split => LogBuffer::split(job.output_limits.log_bytes),
        };
        OutputSink { logs: SharedLogs::new(logs), artifacts }
    }
}

#[async_trait]
impl Sink for OutputSink {
    async fn log(&mut self, stream: OutputStream, bytes: &[u8]) {
        self.logs.push(stream, bytes);
    }

    async fn file_start(&mut self, path: &str, size: u64) -> Result<(), SinkError> {
        self.artifacts.start(path, size).await
    }

    async fn file_chunk(&mut self, bytes: &[u8]) -> Result<(), SinkError> {
        self.artifacts.chunk(bytes).await
    }

    async fn file_end(&mut self) -> Result<(), SinkError> {
        self.artifacts.end().await
    }
}
