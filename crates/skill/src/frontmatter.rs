//! Splits `SKILL.md` into the YAML between the fences and the Markdown after them.

use crate::error::printable;
use crate::yaml::{self, YamlNode};
use crate::{PackageLimits, SkillError};

/// A `SKILL.md` whose frontmatter is parsed YAML, not yet a manifest.
#[derive(Debug)]
pub(crate) struct Frontmatter<'a> {
    /// The actual spelling of `SKILL.md`.
    pub path: &'a str,
    /// The mapping; lines count from the opening fence, so add one for a line of the file.
    pub root: Option<YamlNode>,
    /// The first line of the Markdown.
    pub body_line: u32,
    /// The Markdown, without blank lines around it.
    pub body: &'a str,
    /// The line of the file whose description had to be quoted before it was YAML.
    pub repaired_line: Option<u32>,
}

impl<'a> Frontmatter<'a> {
    pub(crate) fn read(
        path: &'a str,
        bytes: &'a [u8],
        limits: &PackageLimits,
    ) -> Result<Self, SkillError> {
        check_size(path, bytes.len() as u64, limits)?;
        let text = validate_text(path, bytes)?;
        let (yaml, body) = split_fences(path, text)?;
        let (root, repaired_line) = parse(path, yaml)?;
        let body = body.trim_start_matches(['\r', '\n']);
        let body_line = line_number(&text[..text.len() - body.len()]);
        Ok(Self { root, body: body.trim_end(), body_line, repaired_line, path })
    }
}

/// The frontmatter of a `SKILL.md` as JSON, without validation.
pub fn read_frontmatter(bytes: &[u8]) -> Result<serde_json::Value, SkillError> {
    let read = Frontmatter::read("SKILL.md", bytes, &PackageLimits::default())?;
    Ok(read.root.map_or(serde_json::Value::Null, |root| root.to_json()))
}

/// Called before the file is unpacked, and again when it is read.
pub(crate) fn check_size(path: &str, len: u64, limits: &PackageLimits) -> Result<(), SkillError> {
    if len <= limits.skill_file_bytes {
        return Ok(());
    }
    let message = format!(
        "the file is longer than {} KiB; move detail into files beside it",
        limits.skill_file_bytes >> 10
    );
    Err(SkillError::invalid("skill_file_large", path, 1, message))
}

/// The line number after this text, counted from one.
fn line_number(before: impl AsRef<[u8]>) -> u32 {
    let newlines = before.as_ref().iter().filter(|byte| **byte == b'\n').count();
    u32::try_from(newlines + 1).unwrap_or(u32::MAX)
}

/// The file as text without a byte order mark. Invalid UTF-8 and control characters are errors.
pub(crate) fn validate_text<'a>(path: &str, bytes: &'a [u8]) -> Result<&'a str, SkillError> {
    let line_at = |offset: usize| line_number(&bytes[..offset]);
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let message = "the file is not valid UTF-8; save it as UTF-8";
        SkillError::invalid("not_utf8", path, line_at(error.valid_up_to()), message)
    })?;
    let control = |c: char| c.is_control() && !matches!(c, '\n' | '\r' | '\t');
    if let Some(at) = text.find(control) {
        let character = text[at..].chars().next().map_or(0, u32::from);
        let message =
            format!("the file contains the control character U+{character:04X}; remove it");
        return Err(SkillError::invalid("control_character", path, line_at(at), message));
    }
    Ok(text.strip_prefix('\u{feff}').unwrap_or(text))
}

/// The text between the two fences, and the text after them. A fence is a line of exactly `---`.
fn split_fences<'a>(path: &str, text: &'a str) -> Result<(&'a str, &'a str), SkillError> {
    const FENCE: &str = "---";
    let mut lines = text.split_inclusive('\n');
    let first = lines.next().unwrap_or_default();
    if trim_line_end(first) != FENCE {
        let message = format!(
            "the first line must be exactly `---`, with name and description below it, but is `{}`",
            printable(trim_line_end(first))
        );
        return Err(SkillError::invalid("frontmatter_missing", path, 1, message));
    }
    let mut at = first.len();
    for line in lines {
        if trim_line_end(line) == FENCE {
            return Ok((&text[first.len()..at], &text[at + line.len()..]));
        }
        at += line.len();
    }
    let message = "the frontmatter never ends; close it with a line of exactly `---`";
    Err(SkillError::invalid("frontmatter_unclosed", path, 1, message))
}

fn trim_line_end(line: &str) -> &str {
    let line = line.strip_suffix('\n').unwrap_or(line);
    line.strip_suffix('\r').unwrap_or(line)
}

/// Parses the YAML. Many published skills have an unquoted colon in the description, which is not
/// valid YAML; the description is then quoted and parsed again.
fn parse(path: &str, yaml: &str) -> Result<(Option<YamlNode>, Option<u32>), SkillError> {
    let error = match yaml::parse(yaml) {
        Ok(root) => return Ok((root, None)),
        Err(error) => error,
    };
    if error.code == yaml::SYNTAX
        && let Some((repaired, line)) = quote_description(yaml)
        && let Ok(root) = yaml::parse(&repaired)
    {
        return Ok((root, Some(line + 1)));
    }
    Err(error.in_file(path, 1))
}

/// The same YAML with the plain scalar of `description` in single quotes, and the line it starts
/// on.
///
/// Lines stay where they were. A value that starts with a YAML indicator is left alone: a tag or an
/// anchor must not become text by way of repair.
fn quote_description(yaml: &str) -> Option<(String, u32)> {
    const KEY: &str = "description:";
    const INDICATORS: [char; 18] =
        ['"', '\'', '|', '>', '[', ']', '{', '}', '&', '*', '!', '#', '%', '@', '`', '?', ',', '-'];
    let mut lines = yaml.split_inclusive('\n').peekable();
    let mut start = 0;
    let mut line_number = 1;
    while let Some(line) = lines.next_if(|line| !line.starts_with(KEY)) {
        start += line.len();
        line_number += 1;
    }
    let continued = |line: &&str| line.starts_with([' ', '\t']) || trim_line_end(line).is_empty();
    let key_line = lines.next()?;
    let end = start + key_line.len() + lines.take_while(continued).map(str::len).sum::<usize>();
    let after_key = &yaml[start + KEY.len()..end];
    let value = after_key.trim();
    let value_start = end - after_key.trim_start().len();
    if !after_key.starts_with(char::is_whitespace) {
        return None;
    }
    if value.is_empty() || value.starts_with(INDICATORS) || !value.contains(':') {
        return None;
    }
    let quoted = value.replace('\'', "''");
    let rest = &yaml[value_start + value.len()..];
    Some((format!("{}'{quoted}'{rest}", &yaml[..value_start]), line_number))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(text: &str) -> Result<Frontmatter<'_>, SkillError> {
        Frontmatter::read("SKILL.md", text.as_bytes(), &PackageLimits::default())
    }

    #[test]
    fn fences_are_lines_of_exactly_three_hyphens() {
        for (text, value, body) in [
            ("---\na: 1\n---\nBody\n", json!({"a": "1"}), "Body"),
            ("---\na: 1\n---", json!({"a": "1"}), ""),
            ("\u{feff}---\na: 1\n---\n\n# Hi\n", json!({"a": "1"}), "# Hi"),
            ("---\r\na: 1\r\nb: 2\r\n---\r\n\r\nBody\r\n", json!({"a": "1", "b": "2"}), "Body"),
            ("---\na: |\n  x\n  ---\n  y\n---\nB", json!({"a": "x\n---\ny\n"}), "B"),
            ("---\na: x --- y\n---\nB\n---\nC", json!({"a": "x --- y"}), "B\n---\nC"),
            ("---\na: 'x\n  ----\n  y'\n---\nB", json!({"a": "x ---- y"}), "B"),
            ("---\na: 1\n---\n    code\n", json!({"a": "1"}), "    code"),
        ] {
            let frontmatter = read(text).expect(text);
            assert_eq!(frontmatter.root.map(|root| root.to_text()), Some(value), "{text:?}");
            assert_eq!(frontmatter.body, body, "{text:?}");
            assert_eq!(frontmatter.repaired_line, None, "{text:?}");
        }
    }

    #[test]
    fn invalid_frontmatter_is_an_error_with_its_line() {
        for (text, line) in [
            ("", 1),
            ("# Title\n", 1),
            ("\n---\na: 1\n---\n", 1),
            ("--- \na: 1\n---\n", 1),
            ("----\na: 1\n----\n", 1),
            ("---\na: 1\n--- \n", 1),
            ("---\na: 1\n", 1),
            ("---\na: 1\nb: [\n---\n", 3),
            ("---\na: 1\na: 2\n---\n", 3),
            ("---\na: 1\n---\nnul \0\n", 4),
            ("---\na: \u{1b}[31m\n---\n", 2),
            ("---\na: 1\n---\n\u{9b}\n", 4),
        ] {
            match read(text) {
                Err(SkillError::Invalid(findings)) => {
                    assert_eq!(findings[0].line, Some(line), "{text:?}: {findings:?}")
                }
                other => panic!("{text:?}: {other:?}"),
            }
        }
        let error =
            Frontmatter::read("SKILL.md", b"---\na: \xff\n---\n", &PackageLimits::default())
                .expect_err("not UTF-8");
        assert_eq!(
            error.to_string(),
            "SKILL.md line 2: the file is not valid UTF-8; save it as UTF-8"
        );
    }

    #[test]
    fn a_colon_in_the_description_is_repaired() {
        for (yaml, line, description) in [
            ("description: Use when: always", 2, "Use when: always"),
            (
                "name: x\ndescription: It's this: that # not a comment\nz: 1",
                3,
                "It's this: that # not a comment",
            ),
            (
                "description: First: line\n  second: line\n\n  third\nz: 1",
                2,
                "First: line second: line\nthird",
            ),
            ("description: Ends with:\nz: 1", 2, "Ends with:"),
            ("description: a: b\r\nz: 1\r", 2, "a: b"),
        ] {
            let text = format!("---\n{yaml}\n---\n");
            let frontmatter = read(&text).expect(yaml);
            let root = frontmatter.root.map(|root| root.to_text()).unwrap_or_default();
            assert_eq!(root["description"], description, "{yaml}");
            assert_eq!(frontmatter.repaired_line, Some(line), "{yaml}");
        }
    }

    #[test]
    fn only_an_unquoted_colon_in_the_description_is_repaired() {
        for yaml in [
            "description: fine: this\nother: not: this",
            "description: !!str a: b",
            "description: &a b: c",
            "description: *a",
            "description: a: b\ndescription: c",
            "description:a: b: c",
            "other: a: b",
        ] {
            let text = format!("---\n{yaml}\n---\n");
            assert!(read(&text).is_err(), "{yaml}");
        }
    }
}
