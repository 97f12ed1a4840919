//! One file per command, with its flags and its messages. Code that commands share is one level
//! above.

pub mod audit;
pub mod audit_log;
pub mod bench;
pub mod completions;
pub mod config;
mod demo;
pub mod docker_proxy;
pub mod doctor;
pub mod exec;
mod follow;
pub mod guest_copy;
pub mod health;
mod inputs;
pub mod key;
pub mod list;
mod listing;
pub mod mcp;
pub mod migrate;
pub mod receipt;
pub mod run;
pub mod serve;
pub mod skill;
pub mod tenant;
pub mod trust;
pub mod version;
pub mod webhook;

use std::process::ExitCode;

use anyhow::Result;

use crate::args::{Cli, Command};
use crate::output::Output;

/// Runs the command. `Ok` carries the exit code of a command that completed, which may be other
/// than 0. `Err` is a failed call.
pub async fn run(cli: Cli) -> Result<ExitCode> {
    let Cli { global, command } = cli;
    let output = Output::new(global.output);
    match command {
        Command::Serve(args) => serve::run(&global, args, output).await,
        Command::Migrate(args) => migrate::run(&args, output).await,
        Command::Run(args) => run::run(&global, args, output).await,
        Command::Audit(args) => audit::run(args, output).await,
        Command::List(args) => list::run(&args, output),
        Command::Validate(args) => skill::lint::run(&args, output),
        Command::Skill(command) => skill::run(&global, command, output).await,
        Command::Exec(command) => exec::run(&global, command, output).await,
        Command::Key(command) => key::run(&global, command, output).await,
        Command::Trust(command) => trust::run(&global, command, output).await,
        Command::AuditLog(command) => audit_log::run(&global, command, output).await,
        Command::Receipt(command) => receipt::run(&global, command, output).await,
        Command::Tenant(command) => tenant::run(&global, command, output).await,
        Command::Webhook(command) => webhook::run(&global, command, output).await,
        Command::Config(args) => config::run(&args, output),
        Command::Doctor(args) => doctor::run(&args, output).await,
        Command::DockerProxy(args) => docker_proxy::run(args, output).await,
        Command::Mcp(args) => mcp::run(&global, args).await,
        Command::GuestCopy(args) => guest_copy::run(&args),
        Command::Health => health::run(&global, output).await,
        Command::Version => version::run(output),
        Command::Completions(args) => completions::run(&args, output),
        Command::Bench(args) => bench::run(args, output).await,
    }
}
