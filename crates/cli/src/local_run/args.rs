//! Flags that apply only to a run without a server.

use clap::{Args, ValueEnum};

#[derive(Args, Clone, Default)]
#[command(next_help_heading = "Options for a directory, run without a server")]
pub(crate) struct LocalArgs {
    /// Let the script use the whole network of this machine.
    #[arg(long)]
    pub allow_network: bool,
    /// Run the script as the current user, without any sandbox.
    #[arg(long, conflicts_with = "sandbox")]
    pub trust_remote_code: bool,
    /// Sandbox to use. By default the native sandbox, or Docker where that does not work.
    #[arg(long, value_enum, value_name = "KIND")]
    pub sandbox: Option<LocalSandbox>,
    /// Memory limit, such as 128Mi. It can only lower the skill's own limit.
    #[arg(long, value_name = "SIZE")]
    pub memory: Option<String>,
}

/// A kind of sandbox that works without a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum LocalSandbox {
    Native,
    Docker,
}

impl LocalArgs {
    /// The first of these flags that was given, for the error when a server runs the skill.
    pub(crate) fn first_given_flag(&self) -> Option<&'static str> {
        let flags = [
            (self.allow_network, "--allow-network"),
            (self.trust_remote_code, "--trust-remote-code"),
            (self.sandbox.is_some(), "--sandbox"),
            (self.memory.is_some(), "--memory"),
        ];
        flags.into_iter().find_map(|(given, flag)| given.then_some(flag))
    }
}
