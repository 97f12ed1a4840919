//! JSON documents that are passed on: validated and made compact, but never parsed into values, so
//! that the order of keys and the notation of numbers stay the author's.

use serde_json::value::RawValue;

/// The maximum nesting. Common parsers stop at 128 levels, and a document is sent inside another
/// object.
pub(crate) const MAX_DEPTH: usize = 100;

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NotJson {
    #[error("is not valid JSON")]
    Syntax,
    #[error("is nested more than {MAX_DEPTH} levels deep")]
    TooDeep,
    #[error("holds half of a surrogate pair, which is no character")]
    LoneSurrogate,
}

/// The same document without insignificant whitespace.
pub(crate) fn compact(document: &[u8]) -> Result<String, NotJson> {
    // serde_json skips over a raw value without recursion, so a million levels cannot exhaust the
    // stack here.
    let valid: &RawValue = serde_json::from_slice(document).map_err(|_| NotJson::Syntax)?;
    let text = valid.get();
    let mut out = String::with_capacity(text.len());
    let mut depth = 0;
    let mut rest = text;
    while let Some(at) = rest.find(['"', '[', '{', ']', '}', ' ', '\n', '\r', '\t']) {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let taken = match rest.as_bytes()[0] {
            b'"' => string_length(rest)?,
            b'[' | b'{' if depth == MAX_DEPTH => return Err(NotJson::TooDeep),
            b'[' | b'{' => {
                depth += 1;
                1
            }
            b']' | b'}' => {
                depth -= 1;
                1
            }
            _ => {
                rest = &rest[1..];
                continue;
            }
        };
        out.push_str(&rest[..taken]);
        rest = &rest[taken..];
    }
    out.push_str(rest);
    Ok(out)
}

/// Bytes of the string literal at the start of `text`, both quotes included. The literal is known
/// to be valid.
fn string_length(text: &str) -> Result<usize, NotJson> {
    let bytes = text.as_bytes();
    let mut at = 1;
    loop {
        match bytes[at] {
            b'"' => return Ok(at + 1),
            b'\\' if bytes[at + 1] == b'u' => {
                let unit = code_unit(bytes, at);
                let pair = unit.is_some_and(|high| (0xD800..0xDC00).contains(&high))
                    && code_unit(bytes, at + 6).is_some_and(|low| (0xDC00..0xE000).contains(&low));
                match unit {
                    _ if pair => at += 12,
                    Some(0xD800..0xE000) | None => return Err(NotJson::LoneSurrogate),
                    Some(_) => at += 6,
                }
            }
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
}

/// The four hexadecimal digits of a `\uXXXX` at `at`, if there is one.
fn code_unit(bytes: &[u8], at: usize) -> Option<u16> {
    let escape = bytes.get(at..at + 6)?;
    let digits = escape.strip_prefix(b"\\u")?;
    u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whitespace_is_removed_and_notation_kept() {
        let cases = [
            (" null\n", "null"),
            ("1.50e+2", "1.50e+2"),
            ("12345678901234567890123", "12345678901234567890123"),
            ("{ \"b\" : 1.0 ,\t\"a\":[ 1 , 2 ] }", r#"{"b":1.0,"a":[1,2]}"#),
            (r#"" a \" b \\""#, r#"" a \" b \\""#),
            ("{\"k\": \" { [ \"}", r#"{"k":" { [ "}"#),
            ("\"\\ud83d\\ude00 \\u00e9 é\"", "\"\\ud83d\\ude00 \\u00e9 é\""),
        ];
        for (document, expected) in cases {
            assert_eq!(compact(document.as_bytes()).as_deref(), Ok(expected), "{document}");
        }
    }

    #[test]
    fn invalid_json_is_rejected_with_its_reason() {
        for document in ["", "{", "nope", "{} {}", "[1,]", "\"a\nb\"", "NaN", "01", "'a'"] {
            assert_eq!(compact(document.as_bytes()), Err(NotJson::Syntax), "{document}");
        }
        assert_eq!(compact(b"\"\xff\""), Err(NotJson::Syntax));
        for document in [r#""\ud800""#, r#""\udc00\ud800""#, r#""\ud800\u0041""#, r#"{"\udfff":1}"#]
        {
            assert_eq!(compact(document.as_bytes()), Err(NotJson::LoneSurrogate), "{document}");
        }
    }

    #[test]
    fn depth_is_bounded_without_recursion() {
        let nested = |levels: usize| [vec![b'['; levels], vec![b']'; levels]].concat();
        assert!(compact(&nested(MAX_DEPTH)).is_ok());
        assert_eq!(compact(&nested(MAX_DEPTH + 1)), Err(NotJson::TooDeep));
        assert_eq!(compact(&nested(1_000_000)), Err(NotJson::TooDeep));
    }
}
