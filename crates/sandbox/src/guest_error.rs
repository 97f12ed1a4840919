//! The errors of a guest.

use std::time::Duration;

use guest::frame::FrameError;

use crate::job::SinkError;

/// Why a guest could not be used: failures of ours, or of a guest that violated the protocol.
#[derive(Debug, thiserror::Error)]
pub enum GuestError {
    /// The guest did not become ready in time.
    #[error("the guest did not become ready within {} ms", .0.as_millis())]
    NotReady(Duration),
    /// The guest did not start its job in time.
    #[error("the guest did not start its job within {} ms", .0.as_millis())]
    NotStarted(Duration),
    /// A setup step inside the sandbox failed before the script ran.
    #[error("the guest failed at {step}: {source}")]
    Setup {
        step: String,
        #[source]
        source: std::io::Error,
    },
    /// The stream ended before the guest was ready or its script started.
    #[error("the guest disconnected before it ran anything")]
    Disconnected,
    /// The guest sent a message that the protocol does not allow at that point.
    #[error("the guest violated the protocol: {0}")]
    Violation(String),
    /// The job is invalid.
    #[error("the job is invalid: {0}")]
    Job(String),
    /// A file of the job could not be read on the host. Nothing has run.
    #[error("the job's file {path} could not be read: {source}")]
    Source {
        path: String,
        #[source]
        source: std::io::Error,
    },
    /// The sink rejected the run's bytes.
    #[error("the results of the run could not be stored: {0}")]
    Sink(#[from] SinkError),
}

impl GuestError {
    /// The step comes from the guest, so it is restricted to a short line of printable text.
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
