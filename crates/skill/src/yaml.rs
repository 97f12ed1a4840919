//! The subset of YAML that manifests need: a tree of text with line numbers.
//!
//! The only module that uses the YAML library. Scalars keep their text, because `version: 1.10` is
//! not a number; callers convert where they need one. Features that can make a small file large or
//! surprising are rejected: anchors, aliases, tags, directives, duplicate keys and second
//! documents.

use std::collections::HashSet;

use serde_json::{Map, Number, Value};
use serde_saphyr::granit_parser::{
    self, ErrorKind, Event, Parser, ScalarStyle, ScanError, Span, StrInput,
};

use crate::SkillError;
use crate::error::printable;

/// One value and the line of the YAML text it starts on, counted from one.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct YamlNode {
    pub line: u32,
    pub data: YamlData,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum YamlData {
    Scalar { text: String, plain: bool },
    Sequence(Vec<YamlNode>),
    Mapping(Vec<(YamlKey, YamlNode)>),
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct YamlKey {
    pub line: u32,
    pub text: String,
}

/// An error with its line.
#[derive(Debug, PartialEq)]
pub(crate) struct YamlError {
    pub line: u32,
    pub code: &'static str,
    pub message: String,
}

/// The text is not valid YAML, as opposed to valid YAML that is not allowed.
pub(crate) const SYNTAX: &str = "yaml_syntax";

/// Forty times the size of a hand-written frontmatter of one page. Bounds the work of the parser.
pub(crate) const MAX_BYTES: usize = 64 << 10;
const TOO_LARGE: &str = "yaml_large";
const MAX_NODES: usize = 10_000;
const MAX_DEPTH: usize = 32;
const TOO_LARGE_MESSAGE: &str =
    "there are too many values, or they nest too deeply; move detail into the instructions";

/// Called before the text is unpacked, and again when it is parsed.
pub(crate) fn check_size(len: u64) -> Result<(), YamlError> {
    if len <= MAX_BYTES as u64 {
        return Ok(());
    }
    let message = format!(
        "the YAML is longer than {} KiB; move detail into the instructions",
        MAX_BYTES >> 10
    );
    Err(yaml_error(1, TOO_LARGE, message))
}

/// Reads one YAML document; an empty one is `None`.
pub(crate) fn parse(text: &str) -> Result<Option<YamlNode>, YamlError> {
    check_size(text.len() as u64)?;
    let options = granit_parser::options! {
        disallow_directives: true,
        emit_unresolved_aliases: true,
        emit_comments: false,
        flow_nesting_limit: MAX_DEPTH,
        block_nesting_limit: MAX_DEPTH,
    };
    let mut reader =
        NodeReader { events: Parser::new_from_str_with_options(text, options), nodes: 0 };
    reader.read_stream()
}

struct NodeReader<'a> {
    events: Parser<'a, StrInput<'a>>,
    nodes: usize,
}

impl<'a> NodeReader<'a> {
    fn read_stream(&mut self) -> Result<Option<YamlNode>, YamlError> {
        let mut root = None;
        loop {
            match self.next()? {
                (Event::StreamEnd, _) => return Ok(root),
                (Event::StreamStart | Event::DocumentEnd, _) => {}
                (Event::DocumentStart(..), line) if root.is_some() => {
                    return Err(yaml_error(
                        line,
                        "yaml_documents",
                        "there is more than one YAML document; keep the first",
                    ));
                }
                (Event::DocumentStart(..), _) => {
                    let event = self.next()?;
                    root = Some(self.read_node(event, 0)?);
                }
                (_, line) => {
                    return Err(yaml_error(
                        line,
                        SYNTAX,
                        "the YAML is not well-formed; check the indentation",
                    ));
                }
            }
        }
    }

    fn next(&mut self) -> Result<(Event<'a>, u32), YamlError> {
        match self.events.next_event() {
            Some(Ok((event, span))) => Ok((event, start_line(&span))),
            Some(Err(error)) => Err(syntax_error(&error)),
            None => Err(yaml_error(1, SYNTAX, "the YAML ends too early; check the indentation")),
        }
    }

    fn read_node(
        &mut self,
        (event, line): (Event<'a>, u32),
        depth: usize,
    ) -> Result<YamlNode, YamlError> {
        // Checked while the tree is built: the byte limit alone allows tens of thousands of nodes,
        // and recursion this deep must not exhaust the stack.
        self.nodes += 1;
        if self.nodes > MAX_NODES || depth > MAX_DEPTH {
            return Err(yaml_error(line, TOO_LARGE, TOO_LARGE_MESSAGE));
        }
        if event.tag().is_some() {
            return Err(yaml_error(
                line,
                "yaml_tag",
                "YAML tags (`!…`) are not allowed; write the plain value",
            ));
        }
        if event.anchor_id().is_some() {
            let message = "YAML anchors (`&…`) are not allowed; write the value where it is needed";
            return Err(yaml_error(line, "yaml_anchor", message));
        }
        let data = match event {
            Event::Scalar(text, style, ..) => scalar(text.into_owned(), style, line)?,
            Event::SequenceStart(..) => self.read_sequence(depth)?,
            Event::MappingStart(..) => self.read_mapping(depth)?,
            Event::Alias(_) | Event::UnresolvedAlias(_) => {
                let message = "YAML aliases (`*…`) are not allowed; write the value, in quotes if it is text that starts with `*`";
                return Err(yaml_error(line, "yaml_anchor", message));
            }
            _ => {
                return Err(yaml_error(
                    line,
                    SYNTAX,
                    "the YAML is not well-formed; check the indentation",
                ));
            }
        };
        Ok(YamlNode { line, data })
    }

    fn read_sequence(&mut self, depth: usize) -> Result<YamlData, YamlError> {
        let mut items = Vec::new();
        loop {
            match self.next()? {
                (Event::SequenceEnd, _) => return Ok(YamlData::Sequence(items)),
                event => items.push(self.read_node(event, depth + 1)?),
            }
        }
    }

    fn read_mapping(&mut self, depth: usize) -> Result<YamlData, YamlError> {
        let mut pairs: Vec<(YamlKey, YamlNode)> = Vec::new();
        let mut seen = HashSet::new();
        loop {
            let event = match self.next()? {
                (Event::MappingEnd, _) => return Ok(YamlData::Mapping(pairs)),
                event => event,
            };
            let node = self.read_node(event, depth + 1)?;
            let line = node.line;
            let YamlData::Scalar { text, .. } = node.data else {
                return Err(yaml_error(line, "yaml_key", "a key must be plain text; write a word"));
            };
            if !seen.insert(text.clone()) {
                let message =
                    format!("the key `{}` occurs twice; keep one of them", printable(&text));
                return Err(yaml_error(line, "yaml_duplicate_key", message));
            }
            let event = self.next()?;
            let value = self.read_node(event, depth + 1)?;
            pairs.push((YamlKey { line, text }, value));
        }
    }
}

/// Escapes such as `"\0"` can produce control characters that the file itself may not contain.
fn scalar(text: String, style: ScalarStyle, line: u32) -> Result<YamlData, YamlError> {
    if text.contains(|c: char| c.is_control() && !matches!(c, '\n' | '\t')) {
        return Err(yaml_error(
            line,
            "control_character",
            "a value contains a control character; remove it",
        ));
    }
    let plain = style == ScalarStyle::Plain;
    Ok(YamlData::Scalar { text, plain })
}

impl YamlNode {
    pub(crate) fn is_null(&self) -> bool {
        matches!(&self.data, YamlData::Scalar { text, plain: true } if is_null(text))
    }

    /// The value with numbers, booleans and null, as in the core schema of YAML.
    pub(crate) fn to_json(&self) -> Value {
        self.convert(&|text| {
            if is_null(text) {
                return Value::Null;
            }
            match text {
                "true" | "True" | "TRUE" => Value::Bool(true),
                "false" | "False" | "FALSE" => Value::Bool(false),
                _ => to_number(text).map_or_else(|| text.into(), Value::Number),
            }
        })
    }

    /// The value with every scalar as its text.
    pub(crate) fn to_text(&self) -> Value {
        self.convert(&|text| if is_null(text) { Value::Null } else { text.into() })
    }

    fn convert(&self, plain_scalar: &dyn Fn(&str) -> Value) -> Value {
        match &self.data {
            YamlData::Scalar { text, plain: true } => plain_scalar(text),
            YamlData::Scalar { text, .. } => text.as_str().into(),
            YamlData::Sequence(items) => {
                items.iter().map(|item| item.convert(plain_scalar)).collect()
            }
            YamlData::Mapping(pairs) => {
                let pair = |(key, value): &(YamlKey, YamlNode)| {
                    (key.text.clone(), value.convert(plain_scalar))
                };
                Value::Object(pairs.iter().map(pair).collect::<Map<_, _>>())
            }
        }
    }
}

fn is_null(text: &str) -> bool {
    matches!(text, "" | "~" | "null" | "Null" | "NULL")
}

/// A plain scalar as a JSON number. Values that JSON cannot represent (`.inf`, `1e999`) stay text.
fn to_number(text: &str) -> Option<Number> {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    if !unsigned.starts_with(|c: char| c == '.' || c.is_ascii_digit()) {
        return None;
    }
    for (prefix, radix) in [("0x", 16), ("0o", 8)] {
        if let Some(digits) = text.strip_prefix(prefix) {
            let digits = Some(digits).filter(|digits| !digits.starts_with('+'))?;
            return u64::from_str_radix(digits, radix).ok().map(Number::from);
        }
    }
    if let Ok(whole) = text.parse::<i64>() {
        return Some(whole.into());
    }
    if let Ok(whole) = text.parse::<u64>() {
        return Some(whole.into());
    }
    text.parse::<f64>().ok().and_then(Number::from_f64)
}

fn start_line(span: &Span) -> u32 {
    number(span.start.line())
}

fn number(line: usize) -> u32 {
    u32::try_from(line).unwrap_or(u32::MAX).max(1)
}

/// The error of the library, with our advice.
fn syntax_error(error: &ScanError) -> YamlError {
    const MAX_CHARS: usize = 200;
    let line = number(error.marker().line());
    if *error.kind() == ErrorKind::RecursionLimitExceeded {
        return yaml_error(line, TOO_LARGE, TOO_LARGE_MESSAGE);
    }
    let reason: String = error.info().chars().take(MAX_CHARS).collect();
    let message = format!(
        "this is not YAML: {reason}; check the indentation, and quote texts with `: ` or `#` in them"
    );
    YamlError { line, code: SYNTAX, message }
}

fn yaml_error(line: u32, code: &'static str, message: impl Into<String>) -> YamlError {
    YamlError { line, code, message: message.into() }
}

impl YamlError {
    /// The error for the file that contains the YAML, with the number of lines above it.
    pub(crate) fn in_file(self, path: &str, lines_above: u32) -> SkillError {
        SkillError::invalid(self.code, path, self.line.saturating_add(lines_above), self.message)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn scalars_convert_to_text_and_to_json() {
        for (yaml, typed, text) in [
            ("1.10", json!(1.1), json!("1.10")),
            ("1.2", json!(1.2), json!("1.2")),
            ("0x1F", json!(31), json!("0x1F")),
            ("0o17", json!(15), json!("0o17")),
            ("017", json!(17), json!("017")),
            ("-3", json!(-3), json!("-3")),
            ("18446744073709551615", json!(u64::MAX), json!("18446744073709551615")),
            ("1e3", json!(1000.0), json!("1e3")),
            ("1e999", json!("1e999"), json!("1e999")),
            (".inf", json!(".inf"), json!(".inf")),
            ("0x+1", json!("0x+1"), json!("0x+1")),
            ("true", json!(true), json!("true")),
            ("yes", json!("yes"), json!("yes")),
            ("2024-01-01", json!("2024-01-01"), json!("2024-01-01")),
            ("~", json!(null), json!(null)),
            ("'~'", json!("~"), json!("~")),
            ("'1'", json!("1"), json!("1")),
            ("\"true\"", json!("true"), json!("true")),
            ("[1, a, {b: null}]", json!([1, "a", {"b": null}]), json!(["1", "a", {"b": null}])),
            ("|\n  a\n  b\n", json!("a\nb\n"), json!("a\nb\n")),
        ] {
            let node = parse(yaml).expect(yaml).expect(yaml);
            assert_eq!(node.to_json(), typed, "{yaml}");
            assert_eq!(node.to_text(), text, "{yaml}");
        }
    }

    #[test]
    fn forbidden_features_are_rejected_with_their_line() {
        for (yaml, line, word) in [
            ("a: 1\na: 2", 2, "twice"),
            ("a:\n  b: 1\n  \"b\": 2", 3, "twice"),
            ("a: &x 1", 1, "anchors"),
            ("a: &x\n  b: 1", 2, "anchors"),
            ("a: *x", 1, "aliases"),
            ("a: 1\nb: !!str 2", 2, "tags"),
            ("a: !local {b: 1}", 1, "tags"),
            ("? [a]\n: 1", 1, "plain text"),
            ("a: 1\n...\nb: 2", 3, ""),
            ("a: \"x\\0y\"", 1, "control"),
            ("a: \"x\\x1by\"", 1, "control"),
            ("%YAML 1.2\n", 1, ""),
            ("a: b: c", 1, ""),
            ("a: [1, 2", 1, ""),
        ] {
            let error = parse(yaml).expect_err(yaml);
            assert!(error.message.contains(word), "{yaml}: {}", error.message);
            assert_eq!(error.line, line, "{yaml}: {}", error.message);
        }
    }

    #[test]
    fn size_count_and_depth_are_bounded() {
        let deep_flow = "[".repeat(40) + &"]".repeat(40);
        let deep_block = (0..40).map(|depth| " ".repeat(depth) + "a:\n").collect::<String>();
        let compact = "- ".repeat(5_000) + "a";
        let many = "- a\n".repeat(MAX_NODES + 1);
        let long = "a".repeat(MAX_BYTES + 1);
        for yaml in
            [deep_flow, deep_block, compact, many, long, "{".repeat(60_000), "? ".repeat(30_000)]
        {
            assert!(parse(&yaml).is_err(), "{}…", &yaml[..20]);
        }
    }

    #[test]
    fn empty_text_is_an_empty_document() {
        for yaml in ["", "\n\n", "# a comment\n"] {
            assert_eq!(parse(yaml), Ok(None), "{yaml:?}");
        }
    }
}
