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

pub use args::{LocalArgs, LocalSandbox};
pub use live_output::{LogDestination, SavedFile};
pub use result::{FinishedRun, RunMetadata};
pub use run::{LocalRunRequest, run, run_into};
pub use skill_location::SkillLocation;
