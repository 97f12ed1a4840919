//! The seam between backends and everything else: start a guest, sweep what a dead owner left, say
//! what holds.

use std::fmt;
use std::io;
use std::str::FromStr;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

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
    pub runtime: Runtime,
    /// The image a skill asks for, where sandboxes have images; `None` is the launcher's own for
    /// the runtime.
    pub image: Option<String>,
    pub memory_bytes: u64,
    /// Thousandths of a core.
    pub cpu_millis: u32,
    pub pids: u32,
    pub disk_bytes: u64,
    pub disk_inodes: u64,
}

/// The interpreters a sandbox can offer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Runtime {
    Python,
    Node,
    Bash,
}

impl Runtime {
    pub const ALL: [Runtime; 3] = [Runtime::Python, Runtime::Node, Runtime::Bash];

    pub fn as_str(self) -> &'static str {
        match self {
            Runtime::Python => "python",
            Runtime::Node => "node",
            Runtime::Bash => "bash",
        }
    }
}

impl fmt::Display for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Runtime {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, Self::Err> {
        Runtime::ALL
            .into_iter()
            .find(|runtime| runtime.as_str() == name)
            .ok_or_else(|| format!("unknown runtime {name:?}: expected python, node or bash"))
    }
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
    /// No interpreter for this runtime was found.
    #[error("no {0} interpreter was found; install one or see `skillbox doctor`")]
    NoInterpreter(Runtime),
    /// The operator does not allow this image.
    #[error("image {0:?} is not allowed here; the setting image_allowlist says which are")]
    ImageNotAllowed(String),
    /// The engine does not have this image, and we never fetch any.
    #[error(
        "the engine has no image {0:?}; run `docker pull {0}` there, import it, or name another in image_python, image_node or image_bash"
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
