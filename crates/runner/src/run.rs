//! Step four, run: a guest of the planned shape, the job sent to it, its bytes caught as they come.

use std::time::Duration;

use async_trait::async_trait;
use sandbox::{
    Guest, GuestError, Job, LaunchError, Launcher, OutputStream, RunReport, Shape, Sink, SinkError,
    StreamMode,
};
use tokio_util::sync::CancellationToken;

use crate::artifacts::Artifacts;
use crate::halt::Halt;
use crate::inputs;
use crate::logs::Logs;
use crate::readiness::Probe;
use crate::tail::SharedLogs;

/// Pauses before a launch is tried again: an engine that is restarted is back soon.
const PAUSES: [Duration; 3] =
    [Duration::from_millis(100), Duration::from_secs(1), Duration::from_secs(3)];

/// A guest that waits for its one job. A pool of parked guests would be asked here first.
pub async fn launch(
    launcher: Option<&dyn Launcher>,
    probe: &Probe,
    shape: &Shape,
) -> Result<Guest, Halt> {
    let Some(launcher) = launcher else { return Err(Halt::unready("This server has no sandbox.")) };
    let mut pauses = PAUSES.iter();
    loop {
        let (halt, full) = match launcher.launch(shape).await {
            Ok(guest) => {
                probe.saw(None);
                return Ok(guest);
            }
            Err(error) => {
                probe.saw(Some(&error));
                (failed(shape, &error), matches!(error, LaunchError::NoRoom(_)))
            }
        };
        match pauses.next() {
            // Whoever says that there is no room has waited for it.
            Some(pause) if halt.may_pass && !full => tokio::time::sleep(*pause).await,
            _ => return Err(halt),
        }
    }
}

fn failed(shape: &Shape, error: &LaunchError) -> Halt {
    tracing::error!(runtime = %shape.language, %error, "no sandbox could be started");
    match error {
        // These say what the operator has to do, and name nothing that is a secret.
        LaunchError::Missing(_)
        | LaunchError::NoInterpreter(_)
        | LaunchError::ImageNotAllowed(_)
        | LaunchError::ImageMissing(_)
        | LaunchError::ImageUnfit { .. } => Halt::refused(error.to_string()),
        LaunchError::NoRoom(_) => Halt::unready("There was no room for a sandbox in time."),
        _ => Halt::unready("The sandbox could not be started."),
    }
}

/// Runs the job to its end. What the guest hands back is in `caught`, also when the run is lost.
pub async fn run(
    guest: Guest,
    job: &Job,
    stop: CancellationToken,
    caught: &mut Caught,
) -> Result<RunReport, Halt> {
    guest.run(job, stop, caught).await.map_err(|error| match error {
        GuestError::Source { path, source } => inputs::unreadable(&path, &source),
        error => {
            tracing::error!(%error, "a run was lost");
            Halt::lost("The sandbox failed while the script ran; its result is lost.")
        }
    })
}

/// What a run has handed back so far.
pub struct Caught {
    pub logs: SharedLogs,
    pub artifacts: Artifacts,
}

impl Caught {
    pub fn new(job: &Job, artifacts: Artifacts) -> Caught {
        let logs = match job.streams {
            StreamMode::Merged => Logs::merged(job.output_limits.log_bytes),
            StreamMode::Split => Logs::split(job.output_limits.log_bytes),
        };
        Caught { logs: SharedLogs::new(logs), artifacts }
    }
}

#[async_trait]
impl Sink for Caught {
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
