//! Runs one job in one single-use sandbox and tells truthfully how it ended.
//!
//! A [`Launcher`] starts a guest and hands back one byte stream to it; that is all a backend does.
//! Everything said on the stream is common to all backends and lives here: [`Guest::run`] places a
//! [`Job`], watches it under a deadline, and collects what it left, treating the guest as hostile
//! from its first byte. This crate knows nothing of skills, tenants, storage or HTTP.

mod contained;
mod conversation;
mod delivery;
mod docker;
mod guest;
mod isolation;
mod job;
mod judge;
mod kubernetes;
mod launcher;
mod native;
mod network;
mod outcome;
#[cfg(test)]
mod played;
mod policy;
mod program;
mod seccomp;
mod supervision;
mod trust;
mod unconfined;
#[cfg(feature = "weakened")]
mod weakened;
mod wire;

pub use docker::doctor::{DockerReport, docker_doctor};
pub use docker::{DockerConfig, DockerLauncher, FILL_BYTES, FILLER, Images};
pub use guest::{Guest, GuestError, Handle};
pub use guest_protocol::jail::{Counters, Network};
pub use guest_protocol::protocol::{Attempt, Call, Stream, paths};
pub use isolation::{Control, Isolation};
pub use job::{Caps, FileSource, Job, JobFile, Sink, SinkError, StreamedFile, Streams};
pub use kubernetes::doctor::{KubernetesReport, kubernetes_doctor};
pub use kubernetes::{KubernetesConfig, KubernetesLauncher, copy_guest};
pub use launcher::{LaunchError, Launcher, Owner, Runtime, Shape};
pub use native::doctor::{DoctorReport, advice, doctor};
pub use native::{NativeConfig, NativeLauncher};
pub use network::HostNetwork;
pub use outcome::{Outcome, Ran, Skipped, Usage};
pub use seccomp::profile as seccomp_profile;
pub use trust::{NotTrusted, Trust};
pub use unconfined::run_unconfined;
#[cfg(feature = "weakened")]
pub use weakened::Defence;

use ::guest as guest_protocol;
