//! Running a skill from a directory, with no server: read, allowed by the policies, planned, run,
//! told.
//!
//! What runs and how is `runner`'s and `sandbox`'s business. Here it is decided what the person at
//! this machine allows, which is more than any server gives: the network of the machine, or no
//! sandbox at all. Both are said out loud.

mod ground;
mod live;
mod policy;
mod run;
mod target;

use clap::{Args, ValueEnum};

pub use live::{Saved, Show};
pub use run::{Facts, Finished, Order, run, run_into, status};
pub use target::{Target, target};

/// What only a run without a server can be asked for.
#[derive(Args, Clone, Default)]
#[command(next_help_heading = "Options for a directory, run without a server")]
pub struct LocalArgs {
    /// Let the script use the whole network of this machine.
    #[arg(long)]
    pub allow_network: bool,
    /// Run the script as you, without any sandbox.
    #[arg(long, conflicts_with = "sandbox")]
    pub trust_remote_code: bool,
    /// Where to run it; the native sandbox, or Docker where that does not work.
    #[arg(long, value_enum, value_name = "KIND")]
    pub sandbox: Option<Kind>,
    /// Memory limit, such as 128Mi; it can only lower the skill's own.
    #[arg(long, value_name = "SIZE")]
    pub memory: Option<String>,
}

/// A kind of sandbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    Native,
    Docker,
}

impl LocalArgs {
    /// The first flag that was given and means nothing to a server.
    pub fn given(&self) -> Option<&'static str> {
        let flags = [
            (self.allow_network, "--allow-network"),
            (self.trust_remote_code, "--trust-remote-code"),
            (self.sandbox.is_some(), "--sandbox"),
            (self.memory.is_some(), "--memory"),
        ];
        flags.into_iter().find_map(|(given, flag)| given.then_some(flag))
    }
}
