//! `skillbox bench store`: executions that a Postgres records and claims a second, with few and
//! with many stored. The real functions of the store are called, with documents of the size that a
//! small skill leaves.

mod report;
mod work;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use clap::Args;
use server::config::Config;
use store::bench::BenchDatabase;

use crate::output::Output;
use crate::progress;
use report::{Level, Report, Setup};
use work::{Done, Work};

/// Who claims at the same time.
pub const WORKERS: [usize; 3] = [1, 4, 16];
const TENANTS: usize = 8;
/// What waits before claims are measured, for each second; more than any Postgres hands out.
const QUEUED_PER_SECOND: f64 = 6000.0;
/// How much retention forgets at once.
const FORGET: i64 = 100;

#[derive(Args)]
pub struct StoreArgs {
    /// Seconds to measure, all figures together; filling the tables comes on top.
    #[arg(long, default_value_t = 60, value_name = "N", value_parser = clap::value_parser!(u32).range(2..=3600))]
    seconds: u32,
    /// How many executions are stored already, one round of figures for each, rising.
    #[arg(long, default_value = "0,100000", value_name = "N,…", value_delimiter = ',')]
    rows: Vec<u32>,
    #[command(flatten)]
    server: server::config::Args,
}

pub async fn run(args: &StoreArgs, output: Output) -> Result<ExitCode> {
    let config = Config::load(&args.server)?;
    if !config.is_postgres() {
        bail!(
            "name a Postgres to measure with SKILLBOX_DB_DSN or --db-dsn; scripts/bench-store.sh makes one for it"
        );
    }
    if !args.rows.is_sorted() || args.rows.is_empty() {
        bail!("--rows must rise, such as 0,100000,1000000");
    }
    let bench = BenchDatabase::create(&config.dsn(), TENANTS).await?;
    let measured = tokio::select! {
        measured = measure(args, &bench) => measured,
        _ = tokio::signal::ctrl_c() => Err(anyhow::anyhow!("interrupted")),
    };
    bench.remove().await?;
    let report = measured?;
    if output.is_json() {
        output.line(&serde_json::to_string(&report)?)?;
    } else {
        output.bytes(report.to_string().as_bytes())?;
    }
    Ok(ExitCode::SUCCESS)
}

async fn measure(args: &StoreArgs, bench: &BenchDatabase) -> Result<Report> {
    let figures = args.rows.len() * WORKERS.len() * Work::ALL.len();
    let each = Duration::from_secs_f64(f64::from(args.seconds) / figures as f64);
    let setup = Setup::here(bench.settings().await?, TENANTS, each);
    let mut levels = Vec::new();
    for rows in &args.rows {
        let spinner = progress::spinner(&format!("filling up to {rows} executions"));
        let missing = i64::from(*rows) - bench.table_sizes().await?.executions;
        bench.insert_finished(missing.max(0), &work::finished(), work::INPUT).await?;
        drop(spinner);
        let spinner = progress::spinner(&format!("measuring with {rows} executions"));
        levels.push(level(bench, each).await?);
        drop(spinner);
    }
    Ok(Report { setup, levels })
}

async fn level(bench: &BenchDatabase, each: Duration) -> Result<Level> {
    let stored = bench.table_sizes().await?;
    let mut rates = Vec::new();
    let mut log_bytes_each = 0.0;
    for work in Work::ALL {
        let mut row = [0.0; WORKERS.len()];
        for (rate, workers) in row.iter_mut().zip(WORKERS) {
            if work == Work::Claim {
                bench
                    .insert_queued((QUEUED_PER_SECOND * each.as_secs_f64()) as i64, work::INPUT)
                    .await?;
            }
            let written = bench.wal_bytes().await?;
            let Done { count, seconds } = work::repeat(work, bench, workers, each).await?;
            *rate = count as f64 / seconds;
            if work == Work::Queued {
                log_bytes_each =
                    (bench.wal_bytes().await? - written) as f64 / (count as f64).max(1.0);
            }
            bench.clear_active().await?;
        }
        rates.push((work, row));
    }
    let began = Instant::now();
    bench.store.queue_load().await?;
    let count_ms = began.elapsed().as_secs_f64() * 1e3;
    Ok(Level {
        stored: stored.into(),
        rates,
        log_bytes_each,
        count_ms,
        forget_ms: forget(bench).await?,
    })
}

/// What it takes to forget the oldest executions, in milliseconds; none when there are not enough.
async fn forget(bench: &BenchDatabase) -> Result<Option<f64>> {
    let began = Instant::now();
    let ended = bench.store.list_ended_before(store::now(), FORGET).await?;
    if ended.len() < FORGET as usize {
        return Ok(None);
    }
    bench.store.delete_executions(&ended).await?;
    Ok(Some(began.elapsed().as_secs_f64() * 1e3))
}
