//! A YAML mapping whose keys are taken one by one, so that the remaining keys are the unknown ones.
//!
//! An invalid field is reported and then treated as missing, so that one pass finds every error.

use serde_json::{Map, Value};

use crate::error::printable;
use crate::finding::{Diagnostics, Finding};
use crate::yaml::{self, YamlData, YamlKey, YamlNode};

/// The file of a YAML document.
#[derive(Clone, Copy)]
pub(crate) struct Document<'a> {
    pub path: &'a str,
    /// Lines of the file above the YAML: the opening fence of `SKILL.md`.
    pub lines_above: u32,
}

impl Document<'_> {
    pub(crate) fn line(self, yaml_line: u32) -> u32 {
        yaml_line.saturating_add(self.lines_above)
    }
}

/// The pairs of a mapping that are not taken yet.
pub(super) struct YamlFields<'a> {
    pub document: Document<'a>,
    /// The prefix of keys in messages: empty, or `resources.`.
    prefix: String,
    /// Values are strings; a mapping is JSON in such a string.
    flat: bool,
    /// The document is not a mapping, which is reported once instead of for each missing key.
    invalid: bool,
    pairs: Vec<(YamlKey, YamlNode)>,
}

/// A value and its location.
#[derive(Clone)]
pub(super) struct Located<'a, T> {
    pub value: T,
    pub path: &'a str,
    /// With its prefix: `metadata.skillbox.timeout`.
    pub key: String,
    pub line: u32,
}

/// A field that is written as one text or as a list of texts.
pub(super) struct TextList {
    pub items: Vec<String>,
    pub is_list: bool,
}

impl<'a> YamlFields<'a> {
    pub(super) fn new(
        document: Document<'a>,
        root: Option<YamlNode>,
        diagnostics: &mut Diagnostics,
    ) -> Self {
        let mut invalid = false;
        let pairs = match root {
            None => Vec::new(),
            Some(node) if node.is_null() => Vec::new(),
            Some(YamlNode { data: YamlData::Mapping(pairs), .. }) => pairs,
            Some(node) => {
                invalid = true;
                let message = "there must be `key: value` lines here";
                let problem = Finding::from_rule("frontmatter_not_mapping", message);
                diagnostics.errors.push(problem.at(document.path, document.line(node.line)));
                Vec::new()
            }
        };
        Self { document, prefix: String::new(), flat: false, invalid, pairs }
    }

    /// The keys and their lines. Called before any key is taken.
    pub(super) fn lines(&self) -> Vec<(String, u32)> {
        self.pairs.iter().map(|(key, _)| (key.text.clone(), self.document.line(key.line))).collect()
    }

    /// A required text, parsed by `read`. Blank text counts as missing.
    pub(super) fn required(
        &mut self,
        key: &str,
        missing: &'static str,
        read: impl FnOnce(&str) -> Result<String, String>,
        diagnostics: &mut Diagnostics,
    ) -> String {
        // An empty value is reported at its own line.
        let line = self
            .pairs
            .iter()
            .find(|(found, _)| found.text == key)
            .map_or(1, |(found, _)| self.document.line(found.line));
        let errors_before = diagnostics.errors.len();
        if let Some(located) = self.optional(key, read, diagnostics) {
            return located.value;
        }
        if diagnostics.errors.len() == errors_before && !self.invalid {
            let message =
                format!("`{}{key}` is missing or empty; every skill needs one", self.prefix);
            diagnostics
                .errors
                .push(Finding::from_rule(missing, message).at(self.document.path, line));
        }
        String::new()
    }

    /// An optional text. Null and blank text count as missing.
    pub(super) fn optional<T>(
        &mut self,
        key: &str,
        read: impl FnOnce(&str) -> Result<T, String>,
        diagnostics: &mut Diagnostics,
    ) -> Option<Located<'a, T>> {
        let node = self.take(key)?;
        let YamlData::Scalar { text, .. } = &node.data else {
            self.report_invalid("field_type", key, &node, "it must be a single value", diagnostics);
            return None;
        };
        if text.trim().is_empty() {
            return None;
        }
        match read(text) {
            Ok(value) => Some(self.located(key, &node, value)),
            Err(message) => {
                self.report_invalid(code_of(key), key, &node, &message, diagnostics);
                None
            }
        }
    }

    pub(super) fn text(
        &mut self,
        key: &str,
        diagnostics: &mut Diagnostics,
    ) -> Option<Located<'a, String>> {
        self.optional(key, |text| Ok(text.trim().to_owned()), diagnostics)
    }

    /// A text for readers, which other tools also accept as a list or a mapping.
    pub(super) fn text_or_list(
        &mut self,
        key: &str,
        diagnostics: &mut Diagnostics,
    ) -> Option<String> {
        let node = self.take(key)?;
        let text = match &node.data {
            YamlData::Scalar { text, .. } => {
                return Some(text.trim().to_owned()).filter(|text| !text.is_empty());
            }
            YamlData::Sequence(nodes) => {
                nodes.iter().filter_map(scalar_text).collect::<Vec<_>>().join(", ")
            }
            YamlData::Mapping(_) => node.to_text().to_string(),
        };
        let message = format!("`{}{key}` is not a single text; write it as one", self.prefix);
        let line = self.document.line(node.line);
        diagnostics
            .lints
            .push(Finding::from_rule("text_not_single", message).at(self.document.path, line));
        Some(text).filter(|text| !text.is_empty())
    }

    /// A text or a list of texts.
    pub(super) fn text_list(
        &mut self,
        key: &str,
        diagnostics: &mut Diagnostics,
    ) -> Option<Located<'a, TextList>> {
        let node = self.take(key)?;
        let (items, is_list) = match &node.data {
            YamlData::Scalar { text, .. } => (vec![text.trim().to_owned()], false),
            YamlData::Sequence(nodes) => (nodes.iter().filter_map(scalar_text).collect(), true),
            YamlData::Mapping(_) => {
                self.report_invalid("field_type", key, &node, "it must be one string", diagnostics);
                return None;
            }
        };
        Some(self.located(key, &node, TextList { items, is_list }))
    }

    /// A value as JSON, with numbers and booleans as such.
    pub(super) fn json(
        &mut self,
        key: &str,
        diagnostics: &mut Diagnostics,
    ) -> Option<Located<'a, Value>> {
        let node = self.take(key)?;
        let node = self.parse_flat_value(node, key, diagnostics)?;
        Some(self.located(key, &node, node.to_json()))
    }

    /// An inline JSON Schema.
    pub(super) fn schema(
        &mut self,
        key: &str,
        diagnostics: &mut Diagnostics,
    ) -> Option<Located<'a, Value>> {
        let located = self.json(key, diagnostics)?;
        if matches!(located.value, Value::Object(_) | Value::Bool(_)) {
            return Some(located);
        }
        let message = format!("`{}`: it must be a JSON Schema, written as a mapping", located.key);
        diagnostics
            .errors
            .push(Finding::from_rule("schema_invalid", message).at(located.path, located.line));
        None
    }

    /// The fields of a mapping within this one.
    pub(super) fn nested(&mut self, key: &str, diagnostics: &mut Diagnostics) -> Self {
        let prefix = format!("{}{key}.", self.prefix);
        let pairs = match self.take(key) {
            None => Vec::new(),
            Some(YamlNode { data: YamlData::Mapping(pairs), .. }) => pairs,
            Some(node) => {
                self.report_invalid("field_type", key, &node, MUST_BE_MAPPING, diagnostics);
                Vec::new()
            }
        };
        Self { document: self.document, prefix, flat: false, invalid: false, pairs }
    }

    /// The keys with this prefix, without it. Their values are strings.
    pub(super) fn with_prefix(&self, start: &str) -> Self {
        let own = |(key, node): &(YamlKey, YamlNode)| {
            let text = key.text.strip_prefix(start)?.to_owned();
            Some((YamlKey { line: key.line, text }, node.clone()))
        };
        let pairs = self.pairs.iter().filter_map(own).collect();
        Self {
            document: self.document,
            prefix: format!("{}{start}", self.prefix),
            flat: true,
            invalid: false,
            pairs,
        }
    }

    /// The whole mapping, whose scalars stay text. Values other than texts are reported.
    pub(super) fn into_text_map(
        self,
        code: &'static str,
        diagnostics: &mut Diagnostics,
    ) -> Map<String, Value> {
        let mut map = Map::new();
        for (key, node) in self.pairs {
            if !matches!(node.data, YamlData::Scalar { .. }) {
                let message = format!(
                    "`{}{}` is not a single text; write it as one",
                    self.prefix,
                    printable(&key.text)
                );
                diagnostics.lints.push(
                    Finding::from_rule(code, message)
                        .at(self.document.path, self.document.line(key.line)),
                );
            }
            map.insert(key.text, node.to_text());
        }
        map
    }

    /// The keys that were not taken: returned, and reported as unknown.
    pub(super) fn report_unknown(self, diagnostics: &mut Diagnostics) -> Map<String, Value> {
        let mut rest = Map::new();
        for (key, node) in self.pairs {
            let message = format!(
                "`{}{}` is not a field we know; it is kept but does nothing. Check its spelling, or move it under `metadata`",
                self.prefix,
                printable(&key.text)
            );
            let line = self.document.line(key.line);
            diagnostics
                .lints
                .push(Finding::from_rule("unknown_key", message).at(self.document.path, line));
            rest.insert(key.text, node.to_text());
        }
        rest
    }

    /// The raw value, for fields that have several forms.
    pub(super) fn take(&mut self, key: &str) -> Option<YamlNode> {
        let at = self.pairs.iter().position(|(found, _)| found.text == key)?;
        let (YamlKey { line, .. }, node) = self.pairs.remove(at);
        // Findings name the line of the key, even if the value starts on a later line.
        Some(YamlNode { line, ..node }).filter(|node| !node.is_null())
    }

    pub(super) fn located<T>(&self, key: &str, node: &YamlNode, value: T) -> Located<'a, T> {
        let line = self.document.line(node.line);
        Located { value, path: self.document.path, key: format!("{}{key}", self.prefix), line }
    }

    pub(super) fn report_invalid(
        &self,
        code: &'static str,
        key: &str,
        node: &YamlNode,
        message: &str,
        diagnostics: &mut Diagnostics,
    ) {
        let message = format!("`{}{key}`: {message}", self.prefix);
        diagnostics.errors.push(
            Finding::from_rule(code, message).at(self.document.path, self.document.line(node.line)),
        );
    }

    /// The mapping in a flat value. JSON is parsed as YAML, so that the same limits apply.
    fn parse_flat_value(
        &self,
        node: YamlNode,
        key: &str,
        diagnostics: &mut Diagnostics,
    ) -> Option<YamlNode> {
        let YamlData::Scalar { text, .. } = &node.data else { return Some(node) };
        if !self.flat {
            return Some(node);
        }
        match yaml::parse(text) {
            Ok(inner) => inner.map(|inner| YamlNode { line: node.line, ..inner }),
            Err(error) => {
                self.report_invalid(error.code, key, &node, &error.message, diagnostics);
                None
            }
        }
    }
}

const MUST_BE_MAPPING: &str = "it must be a mapping of `key: value` lines";

/// The finding code for an invalid value of this key.
fn code_of(key: &str) -> &'static str {
    match key {
        "name" => "name_invalid",
        "version" => "version_invalid",
        "lang" => "lang_invalid",
        "mode" => "mode_invalid",
        "idempotent" => "idempotent_invalid",
        "timeout" | "max_runtime_seconds" => "timeout_invalid",
        "memory" | "cpu" | "memory_mb" | "cpu_shares" | "max_output_bytes" => "resources_invalid",
        "resources.memory" | "resources.cpu" => "resources_invalid",
        _ => "field_type",
    }
}

fn scalar_text(node: &YamlNode) -> Option<String> {
    match &node.data {
        YamlData::Scalar { text, .. } => Some(text.clone()),
        _ => None,
    }
}
