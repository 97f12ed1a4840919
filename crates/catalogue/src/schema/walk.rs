//! Follows every reference of a schema, counts what evaluating it can touch, and gives up where
//! evaluation could.

use std::collections::BTreeMap;

use serde_json::Value;

/// Schema nodes after every reference is followed.
const MAX_NODES: usize = 10_000;
const MAX_DEPTH: usize = 200;

pub(super) struct Walk<'a> {
    root: &'a Value,
    following: Vec<&'a str>,
    pub nodes: usize,
    /// Each pattern, and how many times it stands in the schema after every reference is followed.
    pub patterns: BTreeMap<&'a str, u64>,
}

impl<'a> Walk<'a> {
    pub(super) fn new(root: &'a Value) -> Walk<'a> {
        Walk { root, following: Vec::new(), nodes: 0, patterns: BTreeMap::new() }
    }

    pub(super) fn visit(&mut self, node: &'a Value, depth: usize) -> Result<(), String> {
        self.nodes += 1;
        if self.nodes > MAX_NODES {
            return Err(format!("is too large: it has more than {MAX_NODES} nodes"));
        }
        if depth > MAX_DEPTH {
            return Err(format!("is too large: it is nested deeper than {MAX_DEPTH} levels"));
        }
        match node {
            Value::Array(items) => items.iter().try_for_each(|item| self.visit(item, depth + 1)),
            Value::Object(entries) => {
                entries.iter().try_for_each(|(key, value)| self.visit_entry(key, value, depth))
            }
            _ => Ok(()),
        }
    }

    fn visit_entry(&mut self, key: &'a str, value: &'a Value, depth: usize) -> Result<(), String> {
        match (key, value) {
            ("$ref", Value::String(target)) => self.follow(target, depth),
            ("$dynamicRef" | "$recursiveRef", Value::String(_)) => {
                Err(format!("uses {key}, which is not allowed"))
            }
            // A nested base address would change what the references below it mean.
            ("$id", Value::String(_)) if depth > 0 => Err("has an $id below its root".to_owned()),
            // A value of `const` or `default` may look like a pattern; counting it too does no
            // harm.
            ("pattern", Value::String(pattern)) => {
                self.count_pattern(pattern);
                self.visit(value, depth + 1)
            }
            ("patternProperties", Value::Object(properties)) => {
                properties.keys().for_each(|pattern| self.count_pattern(pattern));
                self.visit(value, depth + 1)
            }
            _ => self.visit(value, depth + 1),
        }
    }

    fn count_pattern(&mut self, pattern: &'a str) {
        *self.patterns.entry(pattern).or_default() += 1;
    }

    fn follow(&mut self, target: &'a str, depth: usize) -> Result<(), String> {
        if self.following.contains(&target) {
            return Err(format!(
                "refers to itself through {target:?}; recursive schemas are not allowed"
            ));
        }
        let found = target.strip_prefix('#').and_then(|pointer| self.root.pointer(pointer));
        let found = found.ok_or_else(|| {
            format!("refers to {target:?}, which is not a \"#/…\" path inside it")
        })?;
        self.following.push(target);
        self.visit(found, depth + 1)?;
        self.following.pop();
        Ok(())
    }
}
