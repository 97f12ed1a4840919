//! The filters of a list of containers, with our own label always among them.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::document;
use crate::refusal::{Checked, Refusal, forbidden};

/// What a list may be narrowed by.
const KNOWN: &[&str] = &["label", "status", "name", "id"];

pub type Filters = BTreeMap<String, Vec<String>>;

/// Reads `{"label":["a=b"]}` or the older `{"label":{"a=b":true}}`.
pub fn read(text: &str) -> Checked<Filters> {
    let document = document::value(text.as_bytes())?;
    let members = document.as_object().into_iter().flatten();
    members.map(|(key, values)| Ok((known(key)?, words(values)?))).collect()
}

/// Labels narrow together, so a list with ours in it has nobody else's containers.
pub fn with_label(filters: Option<&str>, label: String) -> Checked<String> {
    let mut filters = filters.map(read).transpose()?.unwrap_or_default();
    filters.entry("label".to_owned()).or_default().push(label);
    serde_json::to_string(&filters).map_err(|error| Refusal::Forbidden(error.to_string()))
}

fn known(key: &str) -> Checked<String> {
    if KNOWN.contains(&key) { Ok(key.to_owned()) } else { forbidden(format!("the filter {key:?}")) }
}

fn words(values: &Value) -> Checked<Vec<String>> {
    let word = |value: &Value| value.as_str().map(str::to_owned);
    let words = match values {
        Value::Array(list) => list.iter().map(word).collect(),
        Value::Object(set) => {
            set.iter().map(|(key, on)| (on == true).then(|| key.clone())).collect()
        }
        _ => None,
    };
    words.map_or_else(|| forbidden("a filter that is no list of words"), Ok)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_label_is_always_there() {
        for (given, sent) in [
            (None, r#"{"label":["x=y"]}"#),
            (
                Some(r#"{"label":["a=b"],"status":["exited"]}"#),
                r#"{"label":["a=b","x=y"],"status":["exited"]}"#,
            ),
            (Some(r#"{"label":{"a=b":true}}"#), r#"{"label":["a=b","x=y"]}"#),
        ] {
            assert_eq!(with_label(given, "x=y".into()).expect("filters"), sent);
        }
    }

    #[test]
    fn odd_filters_are_refused() {
        for text in [
            "", "[]", r#"{"label!":["a"]}"#, r#"{"Label":["a"]}"#, r#"{"label":"a"}"#,
            r#"{"label":{"a":false}}"#, r#"{"label":[1]}"#,
        ] {
            assert!(read(text).is_err(), "{text}");
        }
    }
}
