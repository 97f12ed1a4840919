//! JSON with one reading only.
//!
//! The engine matches keys without regard to case, also by Unicode's rules (`ſ` is an `s` to it),
//! and lets the last of several win. Here a key that could be another one's twin is an error
//! anywhere in the document, and so is everything that two readers might take differently:
//! floating-point numbers, keys that are not ASCII, nulls in lists.

use std::collections::HashSet;
use std::fmt;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use crate::refusal::{Checked, Refusal, malformed};

const DEEPEST: usize = 8;
const LONGEST_KEY: usize = 256;

/// Reads a document of a type that knows all of its fields. What is given back, written out again,
/// is what was read (members that are null aside), so that nothing is lost or taken for something
/// else on the way.
pub fn read<T: DeserializeOwned + Serialize>(bytes: &[u8]) -> Checked<T> {
    let said = value(bytes)?;
    // A list of all the fields there are would follow.
    let odd = |error: serde_json::Error| {
        Refusal::Forbidden(
            error.to_string().split(", expected").next().unwrap_or_default().to_owned(),
        )
    };
    let typed: T = serde_json::from_value(said.clone()).map_err(odd)?;
    if serde_json::to_value(&typed).map_err(odd)? != without_nulls(said) {
        return malformed("its body is not what it seems to say");
    }
    Ok(typed)
}

/// To the engine a null is the same as nothing.
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

/// Reads an object that has one reading only.
pub fn value(bytes: &[u8]) -> Checked<Value> {
    let mut reader = serde_json::Deserializer::from_slice(bytes);
    let read =
        Strict { depth: 0 }.deserialize(&mut reader).and_then(|value| reader.end().map(|()| value));
    match read {
        Ok(value) if value.is_object() => Ok(value),
        Ok(_) => malformed("its body is no JSON object"),
        Err(error) => malformed(format!("its body: {error}")),
    }
}

#[derive(Clone, Copy)]
struct Strict {
    depth: usize,
}

impl Strict {
    fn deeper<E: Error>(self) -> Result<Strict, E> {
        if self.depth >= DEEPEST {
            Err(E::custom("too deep"))
        } else {
            Ok(Strict { depth: self.depth + 1 })
        }
    }
}

impl<'de> DeserializeSeed<'de> for Strict {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict {
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
        let inside = self.deeper()?;
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
        let inside = self.deeper()?;
        let mut seen = HashSet::new();
        let mut members = Map::new();
        while let Some(key) = object.next_key::<String>()? {
            if key.len() > LONGEST_KEY || !key.bytes().all(|byte| byte.is_ascii_graphic()) {
                return Err(A::Error::custom(format!("the key {key:?} is not plain ASCII")));
            }
            if !seen.insert(key.to_ascii_lowercase()) {
                return Err(A::Error::custom(format!(
                    "the key {key:?} comes twice, perhaps in another case"
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
    struct Small {
        #[serde(skip_serializing_if = "Option::is_none")]
        privileged: Option<bool>,
        #[serde(skip_serializing_if = "Option::is_none")]
        inner: Option<Box<Small>>,
    }

    #[test]
    fn one_reading_is_let_through() {
        let small: Small =
            read(br#" {"Privileged": false, "Inner": {"Privileged": null}} "#).expect("a document");
        assert_eq!(
            serde_json::to_value(small).expect("json"),
            json!({"Privileged": false, "Inner": {}})
        );
    }

    #[test]
    fn two_readings_are_refused() {
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
            assert!(read::<Small>(text.as_bytes()).is_err(), "{text}");
        }
        assert!(read::<Small>(b"{\"Privileged\":\xff}").is_err());
    }
}
