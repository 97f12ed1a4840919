//! `skillbox bench store`: how many executions per second a Postgres records and claims, with few and
//! with many stored executions. It calls the real store functions, with documents of the size that a
//! small skill produces.

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
use report::{BenchSetup, StoreLevel, StoreReport};
use work::{StoreWork, WorkCount};

/// Numbers of concurrent workers, one column of figures each.
pub(super) const WORKERS: [usize; 3] = [1, 4, 16];
const TENANTS: usize = 8;
/// Executions that are queued before claims are measured, per second of measuring. More than any
/// Postgres can claim, so that the queue never runs empty.
const QUEUED_PER_SECOND: f64 = 6000.0;
/// The batch size of retention.
const RETENTION_BATCH: i64 = 100;

#[derive(Args)]
pub(super) struct StoreArgs {
    /// Seconds to measure, in total. Filling the tables takes additional time.
    #[arg(long, default_value_t = 60, value_name = "N", value_parser = clap::value_parser!(u32).range(2..=3600))]
    seconds: u32,
    /// Numbers of stored executions, in ascending order. All figures are measured for each.
    #[arg(long, default_value = "0,100000", value_name = "N,…", value_delimiter = ',')]
    rows: Vec<u32>,
    #[command(flatten)]
    server: server::config::Args,
}

pub(super) async fn run(args: &StoreArgs, output: Output) -> Result<ExitCode> {
    let config = Config::load(&args.server)?;
    if !config.is_postgres() {
        bail!(
            "no Postgres is configured; set SKILLBOX_DB_DSN or --db-dsn, or use scripts/bench-store.sh, which starts one"
        );
    }
    if !args.rows.is_sorted() || args.rows.is_empty() {
        bail!("--rows must be in ascending order, such as 0,100000,1000000");
    }
    let bench = BenchDatabase::create(&config.dsn(), TENANTS).await?;
    let report = tokio::select! {
        report = measure(args, &bench) => report,
        _ = tokio::signal::ctrl_c() => Err(anyhow::anyhow!("interrupted")),
    };
    bench.remove().await?;
    let report = report?;
    if output.is_json() {
        output.line(&serde_json::to_string(&report)?)?;
    } else {
        output.bytes(report.to_string().as_bytes())?;
    }
    Ok(ExitCode::SUCCESS)
}

async fn measure(args: &StoreArgs, bench: &BenchDatabase) -> Result<StoreReport> {
    let figures = args.rows.len() * WORKERS.len() * StoreWork::ALL.len();
    let each = Duration::from_secs_f64(f64::from(args.seconds) / figures as f64);
    let setup = BenchSetup::new(bench.settings().await?, TENANTS, each);
    let mut levels = Vec::new();
    for rows in &args.rows {
        let spinner = progress::spinner(&format!("filling up to {rows} executions"));
        let missing = i64::from(*rows) - bench.table_sizes().await?.executions;
        bench.insert_finished(missing.max(0), &work::finished(), work::INPUT).await?;
        drop(spinner);
        let spinner = progress::spinner(&format!("measuring with {rows} executions"));
        levels.push(measure_level(bench, each).await?);
        drop(spinner);
    }
    Ok(StoreReport { setup, levels })
}

async fn measure_level(bench: &BenchDatabase, each: Duration) -> Result<StoreLevel> {
    let stored = bench.table_sizes().await?;
    let mut rates = Vec::new();
    let mut wal_bytes_each = 0.0;
    for work in StoreWork::ALL {
        let mut rates_by_workers = [0.0; WORKERS.len()];
        for (rate, workers) in rates_by_workers.iter_mut().zip(WORKERS) {
            if work == StoreWork::Claim {
                bench
                    .insert_queued((QUEUED_PER_SECOND * each.as_secs_f64()) as i64, work::INPUT)
                    .await?;
            }
            let wal_before = bench.wal_bytes().await?;
            let WorkCount { count, seconds } = work::repeat(work, bench, workers, each).await?;
            *rate = count as f64 / seconds;
            if work == StoreWork::Queued {
                wal_bytes_each =
                    (bench.wal_bytes().await? - wal_before) as f64 / (count as f64).max(1.0);
            }
            bench.clear_active().await?;
        }
        rates.push((work, rates_by_workers));
    }
    let started_at = Instant::now();
    bench.store.queue_load().await?;
    let count_ms = started_at.elapsed().as_secs_f64() * 1e3;
    Ok(StoreLevel {
        stored: stored.into(),
        rates,
        wal_bytes_each,
        count_ms,
        forget_ms: measure_forget(bench).await?,
    })
}

/// Milliseconds to delete the oldest executions; `None` if there are fewer than one batch.
async fn measure_forget(bench: &BenchDatabase) -> Result<Option<f64>> {
    let started_at = Instant::now();
    let ended = bench.store.list_ended_before(store::now(), RETENTION_BATCH).await?;
    if ended.len() < RETENTION_BATCH as usize {
        return Ok(None);
    }
    bench.store.delete_executions(&ended).await?;
    Ok(Some(started_at.elapsed().as_secs_f64() * 1e3))
}
