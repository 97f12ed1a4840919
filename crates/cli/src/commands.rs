//! One file per command, with its flags and its messages. Code that commands share is one level
//! above.

pub(crate) mod audit;
pub(crate) mod audit_log;
pub(crate) mod bench;
pub(crate) mod completions;
pub(crate) mod config;
mod demo;
pub(crate) mod docker_proxy;
pub(crate) mod doctor;
pub(crate) mod exec;
mod follow;
pub(crate) mod guest_copy;
pub(crate) mod health;
mod inputs;
pub(crate) mod key;
pub(crate) mod list;
mod listing;
pub(crate) mod mcp;
pub(crate) mod migrate;
pub(crate) mod receipt;
pub(crate) mod run;
pub(crate) mod serve;
pub(crate) mod skill;
pub(crate) mod tenant;
pub(crate) mod trust;
pub(crate) mod version;
pub(crate) mod webhook;

use std::process::ExitCode;

use anyhow::Result;

use crate::args::{Cli, Command};
use crate::output::Output;

/// Runs the command. `Ok` carries the exit code of a command that completed, which may be other
/// than 0. `Err` is a failed call.
pub(crate) async fn run(cli: Cli) -> Result<ExitCode> {
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
