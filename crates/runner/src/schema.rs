//! A skill's declared JSON Schemas: compiled once, checked in bounded time, errors as JSON pointers.
//!
//! A schema is written by a stranger and evaluated in our process, so it may not fetch anything, may not backtrack
//! in a pattern, and may not refer to itself: a recursive schema can cost exponential time on a small document.

use jsonschema::{PatternOptions, Validator};
use serde_json::Value;

/// Schema nodes after every reference is followed.
const MAX_NODES: usize = 10_000;
const MAX_DEPTH: usize = 200;
/// Schema nodes times document nodes: without recursion a check takes no more steps than that.
const MAX_STEPS: usize = 20_000_000;
/// Violations that are listed; the rest are only counted.
const MAX_LISTED: usize = 10;

#[derive(Debug)]
pub struct Schema {
    validator: Validator,
    nodes: usize,
}

impl Schema {
    /// The sentence is for the skill's author.
    pub fn compile(schema: &Value) -> Result<Schema, String> {
        let mut walk = Walk { root: schema, following: Vec::new(), nodes: 0 };
        walk.visit(schema, 0)?;
        let validator = jsonschema::options()
            .with_pattern_options(PatternOptions::regex())
            .build(schema)
            .map_err(|error| format!("is not a usable JSON Schema: {}", error.masked()))?;
        Ok(Schema { validator, nodes: walk.nodes })
    }

    /// Every violation with the place it stands at; the values themselves are not repeated.
    pub fn check(&self, document: &str) -> Result<(), String> {
        let document: Value =
            serde_json::from_str(document).map_err(|_| "#: holds a number that is out of range".to_owned())?;
        if count(&document).saturating_mul(self.nodes) > MAX_STEPS {
            return Err("#: is too large to be checked".to_owned());
        }
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
}

/// How many values a document is made of. Its depth was bounded when it was accepted.
fn count(document: &Value) -> usize {
    1 + match document {
        Value::Array(items) => items.iter().map(count).sum(),
        Value::Object(entries) => entries.values().map(count).sum(),
        _ => 0,
    }
}

/// Follows every reference of a schema and gives up where evaluation could.
struct Walk<'a> {
    root: &'a Value,
    following: Vec<&'a str>,
    nodes: usize,
}

impl<'a> Walk<'a> {
    fn visit(&mut self, node: &'a Value, depth: usize) -> Result<(), String> {
        self.nodes += 1;
        if self.nodes > MAX_NODES || depth > MAX_DEPTH {
            return Err("is too large".to_owned());
        }
        match node {
            Value::Array(items) => items.iter().try_for_each(|item| self.visit(item, depth + 1)),
            Value::Object(entries) => entries.iter().try_for_each(|(key, value)| match (key.as_str(), value) {
                ("$ref", Value::String(target)) => self.follow(target, depth),
                ("$dynamicRef" | "$recursiveRef", Value::String(_)) => Err(format!("uses {key}, which is not allowed")),
                // A nested base address would change what the references below it mean.
                ("$id", Value::String(_)) if depth > 0 => Err("has an $id below its root".to_owned()),
                _ => self.visit(value, depth + 1),
            }),
            _ => Ok(()),
        }
    }

    fn follow(&mut self, target: &'a str, depth: usize) -> Result<(), String> {
        if self.following.contains(&target) {
            return Err(format!("refers to itself through {target:?}; recursive schemas are not allowed"));
        }
        let found = target.strip_prefix('#').and_then(|pointer| self.root.pointer(pointer));
        let found = found.ok_or_else(|| format!("refers to {target:?}, which is not a \"#/…\" path inside it"))?;
        self.following.push(target);
        self.visit(found, depth + 1)?;
        self.following.pop();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn compiled(schema: Value) -> Schema {
        Schema::compile(&schema).expect("a good schema")
    }

    #[test]
    fn violations_carry_their_pointers_and_no_values() {
        let schema = compiled(json!({
            "type": "object",
            "required": ["name"],
            "properties": {"tags": {"type": "array", "items": {"$ref": "#/$defs/tag"}}},
            "$defs": {"tag": {"type": "string", "pattern": "^[a-z]+$"}}
        }));
        assert_eq!(schema.check(r#"{"name":1,"tags":["ok"]}"#), Ok(()));
        let error = schema.check(r#"{"tags":["ok",5,"SECRET"]}"#).expect_err("violations");
        assert!(error.contains("#/tags/1: ") && error.contains("#/tags/2: "), "{error}");
        assert!(error.contains("\"name\" is a required property"), "{error}");
        assert!(!error.contains("SECRET"), "{error}");
    }

    #[test]
    fn a_long_list_of_violations_is_cut() {
        let schema = compiled(json!({"items": {"type": "string"}}));
        let error = schema.check(&format!("[{}1]", "1,".repeat(100))).expect_err("violations");
        assert!(error.ends_with("; and more") && error.len() < 1000, "{error}");
    }

    #[test]
    fn a_check_that_would_take_long_is_not_begun() {
        let any: Vec<_> = (0..1000).map(|i| json!({"const": i})).collect();
        let schema = compiled(json!({"items": {"allOf": any}}));
        let error = schema.check(&format!("[{}1]", "1,".repeat(100_000))).expect_err("refused");
        assert_eq!(error, "#: is too large to be checked");
    }

    #[test]
    fn schemas_that_could_burn_time_or_fetch_are_refused() {
        let doubling: serde_json::Map<_, _> = (0..40)
            .map(|i| {
                let next = json!({"$ref": format!("#/$defs/d{}", i + 1)});
                (format!("d{i}"), json!({"allOf": [next, next]}))
            })
            .chain([("d40".to_owned(), json!(true))])
            .collect();
        let deep = (0..300).fold(json!(true), |inner, _| json!({"not": inner}));
        let refused = [
            (json!({"$ref": "#"}), "refers to itself"),
            (json!({"items": {"$ref": "#"}}), "refers to itself"),
            (json!({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/%24defs/a"}}}), "not a \"#/…\" path"),
            (json!({"$ref": "https://example.com/s.json"}), "not a \"#/…\" path"),
            (json!({"$ref": "file:///etc/passwd"}), "not a \"#/…\" path"),
            (json!({"$dynamicRef": "#x"}), "not allowed"),
            (json!({"properties": {"a": {"$id": "other", "$ref": "#"}}}), "$id below"),
            (json!({"$ref": "#/$defs/d0", "$defs": doubling}), "too large"),
            (deep, "too large"),
            (json!({"type": 5}), "not a usable"),
            (json!({"pattern": "("}), "not a usable"),
            (json!({"$schema": "https://example.com/unknown"}), "not a usable"),
        ];
        for (schema, expected) in refused {
            let error = Schema::compile(&schema).expect_err("refused");
            assert!(error.contains(expected), "{schema}: {error}");
        }
    }
}
