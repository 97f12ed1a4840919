//! The measured figures and the report of them.

use std::fmt::{self, Display, Formatter};
use std::path::Path;

use serde::Serialize;

use crate::commands::version;

/// The latency distribution of one side, in milliseconds.
#[derive(Serialize)]
pub(super) struct Figures {
    pub min_ms: f64,
    pub p50_ms: f64,
    pub p99_ms: f64,
    pub max_ms: f64,
}

impl Figures {
    /// Needs at least one sample.
    pub(super) fn from_samples(mut samples: Vec<f64>) -> Self {
        samples.sort_by(f64::total_cmp);
        let at = |share: f64| {
            let rank = (samples.len() as f64 * share).ceil() as usize;
            round(samples.get(rank.saturating_sub(1)).copied().unwrap_or_default())
        };
        Self { min_ms: at(0.0), p50_ms: at(0.5), p99_ms: at(0.99), max_ms: at(1.0) }
    }
}

/// Properties of the machine and the build that affect the figures.
#[derive(Serialize)]
pub(super) struct Machine {
    cores: usize,
    kernel: String,
    arch: &'static str,
    python: String,
    build: &'static str,
}

impl Machine {
    pub(super) fn current(python: &Path) -> Self {
        let release = rustix::system::uname().release().to_string_lossy().into_owned();
        Self {
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            kernel: release,
            arch: std::env::consts::ARCH,
            python: python.display().to_string(),
            build: version::build(),
        }
    }
}

#[derive(Serialize)]
pub(super) struct LatencyReport {
    machine: Machine,
    runs: u32,
    bare: Figures,
    api: Figures,
    /// Difference of the medians: through the API minus bare.
    difference_ms: f64,
    /// Ratio of the medians: through the API divided by bare.
    ratio: f64,
}

impl LatencyReport {
    pub(super) fn new(machine: Machine, runs: u32, bare: Figures, api: Figures) -> Self {
        let difference_ms = round(api.p50_ms - bare.p50_ms);
        let ratio = round(api.p50_ms / bare.p50_ms);
        Self { machine, runs, bare, api, difference_ms, ratio }
    }
}

impl Display for LatencyReport {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Machine { cores, kernel, arch, python, build } = &self.machine;
        writeln!(f, "{cores} cores, Linux {kernel} {arch}, {build} build, {python}")?;
        writeln!(f, "{} runs of each, alternating, one at a time; milliseconds\n", self.runs)?;
        writeln!(f, "{:<24}{:>9}{:>9}{:>9}{:>9}", "", "min", "p50", "p99", "max")?;
        for (name, side) in [("python3 script.py", &self.bare), ("POST /v1/executions", &self.api)]
        {
            writeln!(
                f,
                "{name:<24}{:>9.2}{:>9.2}{:>9.2}{:>9.2}",
                side.min_ms, side.p50_ms, side.p99_ms, side.max_ms
            )?;
        }
        writeln!(
            f,
            "\nthe service adds {:.2} ms at the median, {:.2} times the bare script",
            self.difference_ms, self.ratio
        )?;
        if *build == "debug" {
            writeln!(f, "this is a debug build; measure with `cargo run --release`")?;
        }
        Ok(())
    }
}

fn round(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_samples() {
        let figures = Figures::from_samples((1..=200).rev().map(f64::from).collect());
        assert_eq!(
            (figures.min_ms, figures.p50_ms, figures.p99_ms, figures.max_ms),
            (1.0, 100.0, 198.0, 200.0)
        );
        let one = Figures::from_samples(vec![7.0]);
        assert_eq!((one.min_ms, one.p50_ms, one.p99_ms, one.max_ms), (7.0, 7.0, 7.0, 7.0));
    }

    #[test]
    fn a_report_compares_medians() {
        let machine = Machine {
            cores: 2,
            kernel: "6".into(),
            arch: "x",
            python: "/usr/bin/python3".into(),
            build: "release",
        };
        let report = LatencyReport::new(
            machine,
            1,
            Figures::from_samples(vec![10.0]),
            Figures::from_samples(vec![15.0]),
        );
        assert_eq!((report.difference_ms, report.ratio), (5.0, 1.5));
        assert!(report.to_string().contains("adds 5.00 ms at the median, 1.50 times"), "{report}");
    }
}
