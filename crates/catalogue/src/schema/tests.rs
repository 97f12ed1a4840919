//! What is refused, what is reported, and what it costs.

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
        (
            json!({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/%24defs/a"}}}),
            "not a \"#/…\" path",
        ),
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

/// Many patterns that differ, each of which stands for a large automaton.
fn large_patterns(count: usize) -> Value {
    let all: Vec<_> =
        (0..count).map(|number| json!({"pattern": format!(r"\p{{L}}{{200}}{number}")})).collect();
    json!({"allOf": all})
}

#[test]
fn patterns_are_bounded_in_number_length_and_what_they_compile_to() {
    let keys: serde_json::Map<_, _> =
        (0..101).map(|number| (format!("^k{number}$"), json!(true))).collect();
    let long = "a".repeat(1001);
    let many_long: Vec<_> =
        (0..21).map(|number| json!({"pattern": format!("{number:0999}")})).collect();
    let refused = [
        (large_patterns(2), "compile to more than 4194304 bytes"),
        (
            json!({"patternProperties": {r"\p{L}{9999}": true}}),
            "compile to more than 4194304 bytes",
        ),
        (json!({"patternProperties": keys}), "101 different patterns and may have 100"),
        (json!({"pattern": long}), "a pattern of 1001 bytes and may have patterns of 1000"),
        (json!({"anyOf": many_long}), "20979 bytes together and may have 20000"),
    ];
    for (schema, expected) in refused {
        let error = Schema::compile(&schema).expect_err("refused");
        assert!(error.contains(expected), "{error}");
    }
}

/// The control: this is what the measured limit keeps out. Without it the same patterns compile.
#[test]
fn without_the_limit_the_same_patterns_compile_to_far_more() {
    let schema = large_patterns(2);
    let unbounded =
        jsonschema::options().with_pattern_options(PatternOptions::regex()).build(&schema);
    assert!(unbounded.is_ok());
}

#[test]
fn patterns_as_people_write_them_are_let_in() {
    let patterns = [
        r"^[A-Za-z0-9._%+-]{1,64}@[A-Za-z0-9.-]+\.[A-Za-z]{2,}$",
        r"^[0-9a-f]{8}-[0-9a-f]{4}-[1-5][0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$",
        r"^\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])T([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d+)?(Z|[+-]\d\d:\d\d)$",
        r"^[\p{L}\p{N} .'-]{1,64}$",
        r"^\w{1,255}$",
        r"^https?://[^\s/$.?#].[^\s]*$",
    ];
    let properties: serde_json::Map<_, _> = patterns
        .iter()
        .enumerate()
        .map(|(n, pattern)| (n.to_string(), json!({"pattern": pattern})))
        .collect();
    let schema = compiled(json!({"properties": properties}));
    assert_eq!(schema.check(r#"{"0":"a@example.com","4":"abc"}"#), Ok(()));
    assert!(schema.check(r#"{"1":"no"}"#).is_err());
}

#[test]
fn a_check_whose_patterns_would_take_long_is_not_begun() {
    let schema = compiled(json!({"items": {"pattern": "[ab]*a[ab]{300}c"}}));
    let text = |length: usize| json!(["ab".repeat(length / 2)]).to_string();
    let error = schema.check(&text(2 << 20)).expect_err("refused");
    assert!(
        error.starts_with(
            "#: is too large to be checked against the schema's patterns: 2097152 bytes"
        ),
        "{error}"
    );
    assert!(schema.check(&text(1000)).expect_err("no match").contains("#/0: "));
}

#[test]
fn references_multiply_what_a_pattern_costs() {
    let once = compiled(json!({"pattern": "^[a-z]{50}$"}));
    let ten = vec![json!({"$ref": "#/$defs/word"}); 10];
    let often = compiled(json!({"allOf": ten, "$defs": {"word": {"pattern": "^[a-z]{50}$"}}}));
    assert_eq!(often.patterns.states(), once.patterns.states() * 11);
}

#[test]
fn a_compiled_schema_knows_its_size() {
    let small = compiled(json!({"type": "object"}));
    let large = compiled(json!({"pattern": r"^\p{L}{1,40}$"}));
    assert!(small.memory_bytes() < 8 << 10, "{}", small.memory_bytes());
    assert!(large.memory_bytes() > 1 << 20, "{}", large.memory_bytes());
}

#[test]
fn only_small_checks_are_quick() {
    let schema = compiled(json!({"properties": {"text": {"type": "string"}}}));
    assert!(schema.is_quick(r#"{"text":"five"}"#));
    assert!(!schema.is_quick(&format!("{{\"text\":\"{}\"}}", "a".repeat(100_000))));
}
