//! Parsers of single values, each with an error message that says how to write it.

use language::{Language, UnknownLanguage};

use crate::error::printable;
use crate::{parse_cpu, parse_duration, parse_memory};

/// `^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`
pub(super) fn name(text: &str) -> Result<String, String> {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    let first = text.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric());
    if first && text.len() <= 128 && text.bytes().all(allowed) {
        return Ok(text.to_owned());
    }
    Err(format!(
        "`{}` cannot be a name; use at most 128 letters, digits, `.`, `_` and `-`, starting with a letter or digit",
        printable(text)
    ))
}

/// `X.Y.Z[-pre]`, kept as written. Many skills have only one or two numbers; zeros are appended.
pub(super) fn version(text: &str) -> Result<String, String> {
    let bare = text.strip_prefix('v').unwrap_or(text);
    let numbers = bare.split('.').count();
    let whole = bare
        .split('.')
        .all(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()));
    let filled = if whole && numbers < 3 {
        format!("{bare}{}", ".0".repeat(3 - numbers))
    } else {
        bare.to_owned()
    };
    let parsed = semver::Version::parse(&filled).ok();
    if filled.len() <= 64 && parsed.is_some_and(|version| version.build.is_empty()) {
        return Ok(filled);
    }
    Err(format!(
        "`{}` is not a version; write three numbers such as 1.2.0, or 1.2.0-beta.1",
        printable(text)
    ))
}

pub(super) fn language(text: &str) -> Result<Language, String> {
    text.parse().map_err(|error: UnknownLanguage| format!("`{}` is {error}", printable(text)))
}

pub(super) fn flag(text: &str) -> Result<bool, String> {
    match text.trim() {
        "true" => Ok(true),
        "false" => Ok(false),
        other => Err(format!("`{}` is neither true nor false", printable(other))),
    }
}

pub(super) fn timeout(text: &str) -> Result<u64, String> {
    positive(parse_duration(text))
}

pub(super) fn memory(text: &str) -> Result<u64, String> {
    positive(parse_memory(text))
}

pub(super) fn cpu(text: &str) -> Result<u32, String> {
    positive(parse_cpu(text))
}

/// A positive whole number, multiplied by `scale`.
pub(super) fn whole(text: &str, scale: u64) -> Result<u64, String> {
    let number = text.trim().parse::<u64>().ok().filter(|number| *number > 0);
    let scaled = number.and_then(|number| number.checked_mul(scale));
    scaled.ok_or_else(|| format!("`{}` is not a whole number above zero", printable(text)))
}

fn positive<T: PartialOrd + Default>(value: Result<T, crate::UnitError>) -> Result<T, String> {
    let value = value.map_err(|error| error.to_string())?;
    if value > T::default() { Ok(value) } else { Err("it must be more than zero".to_owned()) }
}
