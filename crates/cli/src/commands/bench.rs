//! `skillbox bench`: what the service adds to a bare interpreter, measured on one machine in one
//! run. `bench store` measures a database instead.
//!
//! Both sides are measured in turn, so that whatever else the machine does hits both. It prints
//! figures and judges nothing.

mod figures;
mod store;
mod workload;

use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context, Result};
use clap::{Args, Subcommand};
use client::{Client, ExecutionStatus, RunRequest};

use crate::output::Output;
use crate::progress;
use figures::{Figures, Machine, Report};
use workload::Workload;

#[derive(Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct BenchArgs {
    #[command(subcommand)]
    what: Option<BenchCommand>,
    #[command(flatten)]
    runs: RunsArgs,
}

#[derive(Subcommand)]
enum BenchCommand {
    /// Measure what the configured Postgres takes, in a database made for the purpose and removed
    /// again.
    Store(store::StoreArgs),
}

#[derive(Args)]
struct RunsArgs {
    /// How often to measure each side.
    #[arg(long, default_value_t = 200, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,
    /// How often to run each side before measuring.
    #[arg(long, default_value_t = 10, value_name = "N")]
    warmup: u32,
}

pub async fn run(args: BenchArgs, output: Output) -> Result<ExitCode> {
    match args.what {
        Some(BenchCommand::Store(args)) => store::run(&args, output).await,
        None => run_skills(args.runs, output).await,
    }
}

async fn run_skills(args: RunsArgs, output: Output) -> Result<ExitCode> {
    let workload = Workload::new().await?;
    let measured = workload.serving(async |client| {
        tokio::select! {
            measured = measure(&args, &workload, client) => measured,
            _ = tokio::signal::ctrl_c() => Err(anyhow::anyhow!("interrupted")),
        }
    });
    let (bare, api) = measured.await?;
    let report = Report::new(Machine::here(&workload.python), args.runs, bare, api);
    if output.is_json() {
        output.line(&serde_json::to_string(&report)?)?;
    } else {
        output.bytes(report.to_string().as_bytes())?;
    }
    Ok(ExitCode::SUCCESS)
}

async fn measure(
    args: &RunsArgs,
    workload: &Workload,
    client: &Client,
) -> Result<(Figures, Figures)> {
    let spinner = progress::spinner(&format!("measuring {} runs of each", args.runs));
    for _ in 0..args.warmup {
        bare(workload)?;
        through_the_api(client).await?;
    }
    let mut samples = (Vec::new(), Vec::new());
    for _ in 0..args.runs {
        samples.0.push(bare(workload)?);
        samples.1.push(through_the_api(client).await?);
    }
    drop(spinner);
    Ok((Figures::of(samples.0), Figures::of(samples.1)))
}

/// `python3 script.py`, from spawn to exit, in milliseconds.
fn bare(workload: &Workload) -> Result<f64> {
    let mut command = workload.bare_command();
    let start = Instant::now();
    let status =
        tokio::task::block_in_place(|| command.status()).context("cannot start python3")?;
    let taken = start.elapsed().as_secs_f64() * 1000.0;
    anyhow::ensure!(status.success(), "the bare script failed with {status}");
    Ok(taken)
}

/// The same script through `POST /v1/executions`, from request to parsed answer, in milliseconds.
async fn through_the_api(client: &Client) -> Result<f64> {
    let request = RunRequest {
        skill: workload::NAME.to_owned(),
        input: Some(workload::input()),
        ..RunRequest::default()
    };
    let start = Instant::now();
    let ran = client.run(&request).await?;
    let taken = start.elapsed().as_secs_f64() * 1000.0;
    anyhow::ensure!(
        ran.status == ExecutionStatus::Success,
        "the run ended as {}: {}",
        ran.status.as_str(),
        ran.error.as_deref().unwrap_or("no error given")
    );
    Ok(taken)
}
