//! A skill's declared JSON Schemas: compiled once, checked in bounded time and memory, errors as
//! JSON pointers.
//!
//! A schema is written by a stranger and evaluated in our process, so it may not fetch anything,
//! may not backtrack in a pattern, and may not refer to itself: a recursive schema can cost
//! exponential time on a small document. What its patterns compile to is measured, and what a check
//! may cost is bounded before it starts, because neither can be interrupted. `SchemaWorkers` keeps
//! both off the async threads.

mod patterns;
mod walk;
mod workers;

use jsonschema::{PatternOptions, Validator};
use serde_json::Value;

use patterns::Patterns;
use walk::Walk;
pub use workers::{SchemaWorkers, WorkersBusy};

/// Schema nodes times document nodes: without recursion a check takes no more steps than that.
const MAX_STEPS: u64 = 20_000_000;
/// Bytes of strings in the document times states of the compiled patterns: what matching takes at
/// worst, about a second.
const MAX_MATCH_STEPS: u64 = 200_000_000;
/// A check with at most this many steps takes well under a millisecond, less than handing it to
/// another thread is worth.
const MAX_INLINE_STEPS: u64 = 50_000;
/// Violations that are listed; the rest are only counted.
const MAX_LISTED: usize = 10;
/// What a compiled schema node takes in memory, measured and rounded up.
const NODE_BYTES: u64 = 1024;

#[derive(Debug)]
pub struct Schema {
    validator: Validator,
    nodes: u64,
    patterns: Patterns,
}

impl Schema {
    /// The sentence is for the skill's author.
    pub fn compile(schema: &Value) -> Result<Schema, String> {
        let mut walk = Walk::new(schema);
        walk.visit(schema, 0)?;
        let patterns = Patterns::measure(&walk.patterns)?;
        let options = PatternOptions::regex()
            .size_limit(patterns::MAX_COMPILED_BYTES)
            .dfa_size_limit(patterns::DFA_CACHE_BYTES);
        let validator = jsonschema::options()
            .with_pattern_options(options)
            .build(schema)
            .map_err(|error| format!("is not a usable JSON Schema: {}", error.masked()))?;
        Ok(Schema { validator, nodes: walk.nodes as u64, patterns })
    }

    /// What the compiled schema keeps in memory, at most.
    pub fn memory_bytes(&self) -> u64 {
        self.nodes * NODE_BYTES + self.patterns.memory_bytes()
    }

    /// Every violation with the place it stands at; the values themselves are not repeated.
    pub fn check(&self, document: &str) -> Result<(), String> {
        let document: Value = serde_json::from_str(document)
            .map_err(|_| "#: holds a number that is out of range".to_owned())?;
        self.refuse_expensive(&document)?;
        let mut violations = self.validator.iter_errors(&document);
        let listed: Vec<String> = violations
            .by_ref()
            .take(MAX_LISTED)
            .map(|error| format!("#{}: {}", error.instance_path(), error.masked()))
            .collect();
        match (listed.is_empty(), violations.next().is_some()) {
            (true, _) => Ok(()),
            (false, false) => Err(listed.join("; ")),
            (false, true) => Err(format!("{}; and more", listed.join("; "))),
        }
    }

    /// Whether a document of this length is checked so quickly that another thread is not worth its
    /// while.
    pub fn is_quick(&self, document: &str) -> bool {
        // A value takes at least one byte of text, and so does a character of a string.
        let length = document.len() as u64;
        length.saturating_mul(self.nodes.saturating_add(self.patterns.states())) <= MAX_INLINE_STEPS
    }

    /// A check that has begun cannot be stopped, so one that could take long is not begun.
    fn refuse_expensive(&self, document: &Value) -> Result<(), String> {
        let size = Size::of(document);
        if size.values.saturating_mul(self.nodes) > MAX_STEPS {
            return Err("#: is too large to be checked".to_owned());
        }
        let steps = size.string_bytes.saturating_mul(self.patterns.states());
        if steps > MAX_MATCH_STEPS {
            return Err(format!(
                "#: is too large to be checked against the schema's patterns: {} bytes of text times {} pattern states \
                 are more than {MAX_MATCH_STEPS}",
                size.string_bytes,
                self.patterns.states()
            ));
        }
        Ok(())
    }
}

/// What a document is made of. Its depth was bounded when it was accepted.
#[derive(Default)]
struct Size {
    values: u64,
    /// Of strings and of names.
    string_bytes: u64,
}

impl Size {
    fn of(document: &Value) -> Size {
        let mut size = Size::default();
        size.add(document);
        size
    }

    fn add(&mut self, value: &Value) {
        self.values += 1;
        match value {
            Value::String(text) => self.string_bytes += text.len() as u64,
            Value::Array(items) => items.iter().for_each(|item| self.add(item)),
            Value::Object(entries) => entries.iter().for_each(|(name, value)| {
                self.string_bytes += name.len() as u64;
                self.add(value);
            }),
            _ => {}
        }
    }
}

#[cfg(test)]
#[path = "schema/tests.rs"]
mod tests;
