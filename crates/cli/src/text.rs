//! Formats values for people.

/// `1.5 KiB`.
pub(crate) fn size(bytes: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut value = bytes as f64 / 1024.0;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    format!("{value:.1} {}", UNITS[unit])
}

/// `35 ms`, `1.25 s`, `2m5s`.
pub(crate) fn duration(ms: u64) -> String {
    match ms {
        0..1_000 => format!("{ms} ms"),
        1_000..60_000 => format!("{:.2} s", ms as f64 / 1000.0),
        _ => format!("{}m{}s", ms / 60_000, ms % 60_000 / 1000),
    }
}

/// An RFC 3339 time without fractions of a second and zone, for a table.
pub(crate) fn time(rfc3339: &str) -> String {
    match rfc3339.get(..19) {
        Some(seconds) => seconds.replacen('T', " ", 1),
        None => rfc3339.to_owned(),
    }
}

/// The first line, at most `max` characters of it.
pub(crate) fn brief(text: &str, max: usize) -> String {
    let line = text.lines().next().unwrap_or_default();
    match line.char_indices().nth(max) {
        Some((at, _)) => format!("{}…", line[..at].trim_end()),
        None => line.to_owned(),
    }
}

/// The beginning of a digest, enough to compare two: `sha256:0123456789ab`.
pub(crate) fn digest(digest: &str) -> String {
    digest.chars().take("sha256:".len() + 12).collect()
}

/// An absent value as a dash.
pub(crate) fn or_dash(value: Option<&str>) -> String {
    value.filter(|value| !value.is_empty()).unwrap_or("-").to_owned()
}

/// `1 skill`, `2 skills`.
pub(crate) fn count(number: usize, noun: &str) -> String {
    format!("{number} {noun}{}", if number == 1 { "" } else { "s" })
}

/// An argument for a shell, quoted only if necessary.
pub(crate) fn shell_word(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=@,+".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_durations() {
        assert_eq!(
            [size(0), size(1023), size(1024), size(1_572_864)],
            ["0 B", "1023 B", "1.0 KiB", "1.5 MiB"]
        );
        assert_eq!([duration(35), duration(1250), duration(125_000)], ["35 ms", "1.25 s", "2m5s"]);
    }

    #[test]
    fn times_and_digests_are_truncated_without_panics() {
        assert_eq!(time("2026-03-01T10:00:00.123456Z"), "2026-03-01 10:00:00");
        assert_eq!(time("soon"), "soon");
        assert_eq!(digest("sha256:0123456789abcdef"), "sha256:0123456789ab");
        assert_eq!(brief("größe und mehr\nzweite", 5), "größe…");
    }

    #[test]
    fn shell_words_are_quoted() {
        assert_eq!(shell_word("http://127.0.0.1:8080/v1"), "http://127.0.0.1:8080/v1");
        assert_eq!(shell_word(r#"{"a":"it's"}"#), r#"'{"a":"it'\''s"}'"#);
        assert_eq!(shell_word(""), "''");
    }
}
