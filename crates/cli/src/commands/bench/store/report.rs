//! The figures of a database and the report of them.

use std::fmt::{self, Display, Formatter};
use std::time::Duration;

use serde::Serialize;
use store::bench::BenchTableSizes;

use super::WORKERS;
use super::work::StoreWork;
use crate::commands::version;

/// Properties of the machine and the database that affect the figures.
#[derive(Serialize)]
pub(super) struct BenchSetup {
    cores: usize,
    kernel: String,
    build: &'static str,
    tenants: usize,
    seconds_each: f64,
    postgres: Vec<(String, String)>,
}

impl BenchSetup {
    pub(super) fn new(
        postgres: Vec<(String, String)>,
        tenants: usize,
        each: Duration,
    ) -> BenchSetup {
        BenchSetup {
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            kernel: rustix::system::uname().release().to_string_lossy().into_owned(),
            build: version::build(),
            tenants,
            seconds_each: each.as_secs_f64(),
            postgres,
        }
    }
}

/// The figures for one number of stored executions.
#[derive(Serialize)]
pub(super) struct StoreLevel {
    pub stored: StoredSize,
    /// Operations per second, one figure for each of `WORKERS`.
    pub rates: Vec<(StoreWork, [f64; WORKERS.len()])>,
    /// Bytes of write-ahead log per queued execution, with the most workers.
    #[serde(rename = "log_bytes_each")]
    pub wal_bytes_each: f64,
    /// Duration of counting queued and running executions, as the metrics do.
    pub count_ms: f64,
    /// Duration of deleting the oldest hundred executions.
    pub forget_ms: Option<f64>,
}

#[derive(Serialize)]
pub(super) struct StoredSize {
    executions: i64,
    table_bytes: i64,
    index_bytes: i64,
}

impl From<BenchTableSizes> for StoredSize {
    fn from(
        BenchTableSizes { executions, table_bytes, index_bytes }: BenchTableSizes,
    ) -> StoredSize {
        StoredSize { executions, table_bytes, index_bytes }
    }
}

#[derive(Serialize)]
pub(super) struct StoreReport {
    pub setup: BenchSetup,
    pub levels: Vec<StoreLevel>,
}

impl Display for StoreReport {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let BenchSetup { cores, kernel, build, tenants, seconds_each, postgres } = &self.setup;
        writeln!(f, "{cores} cores for Postgres and its callers, Linux {kernel}, {build} build")?;
        let settings: Vec<String> =
            postgres.iter().map(|(name, value)| format!("{name}={value}")).collect();
        writeln!(f, "{}", settings.join(" "))?;
        writeln!(
            f,
            "{tenants} tenants, {seconds_each:.1} s per figure; operations per second, and ratio to the first level\n"
        )?;
        write!(f, "{:<36}", "workers")?;
        for workers in WORKERS {
            write!(f, "{workers:>16}")?;
        }
        writeln!(f)?;
        for level in &self.levels {
            self.write_level(f, level)?;
        }
        if *build == "debug" {
            writeln!(f, "\nthis is a debug build; measure with a release build")?;
        }
        Ok(())
    }
}

impl StoreReport {
    fn write_level(&self, f: &mut Formatter<'_>, level: &StoreLevel) -> fmt::Result {
        let StoredSize { executions, table_bytes, index_bytes } = level.stored;
        write!(f, "\n{executions} executions stored")?;
        if executions > 0 {
            write!(
                f,
                ", {} bytes each and {} in indexes",
                table_bytes / executions,
                index_bytes / executions
            )?;
        }
        writeln!(f)?;
        for (work, rates) in &level.rates {
            write!(f, "  {:<34}", work.name())?;
            let first_level = self
                .levels
                .first()
                .and_then(|first| first.rates.iter().find(|(name, _)| name == work));
            for (index, rate) in rates.iter().enumerate() {
                let ratio = first_level.map_or(1.0, |(_, first)| rate / first[index]);
                write!(f, "{:>16}", format!("{rate:.0} ({ratio:.2}x)"))?;
            }
            writeln!(f)?;
        }
        writeln!(
            f,
            "  an execution writes {:.0} bytes of write-ahead log (WAL)",
            level.wal_bytes_each
        )?;
        write!(f, "  counting the queue takes {:.1} ms", level.count_ms)?;
        match level.forget_ms {
            Some(ms) => writeln!(f, ", deleting the oldest hundred {ms:.1} ms"),
            None => writeln!(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_shows_rates_and_ratios() {
        let level = |executions, rate| StoreLevel {
            stored: StoredSize {
                executions,
                table_bytes: executions * 1500,
                index_bytes: executions * 500,
            },
            rates: StoreWork::ALL.map(|work| (work, [rate, 2.0 * rate, 3.0 * rate])).to_vec(),
            wal_bytes_each: 9000.0,
            count_ms: 1.0,
            forget_ms: (executions > 0).then_some(7.5),
        };
        let setup = BenchSetup::new(vec![("fsync".into(), "on".into())], 8, Duration::from_secs(3));
        let text =
            StoreReport { setup, levels: vec![level(0, 100.0), level(1000, 50.0)] }.to_string();
        assert!(
            text.contains("fsync=on")
                && text.contains("100 (1.00x)")
                && text.contains("150 (0.50x)"),
            "{text}"
        );
        assert!(
            text.contains("1000 executions stored, 1500 bytes each and 500 in indexes"),
            "{text}"
        );
        assert!(text.contains("deleting the oldest hundred 7.5 ms"), "{text}");
    }
}
