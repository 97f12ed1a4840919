//! Parsing and formatting of durations, memory and CPU.

/// An invalid quantity; the message says how to write it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not {what}")]
pub struct UnitError {
    text: String,
    what: &'static str,
}

const DURATION: &str = "a duration; write a number with a unit, such as 500ms, 60s or 1m30s";
const MEMORY: &str = "an amount of memory; write bytes or a unit, such as 256Mi or 1Gi";
const CPU: &str = "an amount of CPU; write cores such as 0.5 or 2, or thousandths such as 500m";

/// Reads a duration as Go does (`1h2m3.5s`) into milliseconds, rounded up so that no
/// positive duration becomes zero.
pub fn parse_duration(text: &str) -> Result<u64, UnitError> {
    let failed = || unit_error(text, DURATION);
    if text == "0" {
        return Ok(0);
    }
    let mut rest = text;
    let mut nanos = 0u128;
    while !rest.is_empty() {
        let number_len = rest.find(|c: char| c != '.' && !c.is_ascii_digit()).ok_or_else(failed)?;
        let (number, tail) = rest.split_at(number_len);
        let unit_len = tail.find(|c: char| c == '.' || c.is_ascii_digit()).unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(unit_len);
        let unit_nanos = unit_nanos_of(unit).ok_or_else(failed)?;
        nanos += parse_scaled(number, unit_nanos).ok_or_else(failed)?;
        rest = tail;
    }
    if text.is_empty() {
        return Err(failed());
    }
    u64::try_from(nanos.div_ceil(1_000_000)).map_err(|_| failed())
}

/// Writes milliseconds as Go prints a duration: `1m0s`, `1.5s`, `500ms`.
pub fn format_duration(ms: u64) -> String {
    if ms == 0 {
        return "0s".to_owned();
    }
    if ms < 1_000 {
        return format!("{ms}ms");
    }
    let (minutes, seconds) = (ms / 60_000, format_thousandths(ms % 60_000));
    match (minutes / 60, minutes % 60) {
        (0, 0) => format!("{seconds}s"),
        (0, minutes) => format!("{minutes}m{seconds}s"),
        (hours, minutes) => format!("{hours}h{minutes}m{seconds}s"),
    }
}

/// Reads bytes with an optional Kubernetes suffix: `256Mi`, `1Gi`, `500M`, `1048576`.
pub fn parse_memory(text: &str) -> Result<u64, UnitError> {
    let failed = || unit_error(text, MEMORY);
    let number_len = text.find(|c: char| c != '.' && !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(number_len);
    let unit_bytes: u128 = match unit {
        "" => 1,
        "k" => 1_000,
        "M" => 1_000_000,
        "G" => 1_000_000_000,
        "T" => 1_000_000_000_000,
        "Ki" => 1 << 10,
        "Mi" => 1 << 20,
        "Gi" => 1 << 30,
        "Ti" => 1 << 40,
        _ => return Err(failed()),
    };
    let bytes = parse_scaled(number, unit_bytes).ok_or_else(failed)?;
    u64::try_from(bytes).map_err(|_| failed())
}

/// Writes bytes with the largest binary unit that divides them: `256Mi`.
pub fn format_memory(bytes: u64) -> String {
    for (unit, shift) in [("Ti", 40), ("Gi", 30), ("Mi", 20), ("Ki", 10)] {
        if bytes >= 1 << shift && bytes.trailing_zeros() >= shift {
            return format!("{}{unit}", bytes >> shift);
        }
    }
    bytes.to_string()
}

/// Reads cores (`0.5`, `2`) or thousandths of one (`500m`) into thousandths.
pub fn parse_cpu(text: &str) -> Result<u32, UnitError> {
    let failed = || unit_error(text, CPU);
    let millis = match text.strip_suffix('m') {
        Some(millis) => parse_scaled(millis, 1),
        None => parse_scaled(text, 1_000),
    };
    u32::try_from(millis.ok_or_else(failed)?).map_err(|_| failed())
}

/// Writes thousandths of a core as cores: `0.5`.
pub fn format_cpu(millis: u32) -> String {
    format_thousandths(u64::from(millis))
}

fn unit_nanos_of(unit: &str) -> Option<u128> {
    Some(match unit {
        "ns" => 1,
        "us" | "µs" | "μs" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        _ => return None,
    })
}

/// `number × unit`, for a decimal number of at most fifteen digits before and nine after the point,
/// cut to a whole.
fn parse_scaled(number: &str, unit: u128) -> Option<u128> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if (whole.is_empty() && fraction.is_empty()) || !digits(whole) || !digits(fraction) {
        return None;
    }
    if whole.len() > 15 || fraction.len() > 9 {
        return None;
    }
    let value = |text: &str| if text.is_empty() { Some(0) } else { text.parse::<u128>().ok() };
    let part = 10u128.pow(u32::try_from(fraction.len()).ok()?);
    Some((value(whole)? * part + value(fraction)?) * unit / part)
}

/// Thousandths as a decimal number without trailing zeros.
fn format_thousandths(thousandths: u64) -> String {
    let (whole, part) = (thousandths / 1_000, thousandths % 1_000);
    if part == 0 {
        return whole.to_string();
    }
    format!("{whole}.{part:03}").trim_end_matches('0').to_owned()
}

fn unit_error(text: &str, what: &'static str) -> UnitError {
    UnitError { text: crate::error::printable(text), what }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_go_reads_them() {
        for (text, ms) in [
            ("60s", 60_000),
            ("1m30s", 90_000),
            ("500ms", 500),
            ("2h", 7_200_000),
            ("1.5s", 1_500),
            ("1h2m3.5s", 3_723_500),
            ("0", 0),
            ("0s", 0),
            ("1ns", 1),
            ("1500us", 2),
            (".5s", 500),
            ("1.s", 1_000),
        ] {
            assert_eq!(parse_duration(text), Ok(ms), "{text}");
        }
        for text in
            ["", "60", "s", "-1s", "1 s", "1d", "1s2", ".s", "1..5s", "１s", "9999999999999999s"]
        {
            assert!(parse_duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn durations_are_written_as_go_writes_them() {
        for (ms, text) in [
            (0, "0s"),
            (1, "1ms"),
            (999, "999ms"),
            (1_000, "1s"),
            (1_500, "1.5s"),
            (1_050, "1.05s"),
            (60_000, "1m0s"),
            (90_500, "1m30.5s"),
            (3_600_000, "1h0m0s"),
            (90_061_001, "25h1m1.001s"),
        ] {
            assert_eq!(format_duration(ms), text);
            assert_eq!(parse_duration(text), Ok(ms));
        }
    }

    #[test]
    fn memory_has_binary_and_decimal_units() {
        for (text, bytes) in [
            ("256Mi", 256 << 20),
            ("1Gi", 1 << 30),
            ("1.5Ki", 1_536),
            ("500M", 500_000_000),
            ("64k", 64_000),
            ("1048576", 1 << 20),
            ("0", 0),
        ] {
            assert_eq!(parse_memory(text), Ok(bytes), "{text}");
        }
        for text in ["", "Mi", "256MB", "256m", "-1", "1e9", "256 Mi", "999999999999999Ti"] {
            assert!(parse_memory(text).is_err(), "{text}");
        }
        for (bytes, text) in
            [(0, "0"), (1_000, "1000"), (1 << 10, "1Ki"), (3 << 29, "1536Mi"), (5 << 40, "5Ti")]
        {
            assert_eq!(format_memory(bytes), text);
        }
    }

    #[test]
    fn cpu_is_cores_or_thousandths() {
        for (text, millis) in
            [("0.5", 500), ("500m", 500), ("2", 2_000), ("1.25", 1_250), ("0.0001", 0)]
        {
            assert_eq!(parse_cpu(text), Ok(millis), "{text}");
        }
        for text in ["", "m", "half", "-1", "1e3", "5000000000"] {
            assert!(parse_cpu(text).is_err(), "{text}");
        }
        for (millis, text) in [(500, "0.5"), (2_000, "2"), (1_250, "1.25"), (1, "0.001")] {
            assert_eq!(format_cpu(millis), text);
        }
    }
}
