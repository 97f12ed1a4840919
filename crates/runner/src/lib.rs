//! One execution, from a request to its stored result.
//!
//! The path is six steps, one file each, and values only move right: `accept` → `load` → `plan` →
//! `run` → `collect` → `record`; `execution.rs` calls them in that order. Around the path stand the
//! queue with its worker loop, the leases with their heartbeat, and the reaper. This crate knows
//! nothing of HTTP, of keys' secrets, or of how a sandbox is made.

#![forbid(unsafe_code)]

mod accept;
mod admission;
mod announced;
mod artifacts;
mod checks;
mod collect;
mod config;
mod detail;
mod ending;
mod env;
mod error;
mod events;
mod execution;
#[cfg(debug_assertions)]
mod failpoint;
#[cfg(not(debug_assertions))]
#[path = "failpoint_off.rs"]
mod failpoint;
mod gzip_tar;
mod halt;
mod inputs;
mod json;
mod leases;
mod limits;
mod load;
mod logs;
mod meters;
mod patience;
mod plan;
mod queue;
mod read_execution;
mod readiness;
mod reaper;
mod receipt;
mod record;
mod request;
mod retention;
mod run;
mod runner;
mod sealed_env;
mod standalone;
mod storage;
mod tail;
mod vetting;
mod waiters;

pub use artifacts::archive_key;
pub use config::{Policy, Retention, RunnerConfig};
pub use detail::{Detail, Doubt, Timings};
pub use error::RunError;
pub use events::{Event, EventId, EventKind, Events};
#[cfg(debug_assertions)]
pub use failpoint::{Blow, Failpoint, Point};
pub use meters::{Counted, Counter, Histogram, Meters, Slots};
pub use readiness::{Readiness, Room};
pub use receipt::RECEIPT_KIND;
pub use request::{Caller, Cwd, LimitsRequest, Request};
pub use runner::{Runner, RunnerParts};
pub use sealed_env::EnvKey;
pub use standalone::{StandaloneError, StandaloneResult, StandaloneRun};
