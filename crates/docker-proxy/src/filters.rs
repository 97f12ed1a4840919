//! The filters of a container list, which always include our own label.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::document;
use crate::request_error::{RequestError, RequestResult, forbidden};

/// The filters that a client may use.
const ALLOWED_FILTERS: &[&str] = &["label", "status", "name", "id"];

pub(crate) type ListFilters = BTreeMap<String, Vec<String>>;

/// Reads `{"label":["a=b"]}` or the older `{"label":{"a=b":true}}`.
pub(crate) fn parse(text: &str) -> RequestResult<ListFilters> {
    let document = document::parse_value(text.as_bytes())?;
    let members = document.as_object().into_iter().flatten();
    members.map(|(key, values)| Ok((check_name(key)?, filter_values(values)?))).collect()
}

/// Adds a label to the filters. Labels are combined with AND, so a list with our label never has
/// containers of others.
pub(crate) fn with_label(filters: Option<&str>, label: String) -> RequestResult<String> {
    let mut filters = filters.map(parse).transpose()?.unwrap_or_default();
    filters.entry("label".to_owned()).or_default().push(label);
    serde_json::to_string(&filters).map_err(|error| RequestError::Forbidden(error.to_string()))
}

fn check_name(key: &str) -> RequestResult<String> {
    if ALLOWED_FILTERS.contains(&key) {
        Ok(key.to_owned())
    } else {
        forbidden(format!("the filter {key:?}"))
    }
}

fn filter_values(values: &Value) -> RequestResult<Vec<String>> {
    let string = |value: &Value| value.as_str().map(str::to_owned);
    let strings = match values {
        Value::Array(list) => list.iter().map(string).collect(),
        Value::Object(set) => {
            set.iter().map(|(key, on)| (on == true).then(|| key.clone())).collect()
        }
        _ => None,
    };
    strings.map_or_else(|| forbidden("a filter that is not a list of strings"), Ok)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_label_is_always_added() {
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
    fn unknown_and_malformed_filters_are_rejected() {
        for text in [
            "", "[]", r#"{"label!":["a"]}"#, r#"{"Label":["a"]}"#, r#"{"label":"a"}"#,
            r#"{"label":{"a":false}}"#, r#"{"label":[1]}"#,
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
