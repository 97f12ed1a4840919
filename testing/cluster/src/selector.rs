//! Label and field selectors in the query of `list` and `watch`.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::Pod;

use crate::status_error::StatusError;

/// A selection of pods.
#[derive(Debug, Clone, Default)]
pub(crate) struct PodSelector {
    labels: Vec<Requirement>,
    fields: Vec<Requirement>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Requirement {
    Equals(String, String),
    Differs(String, String),
    In(String, Vec<String>),
    NotIn(String, Vec<String>),
    Exists(String),
    Missing(String),
}

/// The supported field selectors, a part of those in the real API.
const FIELDS: [&str; 5] =
    ["metadata.name", "metadata.namespace", "spec.nodeName", "spec.restartPolicy", "status.phase"];

impl PodSelector {
    pub(crate) fn parse(labels: &str, fields: &str) -> Result<PodSelector, StatusError> {
        let all = |text: &str| -> Result<Vec<_>, StatusError> {
            split(text).into_iter().map(requirement).collect()
        };
        let fields = all(fields)?;
        for field in &fields {
            match field {
                Requirement::Equals(name, _) | Requirement::Differs(name, _)
                    if FIELDS.contains(&name.as_str()) => {}
                Requirement::Equals(name, _) | Requirement::Differs(name, _) => {
                    return Err(StatusError::bad_request(format!(
                        "field label not supported: {name}"
                    )));
                }
                _ => {
                    return Err(StatusError::bad_request(
                        "invalid selector: only = and != are known for fields",
                    ));
                }
            }
        }
        Ok(PodSelector { labels: all(labels)?, fields })
    }

    pub(crate) fn matches(&self, pod: &Pod) -> bool {
        let labels = pod.metadata.labels.clone().unwrap_or_default();
        let fields = fields(pod);
        self.labels.iter().all(|requirement| requirement.holds(&labels))
            && self.fields.iter().all(|requirement| requirement.holds(&fields))
    }
}

impl Requirement {
    fn holds(&self, values: &BTreeMap<String, String>) -> bool {
        let is = |key: &String, value: &String| values.get(key) == Some(value);
        match self {
            Requirement::Equals(key, value) => is(key, value),
            Requirement::Differs(key, value) => !is(key, value),
            Requirement::In(key, all) => all.iter().any(|value| is(key, value)),
            Requirement::NotIn(key, all) => !all.iter().any(|value| is(key, value)),
            Requirement::Exists(key) => values.contains_key(key),
            Requirement::Missing(key) => !values.contains_key(key),
        }
    }
}

fn fields(pod: &Pod) -> BTreeMap<String, String> {
    let spec = pod.spec.clone().unwrap_or_default();
    let values = [
        pod.metadata.name.clone(),
        pod.metadata.namespace.clone(),
        spec.node_name,
        spec.restart_policy,
        pod.status.as_ref().and_then(|status| status.phase.clone()),
    ];
    FIELDS
        .iter()
        .zip(values)
        .map(|(name, value)| ((*name).to_owned(), value.unwrap_or_default()))
        .collect()
}

/// Splits at commas outside of parentheses.
fn split(text: &str) -> Vec<&str> {
    let mut depth = 0;
    let parts = text.split(move |letter| {
        match letter {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        letter == ',' && depth == 0
    });
    parts.map(str::trim).filter(|part| !part.is_empty()).collect()
}

fn requirement(text: &str) -> Result<Requirement, StatusError> {
    let pair = |separator: &str| {
        text.split_once(separator)
            .map(|(key, value)| (key.trim().to_owned(), value.trim().to_owned()))
    };
    let set = |separator: &str| {
        let (key, rest) = text.split_once(separator)?;
        let values = rest.trim().strip_prefix('(')?.strip_suffix(')')?;
        Some((
            key.trim().to_owned(),
            values.split(',').map(|value| value.trim().to_owned()).collect(),
        ))
    };
    if let Some((key, values)) = set(" notin ") {
        return Ok(Requirement::NotIn(key, values));
    }
    if let Some((key, values)) = set(" in ") {
        return Ok(Requirement::In(key, values));
    }
    if let Some((key, value)) = pair("!=") {
        return Ok(Requirement::Differs(key, value));
    }
    if let Some((key, value)) = pair("==").or_else(|| pair("=")) {
        return Ok(Requirement::Equals(key, value));
    }
    if text.contains([' ', '(', ')']) {
        return Err(StatusError::bad_request(format!("unable to parse requirement: {text:?}")));
    }
    Ok(match text.strip_prefix('!') {
        Some(key) => Requirement::Missing(key.to_owned()),
        None => Requirement::Exists(text.to_owned()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod() -> Pod {
        let mut pod = Pod::default();
        pod.metadata.name = Some("one".to_owned());
        pod.metadata.labels =
            Some([("app".to_owned(), "a".to_owned()), ("tier".to_owned(), "x".to_owned())].into());
        pod
    }

    #[test]
    fn every_kind_of_requirement_selects() {
        let table = [
            ("", "", true),
            ("app=a", "", true),
            ("app==b", "", false),
            ("app!=b,tier", "", true),
            ("app in (b, a),tier notin (y)", "", true),
            ("!app", "", false),
            ("!other", "metadata.name=one", true),
            ("", "metadata.name!=one", false),
            ("", "status.phase=Running", false),
        ];
        for (labels, fields, matches) in table {
            let selector = PodSelector::parse(labels, fields).expect("a selector");
            assert_eq!(selector.matches(&pod()), matches, "{labels} {fields}");
        }
    }

    #[test]
    fn what_the_real_one_does_not_know_is_refused() {
        for (labels, fields) in [("a b", ""), ("", "spec.hostname=x"), ("", "metadata.name in (a)")]
        {
            assert_eq!(
                PodSelector::parse(labels, fields).expect_err("no selector").0.code,
                Some(400)
            );
        }
    }
}
