//! Running a skill without a server: read it, apply the policies, plan, run and report.
//!
//! How a run is planned and sandboxed belongs to `runner` and `sandbox`. This module decides what
//! the user of this machine may allow, which is more than any server allows: the network of the
//! machine, or no sandbox at all. Both are always announced with a warning.

mod args;
mod backend;
mod live_output;
mod policy_file;
mod result;
mod run;
mod skill_location;
mod skill_policy;
mod user_policy;

pub(crate) use args::{LocalArgs, LocalSandbox};
pub(crate) use live_output::{LogDestination, SavedFile};
pub(crate) use result::{FinishedRun, RunMetadata};
pub(crate) use run::{LocalRunRequest, run, run_into};
pub(crate) use skill_location::SkillLocation;
