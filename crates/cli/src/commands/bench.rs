//! `skillbox bench`: measures the overhead of the service over the bare interpreter, on one machine.
//! `bench store` measures a database instead.
//!
//! Both sides are measured alternately, so that other load on the machine affects both. The command
//! prints figures and applies no thresholds.

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
use figures::{Figures, LatencyReport, Machine};
use workload::Workload;

#[derive(Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct BenchArgs {
    #[command(subcommand)]
    command: Option<BenchCommand>,
    #[command(flatten)]
    runs: RunsArgs,
}

#[derive(Subcommand)]
enum BenchCommand {
    /// Measure the throughput of the configured Postgres, in a temporary database.
    Store(store::StoreArgs),
}

#[derive(Args)]
struct RunsArgs {
    /// Number of measured runs of each side.
    #[arg(long, default_value_t = 200, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,
    /// Number of runs of each side before measuring.
    #[arg(long, default_value_t = 10, value_name = "N")]
    warmup: u32,
}

pub(crate) async fn run(args: BenchArgs, output: Output) -> Result<ExitCode> {
    match args.command {
        Some(BenchCommand::Store(args)) => store::run(&args, output).await,
        None => run_latency(args.runs, output).await,
    }
}

async fn run_latency(args: RunsArgs, output: Output) -> Result<ExitCode> {
    let workload = Workload::new().await?;
    let figures = workload.serve_while(async |client| {
        tokio::select! {
            figures = measure(&args, &workload, client) => figures,
            _ = tokio::signal::ctrl_c() => Err(anyhow::anyhow!("interrupted")),
        }
    });
    let (bare, api) = figures.await?;
    let report = LatencyReport::new(Machine::current(&workload.python), args.runs, bare, api);
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
        run_bare(workload)?;
        run_through_api(client).await?;
    }
    let mut samples = (Vec::new(), Vec::new());
    for _ in 0..args.runs {
        samples.0.push(run_bare(workload)?);
        samples.1.push(run_through_api(client).await?);
    }
    drop(spinner);
    Ok((Figures::from_samples(samples.0), Figures::from_samples(samples.1)))
}

/// `python3 script.py`, from spawn to exit, in milliseconds.
fn run_bare(workload: &Workload) -> Result<f64> {
    let mut command = workload.bare_command();
    let start = Instant::now();
    let status =
        tokio::task::block_in_place(|| command.status()).context("cannot start python3")?;
    let elapsed_ms = start.elapsed().as_secs_f64() * 1000.0;
    anyhow::ensure!(status.success(), "the bare script failed with {status}");
    Ok(elapsed_ms)
}

/// The same script through `POST /v1/executions`, from request to parsed response, in milliseconds.
async fn run_through_api(client: &Client) -> Result<f64> {
    let request = RunRequest {
        skill: workload::NAME.to_owned(),
        input: Some(workload::input()),
        ..RunRequest::default()
    };
    let start = Instant::now();
    let ran = client.run(&request).await?;
    let elapsed_ms = start.elapsed().as_secs_f64() * 1000.0;
    anyhow::ensure!(
        ran.status == ExecutionStatus::Success,
        "the run ended with status {}: {}",
        ran.status.as_str(),
        ran.error.as_deref().unwrap_or("no error given")
    );
    Ok(elapsed_ms)
}
