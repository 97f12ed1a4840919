//! One execution, from a request to its stored result.
//!
//! The path is six steps, one file each, and values only move right:
//! `accept` → `load` → `plan` → `run` → `collect` → `record`; `execution.rs` calls them in that order.
//! Around the path stand the queue with its worker loop, the leases with their heartbeat, and the reaper.
//! This crate knows nothing of HTTP, of keys' secrets, or of how a sandbox is made.

mod accept;
mod artifacts;
mod collect;
mod config;
mod content_type;
mod detail;
mod ending;
mod env;
mod error;
mod execution;
mod gzip_tar;
mod halt;
mod json;
mod leases;
mod limits;
mod load;
mod logs;
mod plan;
mod publish;
mod queue;
mod readiness;
mod reaper;
mod record;
mod request;
mod run;
mod runner;
mod schema;
mod waiters;

pub use config::{Policy, RunnerConfig};
pub use detail::{Detail, SkippedFile, Timings, Usage};
pub use error::RunError;
pub use readiness::Readiness;
pub use request::{Caller, Cwd, LimitsRequest, Request};
pub use runner::Runner;
