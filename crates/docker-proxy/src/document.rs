//! Strict JSON that has only one interpretation.
//!
//! The engine compares keys case-insensitively, also by Unicode's rules (`ſ` equals `s`), and uses
//! the last of duplicate keys. A parser that differs in one of these points would check another
//! document than the engine executes. So keys that are equal for the engine are an error anywhere
//! in the document, and so is everything else that two parsers may interpret differently:
//! floating-point numbers, keys that are not ASCII, nulls in lists.

use std::collections::HashSet;
use std::fmt;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use crate::request_error::{RequestError, RequestResult, malformed};

const MAX_DEPTH: usize = 8;
const MAX_KEY_BYTES: usize = 256;

/// Parses a document into a type that has all of its fields. The result serializes to the input
/// (apart from null members), so that no value is lost or changed by parsing.
pub(crate) fn parse<T: DeserializeOwned + Serialize>(bytes: &[u8]) -> RequestResult<T> {
    let parsed = parse_value(bytes)?;
    // serde's message goes on with a list of all expected fields, which is too long for a client.
    let rejected = |error: serde_json::Error| {
        RequestError::Forbidden(
            error.to_string().split(", expected").next().unwrap_or_default().to_owned(),
        )
    };
    let typed: T = serde_json::from_value(parsed.clone()).map_err(rejected)?;
    if serde_json::to_value(&typed).map_err(rejected)? != without_nulls(parsed) {
        return malformed("its body changes its meaning when it is parsed");
    }
    Ok(typed)
}

/// The engine treats null like a missing member.
fn without_nulls(value: Value) -> Value {
    match value {
        Value::Object(members) => members
            .into_iter()
            .filter(|(_, value)| !value.is_null())
            .map(|(key, value)| (key, without_nulls(value)))
            .collect(),
        Value::Array(items) => items.into_iter().map(without_nulls).collect(),
        other => other,
    }
}

/// Parses an object that has only one interpretation.
pub(crate) fn parse_value(bytes: &[u8]) -> RequestResult<Value> {
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let read = StrictJson { depth: 0 }
        .deserialize(&mut reader)
        .and_then(|value| reader.end().map(|()| value));
    match read {
        Ok(value) if value.is_object() => Ok(value),
        Ok(_) => malformed("its body is not a JSON object"),
        Err(error) => malformed(format!("its body: {error}")),
    }
}

#[derive(Clone, Copy)]
struct StrictJson {
    depth: usize,
}

impl StrictJson {
    fn nested<E: Error>(self) -> Result<StrictJson, E> {
        if self.depth >= MAX_DEPTH {
            Err(E::custom("it is nested too deeply"))
        } else {
            Ok(StrictJson { depth: self.depth + 1 })
        }
    }
}

impl<'de> DeserializeSeed<'de> for StrictJson {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for StrictJson {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON without floating-point numbers")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        i64::try_from(value).map(Value::from).map_err(|_| E::custom("a number is too large"))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Value, A::Error> {
        let inside = self.nested()?;
        let mut values = Vec::new();
        while let Some(value) = list.next_element_seed(inside)? {
            if value.is_null() {
                return Err(A::Error::custom("a null in a list"));
            }
            values.push(value);
        }
        Ok(values.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<Value, A::Error> {
        let inside = self.nested()?;
        let mut seen = HashSet::new();
        let mut members = Map::new();
        while let Some(key) = object.next_key::<String>()? {
            if key.len() > MAX_KEY_BYTES || !key.bytes().all(|byte| byte.is_ascii_graphic()) {
                return Err(A::Error::custom(format!("the key {key:?} is not plain ASCII")));
            }
            if !seen.insert(key.to_ascii_lowercase()) {
                return Err(A::Error::custom(format!(
                    "the key {key:?} occurs twice, perhaps in another case"
                )));
            }
            members.insert(key, object.next_value_seed(inside)?);
        }
        Ok(members.into())
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;
    use serde_json::json;

    use super::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields, rename_all = "PascalCase")]
    struct SampleDocument {
        #[serde(skip_serializing_if = "Option::is_none")]
        privileged: Option<bool>,
        #[serde(skip_serializing_if = "Option::is_none")]
        inner: Option<Box<SampleDocument>>,
    }

    #[test]
    fn unambiguous_documents_are_accepted() {
        let sample: SampleDocument =
            parse(br#" {"Privileged": false, "Inner": {"Privileged": null}} "#)
                .expect("a document");
        assert_eq!(
            serde_json::to_value(sample).expect("json"),
            json!({"Privileged": false, "Inner": {}})
        );
    }

    #[test]
    fn ambiguous_documents_are_rejected() {
        let deep = format!("{}{}", r#"{"Inner":"#.repeat(20), "{}".to_owned() + &"}".repeat(20));
        for text in [
            r#"{"Privileged":false,"Privileged":true}"#,
            r#"{"Privileged":false,"privileged":true}"#,
            r#"{"PRIVILEGED":false}"#,
            r#"{"Inner":{"Privileged":false,"pRivileged":false}}"#,
            r#"{"Privileged":false,"Privil\u0065ged":true}"#,
            "{\"Privileged\":false,\"\u{17f}\":1}",
            r#"{"\u212a":1}"#,
            r#"{"Other":1}"#,
            r#"{"Other":null}"#,
            r#"{"Inner":[false,null]}"#,
            r#"{"Inner":[]}"#,
            r#"[false]"#,
            "[]",
            "1",
            "",
            "null",
            r#"{} {}"#,
            r#"{"Privileged":0.0}"#,
            r#"{"Privileged":1e400}"#,
            r#"{"a b":1}"#,
            "\u{feff}{}",
            r#"{"Privileged":null,"Privileged":true}"#,
            r#"{"Privileged":"false"}"#,
            deep.as_str(),
        ] {
            assert!(parse::<SampleDocument>(text.as_bytes()).is_err(), "{text}");
        }
        assert!(parse::<SampleDocument>(b"{\"Privileged\":\xff}").is_err());
    }
}
