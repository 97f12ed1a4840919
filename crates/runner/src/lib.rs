//! Executions: accepted, queued, run in a sandbox, recorded.
//!
//! `execution/` is the path of one execution in six steps. `queue/` decides which process runs it
//! and survives processes that die. `logs/` publishes what happens meanwhile. This crate does not
//! know HTTP, the secrets of keys, or how a sandbox is made.

#![forbid(unsafe_code)]

mod artifacts;
mod config;
mod error;
mod execution;
mod failpoint;
mod json;
mod logs;
mod meters;
mod queue;
mod readiness;
mod request;
mod retention;
mod retry;
mod runner;
mod standalone;
mod storage_count;
mod tenant_policies;

pub use artifacts::archive_key;
pub use config::{Retention, RunPolicy, RunnerConfig};
pub use error::RunError;
pub use execution::accept::sealed_env::EnvKey;
pub use execution::completed::CompletedExecution;
pub use execution::detail::{Detail, Timings, TrustProblemDetail};
pub use execution::record::receipt::RECEIPT_KIND;
#[cfg(debug_assertions)]
pub use failpoint::{Failpoint, FailpointAction, Point};
pub use logs::events::{Event, EventId, EventKind, Events};
pub use meters::{Counted, Counter, Histogram, Meters, Slots};
pub use readiness::{Readiness, Room};
pub use request::{Caller, Cwd, LimitsRequest, Request};
pub use runner::{Runner, RunnerParts};
pub use standalone::{StandaloneError, StandaloneResult, StandaloneRun};
