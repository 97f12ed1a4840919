//! One tool for each skill, for clients that requested them.

use std::borrow::Cow;
use std::sync::Arc;

use rmcp::model::{JsonObject, Tool};
use serde_json::{Value, json};

use crate::provider::{SkillOverview, SkillProvider, SkillRunRequest};
use crate::provider_error::ProviderError;
use crate::tools::{object, run_annotations};

/// Models choose badly among more tools.
const MAX_SKILL_TOOLS: usize = 100;
/// The longest tool name that most clients and models accept.
const MAX_TOOL_NAME_CHARS: usize = 64;

/// One tool for each skill that has an entrypoint, sorted by name.
pub(crate) async fn list_skill_tools(
    skills: &dyn SkillProvider,
) -> Result<Vec<Tool>, ProviderError> {
    let mut tools: Vec<Tool> = Vec::new();
    for skill in list_runnable(skills).await? {
        let name = tool_name(&skill.name);
        // Long or unusual skill names can map to the same tool name; the first skill gets it, here
        // and in `run_request_for`.
        if !tools.iter().any(|tool| tool.name == name) {
            let schema = own_object_schema(&skill).unwrap_or_else(wrapper_schema);
            let tool = Tool::new(Cow::Owned(name), Cow::Owned(skill.description), Arc::new(schema));
            tools.push(tool.with_annotations(run_annotations()));
        }
    }
    Ok(tools)
}

/// The run that a call of a skill's own tool stands for; `None` when no skill has this tool.
pub(crate) async fn run_request_for(
    skills: &dyn SkillProvider,
    tool: &str,
    arguments: Option<&JsonObject>,
) -> Result<Option<SkillRunRequest>, ProviderError> {
    let mut runnable = list_runnable(skills).await?.into_iter();
    let Some(skill) = runnable.find(|skill| tool_name(&skill.name) == tool) else {
        return Ok(None);
    };
    let arguments = arguments.cloned().unwrap_or_default();
    let input = match own_object_schema(&skill) {
        Some(_) => Value::Object(arguments),
        None => arguments.get("input").cloned().unwrap_or(Value::Null),
    };
    Ok(Some(SkillRunRequest {
        skill: skill.name,
        input: Some(input),
        ..SkillRunRequest::default()
    }))
}

async fn list_runnable(skills: &dyn SkillProvider) -> Result<Vec<SkillOverview>, ProviderError> {
    let (mut runnable, mut cursor) = (Vec::new(), None::<String>);
    loop {
        let page = skills.list(cursor.as_deref()).await?;
        runnable.extend(page.skills.into_iter().filter(|skill| skill.entrypoint.is_some()));
        cursor = page.next;
        if cursor.is_none() || runnable.len() >= MAX_SKILL_TOOLS {
            runnable.truncate(MAX_SKILL_TOOLS);
            return Ok(runnable);
        }
    }
}

fn tool_name(skill: &str) -> String {
    let allowed = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
    "skillbox_".chars().chain(skill.chars().map(allowed)).take(MAX_TOOL_NAME_CHARS).collect()
}

/// The skill's own schema, when it describes an object: the arguments of a tool are always an
/// object, so only then can they be the input document.
fn own_object_schema(skill: &SkillOverview) -> Option<JsonObject> {
    match &skill.input_schema {
        None => Some(object(json!({ "type": "object" }))),
        Some(Value::Object(schema)) if schema.get("type") == Some(&json!("object")) => {
            Some(schema.clone())
        }
        Some(_) => None,
    }
}

/// The schema for input documents that are not objects: they arrive in the argument `input`.
fn wrapper_schema() -> JsonObject {
    object(json!({
        "type": "object",
        "properties": { "input": { "description": "The skill's input document." } },
        "required": ["input"],
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn skill(input_schema: Option<Value>) -> SkillOverview {
        SkillOverview {
            name: "a".into(),
            version: "1.0.0".into(),
            description: "d".into(),
            entrypoint: Some("main.py".to_owned()),
            input_schema,
        }
    }

    #[test]
    fn tool_names_have_only_characters_and_lengths_that_clients_accept() {
        assert_eq!(tool_name("word-count"), "skillbox_word-count");
        assert_eq!(tool_name("A.b_c"), "skillbox_A_b_c");
        assert_eq!(tool_name(&"x".repeat(128)).len(), MAX_TOOL_NAME_CHARS);
    }

    #[test]
    fn only_object_schemas_are_used_unchanged() {
        let own = json!({ "type": "object", "properties": { "n": { "type": "integer" } } });
        let used = own_object_schema(&skill(Some(own.clone())));
        assert_eq!(used.map(Value::Object), Some(own));
        assert!(own_object_schema(&skill(None)).is_some());
        assert!(own_object_schema(&skill(Some(json!({ "type": "array" })))).is_none());
        assert!(own_object_schema(&skill(Some(json!(true)))).is_none());
    }
}
