//! The text format of Prometheus, version 0.0.4: the header of a family, then its samples.

use std::fmt::{Display, Write};

use runner::Counted;

#[derive(Default)]
pub(crate) struct MetricsPage(String);

impl MetricsPage {
    /// Writes the header of a family. The help text has one line.
    pub(crate) fn family(&mut self, name: &str, kind: &str, help: &str) {
        self.line(format_args!("# HELP {name} {help}"));
        self.line(format_args!("# TYPE {name} {kind}"));
    }

    pub(crate) fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: impl Display) {
        let labels: Vec<String> =
            labels.iter().map(|(label, value)| format!("{label}=\"{}\"", escaped(value))).collect();
        match labels.is_empty() {
            true => self.line(format_args!("{name} {value}")),
            false => self.line(format_args!("{name}{{{}}} {value}", labels.join(","))),
        }
    }

    pub(crate) fn gauge(&mut self, name: &str, help: &str, value: impl Display) {
        self.family(name, "gauge", help);
        self.sample(name, &[], value);
    }

    pub(crate) fn counter(&mut self, name: &str, help: &str, value: u64) {
        self.family(name, "counter", help);
        self.sample(name, &[], value);
    }

    pub(crate) fn histogram(&mut self, name: &str, help: &str, counted: &Counted) {
        self.family(name, "histogram", help);
        let bucket = format!("{name}_bucket");
        for (bound_ms, count) in &counted.up_to_ms {
            self.sample(&bucket, &[("le", &(*bound_ms as f64 / 1e3).to_string())], count);
        }
        self.sample(&bucket, &[("le", "+Inf")], counted.count);
        self.sample(&format!("{name}_sum"), &[], counted.sum_s);
        self.sample(&format!("{name}_count"), &[], counted.count);
    }

    pub(crate) fn into_text(self) -> String {
        self.0
    }

    fn line(&mut self, line: std::fmt::Arguments<'_>) {
        writeln!(self.0, "{line}").expect("a string takes everything");
    }
}

fn escaped(value: &str) -> String {
    value.replace('\\', r"\\").replace('"', "\\\"").replace('\n', r"\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_follows_the_format() {
        let mut page = MetricsPage::default();
        page.family("a", "gauge", "What a is.");
        page.sample("a", &[("b", "c\"\\\nd"), ("e", "f")], 1.5);
        page.counter("g_total", "G.", 2);
        let counted = Counted { up_to_ms: vec![(5, 1), (1000, 3)], count: 4, sum_s: 2.25 };
        page.histogram("h_seconds", "H.", &counted);
        let expected = "# HELP a What a is.\n# TYPE a gauge\na{b=\"c\\\"\\\\\\nd\",e=\"f\"} 1.5\n\
            # HELP g_total G.\n# TYPE g_total counter\ng_total 2\n\
            # HELP h_seconds H.\n# TYPE h_seconds histogram\n\
            h_seconds_bucket{le=\"0.005\"} 1\nh_seconds_bucket{le=\"1\"} 3\nh_seconds_bucket{le=\"+Inf\"} 4\n\
            h_seconds_sum 2.25\nh_seconds_count 4\n";
        assert_eq!(page.into_text(), expected);
    }
}
