//! Timestamps: RFC 3339 in UTC on the wire, microseconds inside.

use chrono::{DateTime, SecondsFormat, Utc};
use store::Micros;

/// `2026-11-16T03:22:49.123456Z`.
pub(crate) fn rfc3339(at: Micros) -> String {
    let time = DateTime::<Utc>::from_timestamp_micros(at).unwrap_or_default();
    time.to_rfc3339_opts(SecondsFormat::Micros, true)
}

/// Parses any RFC 3339 timestamp.
pub(crate) fn parse(text: &str) -> Option<Micros> {
    DateTime::parse_from_rfc3339(text).ok().map(|time| time.timestamp_micros())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timestamp_survives_the_round_trip() {
        let text = "2026-11-16T03:22:49.123456Z";
        assert_eq!(parse(text).map(rfc3339).as_deref(), Some(text));
        assert_eq!(parse("2026-11-16T04:22:49.123456+01:00").map(rfc3339).as_deref(), Some(text));
        assert_eq!(parse("yesterday"), None);
    }
}
