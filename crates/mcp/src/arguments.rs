//! The arguments of tool calls. Unknown names are rejected: an argument without an effect misleads
//! a model.

use std::collections::BTreeMap;

use rmcp::model::JsonObject;
use serde::Deserialize;
use serde::de::{DeserializeOwned, Deserializer};
use serde_json::Value;

use crate::provider::SkillRunRequest;
use crate::provider_error::ProviderError;

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct ListArguments {
    pub cursor: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct LoadArguments {
    pub skill: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReadArguments {
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
    #[serde(default, deserialize_with = "deserialize_present")]
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

pub(crate) fn parse_arguments<T: DeserializeOwned>(
    arguments: Option<JsonObject>,
) -> Result<T, ProviderError> {
    let arguments = Value::Object(arguments.unwrap_or_default());
    serde_json::from_value(arguments).map_err(|error| {
        ProviderError::InvalidRequest(format!("The arguments are invalid: {error}."))
    })
}

/// Keeps an explicit `null` as a document; serde alone would read it as `None`.
fn deserialize_present<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Value>, D::Error> {
    Value::deserialize(from).map(Some)
}
