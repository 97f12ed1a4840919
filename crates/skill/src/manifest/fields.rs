//! A mapping whose keys are taken one by one, so that what is left at the end is unknown.

use serde_json::{Map, Value};

use crate::SkillError;
use crate::error::shown;
use crate::finding::Finding;
use crate::yaml::{Data, Key, Node};

/// The pairs not yet taken.
pub(super) struct Fields {
    /// What stands before the keys in messages: empty, or `resources.`.
    prefix: String,
    pairs: Vec<(Key, Node)>,
}

/// A value and the line of the file it stands on.
pub(super) struct Placed<T> {
    pub line: u32,
    pub value: T,
}

/// A field that may be written as one text or as a list of them.
pub(super) struct Texts {
    pub items: Vec<String>,
    pub is_list: bool,
}

impl Fields {
    pub(super) fn new(root: Option<Node>) -> Result<Self, SkillError> {
        let pairs = match root {
            None => Vec::new(),
            Some(node) if node.is_null() => Vec::new(),
            Some(Node { data: Data::Mapping(pairs), .. }) => pairs,
            Some(node) => {
                let message = "the frontmatter must be `key: value` lines";
                return Err(SkillError::frontmatter(file_line(node.line), message));
            }
        };
        let prefix = String::new();
        Ok(Self { prefix, pairs })
    }

    /// A text that must be there and must not be blank, as `read` understands it.
    pub(super) fn required<T>(
        &mut self,
        key: &str,
        read: impl FnOnce(&str) -> Result<T, String>,
    ) -> Result<T, SkillError> {
        let missing = || {
            let message = format!("`{key}` is missing or empty; every skill needs one");
            SkillError::frontmatter(None, message)
        };
        self.optional(key, read)?.ok_or_else(missing)
    }

    /// A text that may be missing; null and blank text count as missing.
    pub(super) fn optional<T>(
        &mut self,
        key: &str,
        read: impl FnOnce(&str) -> Result<T, String>,
    ) -> Result<Option<T>, SkillError> {
        let Some(node) = self.take(key) else {
            return Ok(None);
        };
        let Data::Scalar { text, .. } = &node.data else {
            return Err(self.wrong(key, &node, "it must be a single value"));
        };
        if text.trim().is_empty() {
            return Ok(None);
        }
        read(text).map(Some).map_err(|message| self.wrong(key, &node, &message))
    }

    pub(super) fn text(&mut self, key: &str) -> Result<Option<String>, SkillError> {
        self.optional(key, |text| Ok(text.trim().to_owned()))
    }

    /// A text or a list of texts, with its line.
    pub(super) fn texts(&mut self, key: &str) -> Result<Option<Placed<Texts>>, SkillError> {
        let Some(node) = self.take(key) else {
            return Ok(None);
        };
        let (items, is_list) = match &node.data {
            Data::Scalar { text, .. } => (vec![text.trim().to_owned()], false),
            Data::Sequence(nodes) => (nodes.iter().filter_map(scalar_text).collect(), true),
            Data::Mapping(_) => return Err(self.wrong(key, &node, "it must be one string")),
        };
        let value = Texts { items, is_list };
        Ok(Some(placed(&node, value)))
    }

    /// A mapping whose scalars stay text, as the format's `metadata` wants them.
    pub(super) fn map(&mut self, key: &str) -> Result<Map<String, Value>, SkillError> {
        let Some(node) = self.take(key) else {
            return Ok(Map::new());
        };
        match node.to_text() {
            Value::Object(map) => Ok(map),
            _ => Err(self.wrong(key, &node, MUST_BE_MAPPING)),
        }
    }

    /// A mapping whose numbers and booleans are such, with its line.
    pub(super) fn json_map(&mut self, key: &str) -> Result<Option<Placed<Map<String, Value>>>, SkillError> {
        let Some(node) = self.take(key) else {
            return Ok(None);
        };
        match node.to_json() {
            Value::Object(map) => Ok(Some(placed(&node, map))),
            _ => Err(self.wrong(key, &node, MUST_BE_MAPPING)),
        }
    }

    /// An inline JSON Schema.
    pub(super) fn schema(&mut self, key: &str) -> Result<Option<Value>, SkillError> {
        let Some(node) = self.take(key) else {
            return Ok(None);
        };
        match node.to_json() {
            schema @ (Value::Object(_) | Value::Bool(_)) => Ok(Some(schema)),
            _ => Err(self.wrong(key, &node, "it must be a JSON Schema, written as a mapping")),
        }
    }

    /// The fields of a mapping within this one.
    pub(super) fn nested(&mut self, key: &str) -> Result<Self, SkillError> {
        let prefix = format!("{key}.");
        let pairs = match self.take(key) {
            None => Vec::new(),
            Some(Node { data: Data::Mapping(pairs), .. }) => pairs,
            Some(node) => return Err(self.wrong(key, &node, MUST_BE_MAPPING)),
        };
        Ok(Self { prefix, pairs })
    }

    /// All that was never asked for: kept, and reported.
    pub(super) fn rest(self, findings: &mut Vec<Finding>) -> Map<String, Value> {
        let mut rest = Map::new();
        for (key, node) in self.pairs {
            let message = format!(
                "`{}{}` is not a field we know; it is kept but does nothing. Check its spelling, or move it under `metadata`",
                self.prefix,
                shown(&key.text)
            );
            findings.push(Finding::warning("unknown_key", message).at("SKILL.md", file_line(key.line)));
            rest.insert(key.text, node.to_text());
        }
        rest
    }

    fn take(&mut self, key: &str) -> Option<Node> {
        let at = self.pairs.iter().position(|(found, _)| found.text == key)?;
        let (_, node) = self.pairs.remove(at);
        Some(node).filter(|node| !node.is_null())
    }

    fn wrong(&self, key: &str, node: &Node, message: &str) -> SkillError {
        let message = format!("`{}{key}`: {message}", self.prefix);
        SkillError::frontmatter(file_line(node.line), message)
    }
}

const MUST_BE_MAPPING: &str = "it must be a mapping of `key: value` lines";

fn scalar_text(node: &Node) -> Option<String> {
    match &node.data {
        Data::Scalar { text, .. } => Some(text.clone()),
        _ => None,
    }
}

fn placed<T>(node: &Node, value: T) -> Placed<T> {
    let line = file_line(node.line);
    Placed { line, value }
}

/// Lines of the YAML count from below the opening fence.
fn file_line(line: u32) -> u32 {
    line + 1
}
