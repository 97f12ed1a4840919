//! What tools are called with. Unknown names are refused: an argument that does nothing misleads a
//! model.

use std::collections::BTreeMap;

use rmcp::model::JsonObject;
use serde::Deserialize;
use serde::de::{DeserializeOwned, Deserializer};
use serde_json::Value;

use crate::skills::{ProviderError, SkillRunRequest};

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
pub struct ListArguments {
    pub cursor: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LoadArguments {
    pub skill: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReadArguments {
    pub skill: String,
    pub path: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunArguments {
    skill: String,
    version: Option<String>,
    script: Option<String>,
    #[serde(default)]
    args: Vec<String>,
    stdin: Option<String>,
    #[serde(default, deserialize_with = "present")]
    input: Option<Value>,
    #[serde(default)]
    env: BTreeMap<String, String>,
    timeout: Option<String>,
}

impl From<RunArguments> for SkillRunRequest {
    fn from(arguments: RunArguments) -> SkillRunRequest {
        let RunArguments { skill, version, script, args, stdin, input, env, timeout } = arguments;
        SkillRunRequest { skill, version, input, script, args, stdin, env, timeout }
    }
}

/// The arguments of a call as a typed value.
pub fn read<T: DeserializeOwned>(arguments: Option<JsonObject>) -> Result<T, ProviderError> {
    serde_json::from_value(Value::Object(arguments.unwrap_or_default())).map_err(|error| {
        ProviderError::InvalidRequest(format!("These arguments cannot be used: {error}."))
    })
}

/// A `null` that was sent is a document.
fn present<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(from).map(Some)
}
