//! One file a command. Each owns its flags and its words; what they share stands beside this directory.

pub mod bench;
pub mod completions;
pub mod config;
mod demo;
pub mod doctor;
pub mod exec;
pub mod health;
pub mod key;
mod listing;
pub mod run;
pub mod serve;
pub mod skill;
pub mod tenant;
pub mod version;

use std::process::ExitCode;

use anyhow::Result;

use crate::args::{Cli, Command};
use crate::output::Output;

/// Runs the command. `Ok` with a code is an answer, also when the code is not 0; `Err` is a call that failed.
pub async fn run(cli: Cli) -> Result<ExitCode> {
    let Cli { global, command } = cli;
    let output = Output::new(global.output);
    match command {
        Command::Serve(args) => serve::run(&global, args, output).await,
        Command::Run(args) => run::run(&global, args, output).await,
        Command::Skill(command) => skill::run(&global, command, output).await,
        Command::Exec(command) => exec::run(&global, command, output).await,
        Command::Key(command) => key::run(&global, command, output).await,
        Command::Tenant(command) => tenant::run(&global, command, output).await,
        Command::Config(args) => config::run(&args, output),
        Command::Doctor(args) => doctor::run(&args, output).await,
        Command::Health => health::run(&global, output).await,
        Command::Version => version::run(output),
        Command::Completions(args) => completions::run(&args, output),
        Command::Bench(args) => bench::run(args, output).await,
    }
}
