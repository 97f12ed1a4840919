//! `skillbox`: the service, and the command line that talks to it, in one binary.
//!
//! This crate owns messages, tables and exit codes. The format of skills, their execution and their
//! storage belong to the crates below. It reaches a server only through `client`.

#![forbid(unsafe_code)]

mod args;
mod commands;
mod connection;
mod failure;
mod input;
mod local_run;
mod output;
mod output_directory;
mod progress;
mod skill_reader;
mod terminal;
mod text;

use std::process::ExitCode;

use clap::Parser;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let cli = args::Cli::parse();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let result = match runtime {
        Ok(runtime) => {
            let result = runtime.block_on(commands::run(cli));
            // Not a normal shutdown: that would wait for blocking tasks, and one may hang for ever,
            // for example on a process that the kernel cannot kill.
            runtime.shutdown_background();
            result
        }
        Err(error) => {
            Err(anyhow::Error::new(error).context("cannot start the threads of this program"))
        }
    };
    result.unwrap_or_else(|error| failure::report(&error))
}
