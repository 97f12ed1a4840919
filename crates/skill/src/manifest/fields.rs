//! A mapping whose keys are taken one by one, so that what is left at the end is unknown.
//!
//! A field that is wrong is noted and counts as missing, so that one reading finds every problem.

use serde_json::{Map, Value};

use crate::error::shown;
use crate::finding::{Finding, Notes};
use crate::yaml::{self, Data, Key, Node};

/// A YAML document and the file it stands in.
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

/// The pairs not yet taken.
pub(super) struct Fields<'a> {
    pub document: Document<'a>,
    /// What stands before the keys in messages: empty, or `resources.`.
    prefix: String,
    /// Values are single texts, and a mapping is written as JSON in one of them.
    flat: bool,
    /// There was no mapping at all, so that a missing key is not worth another word.
    broken: bool,
    pairs: Vec<(Key, Node)>,
}

/// A value and where it was said.
#[derive(Clone)]
pub(super) struct Said<'a, T> {
    pub value: T,
    pub path: &'a str,
    /// With what stands before it: `metadata.skillbox.timeout`.
    pub key: String,
    pub line: u32,
}

/// A field that may be written as one text or as a list of them.
pub(super) struct Texts {
    pub items: Vec<String>,
    pub is_list: bool,
}

impl<'a> Fields<'a> {
    pub(super) fn new(document: Document<'a>, root: Option<Node>, notes: &mut Notes) -> Self {
        let mut broken = false;
        let pairs = match root {
            None => Vec::new(),
            Some(node) if node.is_null() => Vec::new(),
            Some(Node { data: Data::Mapping(pairs), .. }) => pairs,
            Some(node) => {
                broken = true;
                let message = "there must be `key: value` lines here";
                let problem = Finding::noted("frontmatter_not_mapping", message);
                notes.problems.push(problem.at(document.path, document.line(node.line)));
                Vec::new()
            }
        };
        Self { document, prefix: String::new(), flat: false, broken, pairs }
    }

    /// Keys and the lines they stand on, as long as nothing was taken.
    pub(super) fn lines(&self) -> Vec<(String, u32)> {
        self.pairs.iter().map(|(key, _)| (key.text.clone(), self.document.line(key.line))).collect()
    }

    /// A text that must be there and must not be blank, as `read` understands it.
    pub(super) fn required(
        &mut self,
        key: &str,
        missing: &'static str,
        read: impl FnOnce(&str) -> Result<String, String>,
        notes: &mut Notes,
    ) -> String {
        // Empty, it is complained about where it stands.
        let line = self
            .pairs
            .iter()
            .find(|(found, _)| found.text == key)
            .map_or(1, |(found, _)| self.document.line(found.line));
        let known = notes.problems.len();
        if let Some(said) = self.optional(key, read, notes) {
            return said.value;
        }
        if notes.problems.len() == known && !self.broken {
            let message =
                format!("`{}{key}` is missing or empty; every skill needs one", self.prefix);
            notes.problems.push(Finding::noted(missing, message).at(self.document.path, line));
        }
        String::new()
    }

    /// A text that may be missing; null and blank text count as missing.
    pub(super) fn optional<T>(
        &mut self,
        key: &str,
        read: impl FnOnce(&str) -> Result<T, String>,
        notes: &mut Notes,
    ) -> Option<Said<'a, T>> {
        let node = self.take(key)?;
        let Data::Scalar { text, .. } = &node.data else {
            self.wrong("field_type", key, &node, "it must be a single value", notes);
            return None;
        };
        if text.trim().is_empty() {
            return None;
        }
        match read(text) {
            Ok(value) => Some(self.said(key, &node, value)),
            Err(message) => {
                self.wrong(code_of(key), key, &node, &message, notes);
                None
            }
        }
    }

    pub(super) fn text(&mut self, key: &str, notes: &mut Notes) -> Option<Said<'a, String>> {
        self.optional(key, |text| Ok(text.trim().to_owned()), notes)
    }

    /// A text for people to read, for which other tools take lists and mappings too.
    pub(super) fn prose(&mut self, key: &str, notes: &mut Notes) -> Option<String> {
        let node = self.take(key)?;
        let text = match &node.data {
            Data::Scalar { text, .. } => {
                return Some(text.trim().to_owned()).filter(|text| !text.is_empty());
            }
            Data::Sequence(nodes) => {
                nodes.iter().filter_map(scalar_text).collect::<Vec<_>>().join(", ")
            }
            Data::Mapping(_) => node.to_text().to_string(),
        };
        let message = format!("`{}{key}` is not a single text; write it as one", self.prefix);
        let line = self.document.line(node.line);
        notes.remarks.push(Finding::noted("text_not_single", message).at(self.document.path, line));
        Some(text).filter(|text| !text.is_empty())
    }

    /// A text or a list of texts.
    pub(super) fn texts(&mut self, key: &str, notes: &mut Notes) -> Option<Said<'a, Texts>> {
        let node = self.take(key)?;
        let (items, is_list) = match &node.data {
            Data::Scalar { text, .. } => (vec![text.trim().to_owned()], false),
            Data::Sequence(nodes) => (nodes.iter().filter_map(scalar_text).collect(), true),
            Data::Mapping(_) => {
                self.wrong("field_type", key, &node, "it must be one string", notes);
                return None;
            }
        };
        Some(self.said(key, &node, Texts { items, is_list }))
    }

    /// A value as JSON, with numbers and booleans as such.
    pub(super) fn json(&mut self, key: &str, notes: &mut Notes) -> Option<Said<'a, Value>> {
        let node = self.take(key)?;
        let node = self.unfolded(node, key, notes)?;
        Some(self.said(key, &node, node.to_json()))
    }

    /// An inline JSON Schema.
    pub(super) fn schema(&mut self, key: &str, notes: &mut Notes) -> Option<Said<'a, Value>> {
        let said = self.json(key, notes)?;
        if matches!(said.value, Value::Object(_) | Value::Bool(_)) {
            return Some(said);
        }
        let message = format!("`{}`: it must be a JSON Schema, written as a mapping", said.key);
        notes.problems.push(Finding::noted("schema_invalid", message).at(said.path, said.line));
        None
    }

    /// The fields of a mapping within this one.
    pub(super) fn nested(&mut self, key: &str, notes: &mut Notes) -> Self {
        let prefix = format!("{}{key}.", self.prefix);
        let pairs = match self.take(key) {
            None => Vec::new(),
            Some(Node { data: Data::Mapping(pairs), .. }) => pairs,
            Some(node) => {
                self.wrong("field_type", key, &node, MUST_BE_MAPPING, notes);
                Vec::new()
            }
        };
        Self { document: self.document, prefix, flat: false, broken: false, pairs }
    }

    /// The keys that begin with `start`, without it; their values are single texts.
    pub(super) fn flat(&self, start: &str) -> Self {
        let own = |(key, node): &(Key, Node)| {
            let text = key.text.strip_prefix(start)?.to_owned();
            Some((Key { line: key.line, text }, node.clone()))
        };
        let pairs = self.pairs.iter().filter_map(own).collect();
        Self {
            document: self.document,
            prefix: format!("{}{start}", self.prefix),
            flat: true,
            broken: false,
            pairs,
        }
    }

    /// All of it as a mapping whose scalars stay text; what is no text is remarked upon.
    pub(super) fn into_text_map(self, code: &'static str, notes: &mut Notes) -> Map<String, Value> {
        let mut map = Map::new();
        for (key, node) in self.pairs {
            if !matches!(node.data, Data::Scalar { .. }) {
                let message = format!(
                    "`{}{}` is not a single text; write it as one",
                    self.prefix,
                    shown(&key.text)
                );
                notes.remarks.push(
                    Finding::noted(code, message)
                        .at(self.document.path, self.document.line(key.line)),
                );
            }
            map.insert(key.text, node.to_text());
        }
        map
    }

    /// All that was never asked for: kept, and reported.
    pub(super) fn rest(self, notes: &mut Notes) -> Map<String, Value> {
        let mut rest = Map::new();
        for (key, node) in self.pairs {
            let message = format!(
                "`{}{}` is not a field we know; it is kept but does nothing. Check its spelling, or move it under `metadata`",
                self.prefix,
                shown(&key.text)
            );
            let line = self.document.line(key.line);
            notes.remarks.push(Finding::noted("unknown_key", message).at(self.document.path, line));
            rest.insert(key.text, node.to_text());
        }
        rest
    }

    /// The value as it is, for fields that come in several shapes.
    pub(super) fn take(&mut self, key: &str) -> Option<Node> {
        let at = self.pairs.iter().position(|(found, _)| found.text == key)?;
        let (Key { line, .. }, node) = self.pairs.remove(at);
        // A value is spoken of where its key stands, also when it begins further down.
        Some(Node { line, ..node }).filter(|node| !node.is_null())
    }

    pub(super) fn said<T>(&self, key: &str, node: &Node, value: T) -> Said<'a, T> {
        let line = self.document.line(node.line);
        Said { value, path: self.document.path, key: format!("{}{key}", self.prefix), line }
    }

    pub(super) fn wrong(
        &self,
        code: &'static str,
        key: &str,
        node: &Node,
        message: &str,
        notes: &mut Notes,
    ) {
        let message = format!("`{}{key}`: {message}", self.prefix);
        notes.problems.push(
            Finding::noted(code, message).at(self.document.path, self.document.line(node.line)),
        );
    }

    /// What a flat value spells out: JSON is read as the YAML it is, with all its bounds.
    fn unfolded(&self, node: Node, key: &str, notes: &mut Notes) -> Option<Node> {
        let Data::Scalar { text, .. } = &node.data else { return Some(node) };
        if !self.flat {
            return Some(node);
        }
        match yaml::parse(text) {
            Ok(inner) => inner.map(|inner| Node { line: node.line, ..inner }),
            Err(error) => {
                self.wrong(error.code, key, &node, &error.message, notes);
                None
            }
        }
    }
}

const MUST_BE_MAPPING: &str = "it must be a mapping of `key: value` lines";

/// The code for a value that was not understood.
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

fn scalar_text(node: &Node) -> Option<String> {
    match &node.data {
        Data::Scalar { text, .. } => Some(text.clone()),
        _ => None,
    }
}
