//! The interface of the backends: launch a guest, sweep the leftovers of a dead owner, probe the
//! isolation.

use std::io;

use async_trait::async_trait;
use language::Language;

use crate::guest::Guest;
use crate::guest_error::GuestError;
use crate::isolation::{Control, Isolation};

/// A backend: native, Docker, Kubernetes, or a fake in tests.
#[async_trait]
pub trait Launcher: Send + Sync {
    /// Starts a guest of this shape and waits until it is ready for its one job.
    async fn launch(&self, shape: &Shape) -> Result<Guest, LaunchError>;

    /// Removes orphaned sandboxes, whose owner is dead; returns how many there were. `owner` is
    /// this live process.
    async fn sweep(&self, owner: &Owner) -> Result<usize, LaunchError>;

    /// Launches a guest to measure the isolation on this machine.
    async fn probe(&self) -> Result<Isolation, LaunchError>;
}

/// The properties of a sandbox that are fixed before its job is known.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Shape {
    pub language: Language,
    /// The image that the skill names, for backends with images; `None` is the launcher's own
    /// image for the language.
    pub image: Option<String>,
    pub memory_bytes: u64,
    /// Thousandths of a core.
    pub cpu_millis: u32,
    pub pids: u32,
    pub disk_bytes: u64,
    pub disk_inodes: u64,
}

/// The id of a server process, which owns its sandboxes. It allows another process to find orphans.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Owner(pub String);

/// Why no guest could be launched. Never the fault of a skill.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// A setup step of the sandbox failed.
    #[error("could not set up a sandbox: {step}: {source}")]
    Setup {
        step: String,
        #[source]
        source: io::Error,
    },
    /// The operator requires controls that this machine does not enforce.
    #[error("required isolation is not available here: {}; see `skillbox doctor`", list(.0))]
    Missing(Vec<Control>),
    /// No interpreter for this language was found.
    #[error("no {0} interpreter was found; install one or see `skillbox doctor`")]
    NoInterpreter(Language),
    /// The operator does not allow this image.
    #[error("image {0:?} is not allowed here; see the setting image_allowlist")]
    ImageNotAllowed(String),
    /// The engine does not have this image, and images are never pulled.
    #[error(
        "the engine has no image {0:?}; run `docker pull {0}` there, import it, or name another one in the setting image_<language>"
    )]
    ImageMissing(String),
    /// The engine has this image, but it cannot be used.
    #[error("image {image:?} cannot be used: {why}")]
    ImageUnfit { image: String, why: String },
    /// The engine made a container with weaker isolation than requested.
    #[error("the engine did not apply the requested isolation: {}; it is too old, or a proxy in front of it changes requests", .0.join(", "))]
    Weakened(Vec<String>),
    /// There is no capacity at the moment, with the backend's message.
    #[error("there is no capacity for a sandbox at the moment: {0}")]
    NoRoom(String),
    /// The launcher process exited.
    #[error("the launcher process has exited")]
    LauncherGone,
    /// The guest was started but did not become ready.
    #[error(transparent)]
    Guest(#[from] GuestError),
}

fn list(controls: &[Control]) -> String {
    controls.iter().map(|control| control.as_str()).collect::<Vec<_>>().join(", ")
}
