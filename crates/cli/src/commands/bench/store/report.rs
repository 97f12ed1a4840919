//! The figures of a database, and how they are shown.

use std::fmt::{self, Display, Formatter};
use std::time::Duration;

use serde::Serialize;
use store::bench::BenchTableSizes;

use super::WORKERS;
use super::work::Work;
use crate::commands::version;

/// What the figures depend on.
#[derive(Serialize)]
pub struct Setup {
    cores: usize,
    kernel: String,
    build: &'static str,
    tenants: usize,
    seconds_each: f64,
    postgres: Vec<(String, String)>,
}

impl Setup {
    pub fn here(postgres: Vec<(String, String)>, tenants: usize, each: Duration) -> Setup {
        Setup {
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            kernel: rustix::system::uname().release().to_string_lossy().into_owned(),
            build: version::build(),
            tenants,
            seconds_each: each.as_secs_f64(),
            postgres,
        }
    }
}

/// The figures with so many executions stored.
#[derive(Serialize)]
pub struct Level {
    pub stored: Size,
    /// By `WORKERS`, a second.
    pub rates: Vec<(Work, [f64; WORKERS.len()])>,
    /// What one execution that was queued adds to the database's log, by most workers.
    pub log_bytes_each: f64,
    /// Counting what waits and runs, as a look at the metrics does.
    pub count_ms: f64,
    /// Forgetting the oldest hundred.
    pub forget_ms: Option<f64>,
}

#[derive(Serialize)]
pub struct Size {
    executions: i64,
    table_bytes: i64,
    index_bytes: i64,
}

impl From<BenchTableSizes> for Size {
    fn from(BenchTableSizes { executions, table_bytes, index_bytes }: BenchTableSizes) -> Size {
        Size { executions, table_bytes, index_bytes }
    }
}

#[derive(Serialize)]
pub struct Report {
    pub setup: Setup,
    pub levels: Vec<Level>,
}

impl Display for Report {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Setup { cores, kernel, build, tenants, seconds_each, postgres } = &self.setup;
        writeln!(f, "{cores} cores for Postgres and its callers, Linux {kernel}, {build} build")?;
        let settings: Vec<String> =
            postgres.iter().map(|(name, value)| format!("{name}={value}")).collect();
        writeln!(f, "{}", settings.join(" "))?;
        writeln!(
            f,
            "{tenants} tenants, {seconds_each:.1} s each figure; a second, and against the first round\n"
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

impl Report {
    fn write_level(&self, f: &mut Formatter<'_>, level: &Level) -> fmt::Result {
        let Size { executions, table_bytes, index_bytes } = level.stored;
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
            let first = self
                .levels
                .first()
                .and_then(|first| first.rates.iter().find(|(name, _)| name == work));
            for (index, rate) in rates.iter().enumerate() {
                let ratio = first.map_or(1.0, |(_, first)| rate / first[index]);
                write!(f, "{:>16}", format!("{rate:.0} ({ratio:.2}x)"))?;
            }
            writeln!(f)?;
        }
        writeln!(f, "  an execution writes {:.0} bytes of log (WAL)", level.log_bytes_each)?;
        write!(f, "  counting the queue takes {:.1} ms", level.count_ms)?;
        match level.forget_ms {
            Some(ms) => writeln!(f, ", forgetting the oldest hundred {ms:.1} ms"),
            None => writeln!(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_shows_rates_and_ratios() {
        let level = |executions, rate| Level {
            stored: Size {
                executions,
                table_bytes: executions * 1500,
                index_bytes: executions * 500,
            },
            rates: Work::ALL.map(|work| (work, [rate, 2.0 * rate, 3.0 * rate])).to_vec(),
            log_bytes_each: 9000.0,
            count_ms: 1.0,
            forget_ms: (executions > 0).then_some(7.5),
        };
        let setup = Setup::here(vec![("fsync".into(), "on".into())], 8, Duration::from_secs(3));
        let text = Report { setup, levels: vec![level(0, 100.0), level(1000, 50.0)] }.to_string();
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
        assert!(text.contains("forgetting the oldest hundred 7.5 ms"), "{text}");
    }
}
