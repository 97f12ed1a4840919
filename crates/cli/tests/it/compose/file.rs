//! `docker-compose.yml` as a value, with the variables of an env file put in.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

use crate::engine::repository;

pub(super) type Variables = BTreeMap<String, String>;

pub(super) struct Compose {
    pub document: Value,
}

impl Compose {
    pub(super) fn read(variables: &Variables) -> Self {
        let text =
            std::fs::read_to_string(repository().join("docker-compose.yml")).expect("the file");
        Self { document: serde_saphyr::from_str(&filled_in(&text, variables)).expect("YAML") }
    }

    pub(super) fn services(&self) -> Vec<(&str, &Value)> {
        let services = self.document["services"].as_object().expect("services");
        services.iter().map(|(name, service)| (name.as_str(), service)).collect()
    }

    pub(super) fn service(&self, name: &str) -> &Value {
        self.document["services"].get(name).unwrap_or_else(|| panic!("a service {name}"))
    }

    pub(super) fn environment(&self, service: &str) -> Variables {
        let Some(environment) = self.service(service)["environment"].as_object() else {
            return Variables::new();
        };
        environment
            .iter()
            .map(|(name, value)| (name.clone(), value.as_str().expect("a text").to_owned()))
            .collect()
    }

    /// What stands after `skillbox`: the file's command, or the image's.
    pub(super) fn command(&self, service: &str) -> Vec<String> {
        let words = |words: &Vec<Value>| {
            words.iter().map(|word| word.as_str().expect("a word").to_owned()).collect()
        };
        self.service(service)["command"].as_array().map_or_else(|| vec!["serve".to_owned()], words)
    }
}

/// Puts variables in as compose does: `${NAME:?complaint}` must be there, `${NAME:-default}` may
/// be.
fn filled_in(text: &str, variables: &Variables) -> String {
    let mut parts = text.split("${");
    let mut filled = parts.next().expect("a beginning").to_owned();
    for part in parts {
        let (variable, rest) = part.split_once('}').expect("a closing brace");
        let (name, otherwise) =
            variable.split_once(':').expect("a variable says what happens without it");
        match (variables.get(name), otherwise.split_at(1)) {
            (Some(value), _) => filled.push_str(value),
            (None, ("-", default)) => filled.push_str(default),
            (None, (_, complaint)) => panic!("{name} is missing: {complaint}"),
        }
        filled.push_str(rest);
    }
    filled
}

/// The secrets, as the script makes them for a person.
pub(super) fn make_secrets(file: &Path) -> Output {
    let script = repository().join("deploy/docker/make-secrets.sh");
    Command::new(script).arg(file).output().expect("the script runs")
}

pub(super) fn secrets(file: &Path) -> Variables {
    let text = std::fs::read_to_string(file).expect("the secrets");
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let variables = lines.map(|line| line.split_once('=').expect("a variable"));
    variables
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .filter(|(_, value)| !value.is_empty())
        .collect()
}
