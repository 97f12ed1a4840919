//! The seam between backends and everything else: start a guest, sweep what a dead owner left, say
//! what holds.

use std::io;

use async_trait::async_trait;
use language::Language;

use crate::guest::{Guest, GuestError};
use crate::isolation::{Control, Isolation};

/// A backend: native, Docker, Kubernetes, or a fake in tests.
#[async_trait]
pub trait Launcher: Send + Sync {
    /// Starts a guest of this shape and waits until it is ready for its one job.
    async fn launch(&self, shape: &Shape) -> Result<Guest, LaunchError>;

    /// Removes what nobody will remove any more, and says how many sandboxes that were. `owner` is
    /// this live process.
    async fn sweep(&self, owner: &Owner) -> Result<usize, LaunchError>;

    /// Finds out, by launching a guest, what really holds here.
    async fn probe(&self) -> Result<Isolation, LaunchError>;
}

/// Everything about a sandbox that is fixed before its job is known.
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

/// The server process instance that owns what it launched, so that another can tell what is
/// abandoned.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Owner(pub String);

/// Why no guest could be had. Never the fault of a skill.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// A named step of making the sandbox was refused by the system.
    #[error("could not set up a sandbox: {step}: {source}")]
    Setup {
        step: String,
        #[source]
        source: io::Error,
    },
    /// The operator requires controls that do not hold on this machine.
    #[error("required isolation is not available here: {}; see `skillbox doctor`", list(.0))]
    Missing(Vec<Control>),
    /// No interpreter for this language was found.
    #[error("no {0} interpreter was found; install one or see `skillbox doctor`")]
    NoInterpreter(Language),
    /// The operator does not allow this image.
    #[error("image {0:?} is not allowed here; the setting image_allowlist says which are")]
    ImageNotAllowed(String),
    /// The engine does not have this image, and we never fetch any.
    #[error(
        "the engine has no image {0:?}; run `docker pull {0}` there, import it, or name another one in the setting image_<language>"
    )]
    ImageMissing(String),
    /// The engine has this image, and it cannot be used.
    #[error("image {image:?} cannot be used: {why}")]
    ImageUnfit { image: String, why: String },
    /// The engine made something weaker than it was asked for.
    #[error("the engine did not do what it was asked for: {}; it is too old, or something in front of it changes requests", .0.join(", "))]
    Weakened(Vec<String>),
    /// Nothing is wrong but that there is no room now. In the words of whoever has none.
    #[error("there is no room for a sandbox now: {0}")]
    NoRoom(String),
    /// The process that makes sandboxes went away.
    #[error("the launcher process is gone")]
    LauncherGone,
    /// The guest was started but did not become ready.
    #[error(transparent)]
    Guest(#[from] GuestError),
}

fn list(controls: &[Control]) -> String {
    controls.iter().map(|control| control.as_str()).collect::<Vec<_>>().join(", ")
}
