//! Runs one job in one single-use sandbox and reports the true cause of its end.
//!
//! A [`Launcher`] starts a guest and connects one byte stream to it; that is all that a backend
//! does. The protocol on the stream is common to all backends: [`Guest::run`] sends a [`Job`],
//! supervises it under a deadline, and collects its results. The guest is treated as hostile from
//! its first byte. This crate does not know skills, tenants, storage or HTTP.

#![forbid(unsafe_code)]

mod classify;
mod container_backend;
mod container_isolation;
mod delivery;
mod docker;
#[cfg(test)]
mod fake_guest;
mod guest;
mod guest_binary;
mod guest_error;
mod guest_report;
mod isolation;
mod job;
mod kubernetes;
mod launcher;
mod native;
mod network;
mod outcome;
mod policy;
mod protocol_state;
mod seccomp;
mod supervisor;
mod unconfined;
#[cfg(feature = "weakened")]
mod weakened;
mod wire;

pub use docker::doctor::{DockerReport, docker_doctor};
pub use docker::{DockerConfig, DockerLauncher, FILLER_ENTRYPOINT, Images, MAX_FILL_BYTES};
pub use guest::{Guest, GuestHandle};
pub use guest_error::GuestError;
pub use guest_protocol::jail::{Counters, SandboxNetwork};
pub use guest_protocol::protocol::{ConnectAttempt, ConnectCall, OutputStream, paths};
pub use isolation::{Control, Isolation};
pub use job::{FileSource, Job, JobFile, OutputLimits, Sink, SinkError, StreamMode, StreamedFile};
pub use kubernetes::doctor::{KubernetesReport, kubernetes_doctor};
pub use kubernetes::{KubernetesConfig, KubernetesLauncher, copy_guest};
pub use launcher::{LaunchError, Launcher, Owner, Shape};
pub use native::doctor::{NativeReport, native_advice, native_doctor};
pub use native::{NativeConfig, NativeLauncher};
pub use network::HostNetworkPermit;
pub use outcome::{Outcome, RunReport, RunUsage, SkippedFile};
pub use seccomp::profile as seccomp_profile;
pub use unconfined::{UnconfinedPermit, UntrustedDirectory, run_unconfined};
#[cfg(feature = "weakened")]
pub use weakened::Defence;

use ::guest as guest_protocol;
