//! A guest: one started sandbox, waiting for its one job.

use std::time::Duration;

use async_trait::async_trait;
use guest::frame::FrameError;
use guest::jail::Counters;
use guest::protocol::{FromGuest, Measurements};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_util::sync::CancellationToken;

use crate::delivery;
use crate::isolation::{Control, Isolation};
use crate::job::{Job, Sink, SinkError};
use crate::judge::{self, Ended};
use crate::launcher::{LaunchError, Shape};
use crate::outcome::{Outcome, RunReport, RunUsage};
use crate::supervision::{Supervised, Supervision};
use crate::wire::{self, Receiver, Sender};

/// How long the last process of a killed sandbox may take to end; on a kernel in trouble it never
/// does.
const GONE_WITHIN: Duration = Duration::from_secs(30);

/// A backend's hold on one sandbox.
#[async_trait]
pub trait GuestHandle: Send {
    /// Kills every process of the sandbox. Called any number of times, also when it is already
    /// gone.
    fn kill(&mut self);

    /// Waits until nothing of the sandbox is left, and hands back what the kernel counted for it.
    async fn wait_until_removed(&mut self) -> Counters;

    /// What ended the sandbox from outside, if the backend knows of anything; to be asked after
    /// `gone`.
    fn external_end(&self) -> Option<ExternalEnd> {
        None
    }
}

/// An end that came from outside, as a backend saw it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ExternalEnd {
    /// What it makes of a run that had not come to its own end.
    pub outcome: Outcome,
    /// A clause for the caller: "its node was lost".
    pub cause: Option<&'static str>,
}

/// A started sandbox that is ready for its one job. Dropping it kills it.
pub struct Guest {
    receiver: Receiver,
    sender: Sender,
    hold: Hold,
    shape: Shape,
    isolation: Isolation,
    /// The guest sees its script's calls for other machines.
    witness: bool,
}

impl Guest {
    /// Waits until the guest on `stream` says that it is ready. `describe` turns what it measured
    /// of itself, before any job was sent, into what is in force; the launcher adds what it
    /// enforces from outside.
    pub async fn connect(
        stream: impl AsyncRead + AsyncWrite + Send + 'static,
        handle: Box<dyn GuestHandle>,
        shape: Shape,
        within: Duration,
        describe: impl FnOnce(&Measurements<'_>) -> Isolation + Send,
    ) -> Result<Guest, GuestError> {
        let (mut receiver, sender) = wire::split(stream);
        let hold = Hold(handle);
        let greeting = tokio::time::timeout(within, greet(&mut receiver, describe)).await;
        match greeting.unwrap_or(Err(GuestError::NotReady(within))) {
            Ok((isolation, witness)) => {
                Ok(Guest { receiver, sender, hold, shape, isolation, witness })
            }
            Err(error) => {
                hold.end().await;
                Err(error)
            }
        }
    }

    /// What is in force in this sandbox.
    pub fn isolation(&self) -> &Isolation {
        &self.isolation
    }

    /// This guest, if all of `controls` are in force in it; otherwise it is gone.
    pub async fn holding(self, controls: &[Control]) -> Result<Guest, LaunchError> {
        match self.isolation.check(controls) {
            Ok(()) => Ok(self),
            Err(error) => {
                self.discard().await;
                Err(error)
            }
        }
    }

    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// Runs the job to its end: places files, runs, collects, and always kills and removes the
    /// sandbox.
    pub async fn run(
        mut self,
        job: &Job,
        stop: CancellationToken,
        sink: &mut dyn Sink,
    ) -> Result<RunReport, GuestError> {
        let supervised = match delivery::check(job) {
            Ok(()) => {
                Supervision::new((&mut self.receiver, &mut self.sender), job, &stop, sink)
                    .run()
                    .await
            }
            Err(why) => Err(GuestError::Job(why)),
        };
        let (counters, external_end) = self.hold.end().await;
        conclude(supervised?, (&counters, external_end), job, (self.isolation, self.witness))
    }

    /// Kills the guest without using it and waits until it is gone.
    pub async fn discard(self) {
        self.hold.end().await;
    }
}

/// Hears the one thing a guest says before it has a job.
async fn greet(
    receiver: &mut Receiver,
    describe: impl FnOnce(&Measurements<'_>) -> Isolation,
) -> Result<(Isolation, bool), GuestError> {
    let whole = receiver.next().await?.ok_or(GuestError::Vanished)?;
    match receiver.message(whole)? {
        FromGuest::Ready(measured) => Ok((describe(&measured), measured.witness)),
        FromGuest::Failed { step, errno } => Err(GuestError::setup(step, errno)),
        _ => Err(GuestError::Violation("it spoke before it was ready".into())),
    }
}

/// Puts together what was heard, what the kernel counted, and what ended it from outside.
fn conclude(
    supervised: Supervised,
    (counters, external_end): (&Counters, Option<ExternalEnd>),
    job: &Job,
    (isolation, witness): (Isolation, bool),
) -> Result<RunReport, GuestError> {
    let Supervised { ended, heard, started_after, wall } = supervised;
    let counters = &judge::counted(counters, heard.exit.and_then(|exit| exit.counted));
    let spoke = heard.started || heard.no_room || heard.exit.is_some();
    // A guest that was taken away before it said a word has a cause that can be told, and did not
    // just go.
    let told = external_end.filter(|by| by.cause.is_some() || by.outcome != Outcome::Lost);
    if !spoke && ended == Ended::ByItself && counters.oom_kills == 0 && told.is_none() {
        return Err(GuestError::Vanished);
    }
    let (outcome, cause) = match (judge::judge(ended, &heard, counters), told) {
        (Outcome::Lost, Some(by)) => (by.outcome, by.cause),
        (outcome, _) => (outcome, None),
    };
    Ok(RunReport {
        outcome,
        cause,
        exit_code: heard.exit.map(|exit| judge::exit_code(exit.status)),
        output: heard.output,
        skipped: heard.skipped,
        usage: RunUsage {
            wall_ms: wall.as_millis() as u64,
            cpu_ms: counters.cpu_micros / 1000,
            peak_memory_bytes: counters.peak_memory_bytes,
            bytes_in: delivery::bytes_in(job),
            bytes_out: heard.bytes_out,
        },
        logs_truncated: heard.exit.is_some_and(|exit| exit.log_bytes_dropped > 0),
        connect_attempts: witness.then_some(heard.connect_attempts),
        isolation,
        startup_time: started_after,
    })
}

/// Ends a sandbox however it is let go.
struct Hold(Box<dyn GuestHandle>);

impl Hold {
    async fn end(mut self) -> (Counters, Option<ExternalEnd>) {
        self.0.kill();
        let gone = tokio::time::timeout(GONE_WITHIN, self.0.wait_until_removed()).await;
        let counters = gone.unwrap_or_else(|_| {
            tracing::error!(
                "a sandbox was killed and is still there after {} s",
                GONE_WITHIN.as_secs()
            );
            Counters::default()
        });
        (counters, self.0.external_end())
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.0.kill();
    }
}

/// Why a guest could not be used. These are our failures, or a guest that broke the protocol.
#[derive(Debug, thiserror::Error)]
pub enum GuestError {
    /// The guest did not say that it is ready in time.
    #[error("the guest did not become ready within {} ms", .0.as_millis())]
    NotReady(Duration),
    /// The guest did not place and start its job in time.
    #[error("the guest did not start its job within {} ms", .0.as_millis())]
    NotStarted(Duration),
    /// A step inside the sandbox was refused by the system, before the script ran.
    #[error("the guest failed at {step}: {source}")]
    Setup {
        step: String,
        #[source]
        source: std::io::Error,
    },
    /// The stream ended before the guest said that it is ready, or that its script runs.
    #[error("the guest went away before it ran anything")]
    Vanished,
    /// The guest said something that the protocol does not allow here.
    #[error("the guest broke the protocol: {0}")]
    Violation(String),
    /// The job cannot be sent as it is.
    #[error("the job cannot be run: {0}")]
    Job(String),
    /// A file of the job could not be read on our side. Nothing has run.
    #[error("the job's file {path} could not be read: {source}")]
    Source {
        path: String,
        #[source]
        source: std::io::Error,
    },
    /// The place the bytes go to refused them.
    #[error("could not keep what the run produced: {0}")]
    Sink(#[from] SinkError),
}

impl GuestError {
    /// The step comes from the guest, so it is cut to a line of text.
    pub(crate) fn setup(step: &str, errno: i32) -> Self {
        let step = step.chars().filter(|c| !c.is_control()).take(200).collect();
        GuestError::Setup { step, source: std::io::Error::from_raw_os_error(errno) }
    }
}

impl From<FrameError> for GuestError {
    fn from(error: FrameError) -> Self {
        GuestError::Violation(error.to_string())
    }
}

#[cfg(test)]
#[path = "guest_tests.rs"]
mod tests;
