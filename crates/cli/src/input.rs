//! Values of flags, which may come from the command line, a file or standard input.

use std::io::Read;

use anyhow::{Context, Result, bail};
use serde_json::value::RawValue;

/// Reads `text`, `@file`, or `-` for standard input.
pub(crate) fn read(value: &str) -> Result<String> {
    if value == "-" {
        let mut text = String::new();
        std::io::stdin()
            .read_to_string(&mut text)
            .context("cannot read standard input as UTF-8 text")?;
        return Ok(text);
    }
    match value.strip_prefix('@') {
        Some(path) => std::fs::read_to_string(path)
            .with_context(|| format!("cannot read {path} as UTF-8 text")),
        None => Ok(value.to_owned()),
    }
}

/// Reads JSON. It is validated here, so that a typo fails before any request is sent. The text is
/// kept as it was written.
pub(crate) fn read_json(value: &str) -> Result<Box<RawValue>> {
    let text = read(value)?;
    let text = text.trim();
    if text.is_empty() {
        bail!("the input is empty; use --input '{{}}' for an empty object");
    }
    match serde_json::from_str(text) {
        Ok(json) => Ok(json),
        Err(error) => bail!(
            "the input is not JSON ({error}); use --input '{{\"key\": \"value\"}}', --input @file.json or --input -"
        ),
    }
}

/// Splits `NAME=VALUE`.
pub(crate) fn assignment(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("use NAME=VALUE".into()),
    }
}

/// Splits `name@version`. A name alone means `latest`.
pub(crate) fn name_and_version(text: &str) -> (&str, &str) {
    match text.rsplit_once('@') {
        Some((name, version)) if !name.is_empty() && !version.is_empty() => (name, version),
        _ => (text, "latest"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_is_checked_and_kept_as_written() {
        assert_eq!(read_json(r#" {"n": 1.10} "#).expect("JSON").get(), r#"{"n": 1.10}"#);
        for bad in ["{", "", "{} {}", "hello"] {
            assert!(read_json(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_missing_file_is_named() {
        let error = read("@/nowhere/input.json").expect_err("no such file");
        assert!(error.to_string().contains("/nowhere/input.json"), "{error}");
    }

    #[test]
    fn assignments_and_versions() {
        assert_eq!(assignment("A=b=c"), Ok(("A".into(), "b=c".into())));
        assert!(assignment("=b").is_err() && assignment("A").is_err());
        assert_eq!(name_and_version("a@1.2.3"), ("a", "1.2.3"));
        assert_eq!(name_and_version("a"), ("a", "latest"));
    }
}
