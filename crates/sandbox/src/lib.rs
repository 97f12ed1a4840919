//! Runs one job in one single-use sandbox and tells truthfully how it ended.
//!
//! A [`Launcher`] starts a guest and hands back one byte stream to it; that is all a backend does. Everything
//! said on the stream is common to all backends and lives here: [`Guest::run`] places a [`Job`], watches it
//! under a deadline, and collects what it left, treating the guest as hostile from its first byte.
//! This crate knows nothing of skills, tenants, storage or HTTP.

mod conversation;
mod delivery;
mod guest;
mod isolation;
mod job;
mod judge;
mod launcher;
mod native;
mod outcome;
#[cfg(test)]
mod played;
mod supervision;
mod wire;

pub use guest::{Guest, GuestError, Handle};
pub use guest_protocol::jail::Counters;
pub use guest_protocol::protocol::{Stream, paths};
pub use isolation::{Control, Isolation};
pub use job::{Caps, Job, JobFile, Sink, SinkError, Streams};
pub use launcher::{LaunchError, Launcher, Owner, Runtime, Shape};
pub use native::doctor::{DoctorReport, doctor};
pub use native::{NativeConfig, NativeLauncher};
pub use outcome::{Outcome, Ran, Skipped, Usage};

use ::guest as guest_protocol;
