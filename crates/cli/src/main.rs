//! `skillbox`: the service, and the command line that talks to it, in one binary.
//!
//! This crate owns words, tables and exit codes. What a skill is, how it runs and how it is stored
//! it leaves to the crates below, and to a server it speaks only through `client`.

mod args;
mod commands;
mod connection;
mod failure;
mod input;
mod local;
mod output;
mod progress;
mod target;
mod text;

use std::process::ExitCode;

use clap::Parser;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let cli = args::Cli::parse();
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    let ended = match runtime {
        Ok(runtime) => {
            let ended = runtime.block_on(commands::run(cli));
            // What still hangs, in a kernel that lets nothing be killed say, must not hold the end
            // up.
            runtime.shutdown_background();
            ended
        }
        Err(error) => {
            Err(anyhow::Error::new(error).context("cannot start the threads this program needs"))
        }
    };
    ended.unwrap_or_else(|error| failure::report(&error))
}
