//! The tools and their schemas: four that work on every skill, and on request one for each skill.

use std::borrow::Cow;
use std::sync::Arc;

use rmcp::model::{JsonObject, Tool, ToolAnnotations};
use serde_json::{Value, json};

use crate::skills::{ProviderError, SkillOverview, SkillProvider, SkillRunRequest};

/// No model can choose among more.
const MAX_SKILL_TOOLS: usize = 100;
/// What most clients and models take as a tool's name.
const MAX_NAME: usize = 64;

/// The tools for every skill.
pub fn general() -> Vec<Tool> {
    vec![
        tool(
            "list_skills",
            "List the skills that can be used: names, versions and what each is for.",
            json!({ "cursor": text("Where the next page begins, from an earlier answer.") }),
            &[],
        )
        .with_annotations(reading()),
        tool(
            "load_skill",
            "Read a skill's instructions, and the list of its files and of its scripts. Do this before using a skill.",
            json!({ "skill": text("The skill's name.") }),
            &["skill"],
        )
        .with_annotations(reading()),
        tool(
            "read_skill_resource",
            "Read one file of a skill, such as a reference that its instructions mention.",
            json!({
                "skill": text("The skill's name."),
                "path": text("The file's path inside the skill, such as references/format.md."),
            }),
            &["skill", "path"],
        )
        .with_annotations(reading()),
        run_tool().with_annotations(running()),
    ]
}

fn run_tool() -> Tool {
    tool(
        "run_skill_script",
        "Run a script of a skill in a sandbox that is used once, and get its output, exit code and files. Without \
         `script` the skill's own entrypoint runs on `input`.",
        json!({
            "skill": text("The skill's name."),
            "version": text("A version of it; the newest when absent."),
            "script": text("The path of a script inside the skill, such as scripts/report.py."),
            "args": { "type": "array", "items": { "type": "string" }, "description": "Arguments of the script." },
            "stdin": text("What the script reads on standard input."),
            "input": { "description": "The input document for the entrypoint: any JSON." },
            "env": {
                "type": "object", "additionalProperties": { "type": "string" },
                "description": "Environment variables for the script.",
            },
            "timeout": text("A time limit such as 30s; it can only tighten the skill's own."),
        }),
        &["skill"],
    )
}

fn text(description: &str) -> Value {
    json!({ "type": "string", "description": description })
}

fn tool(
    name: &'static str,
    description: &'static str,
    properties: Value,
    required: &[&str],
) -> Tool {
    let schema = json!({
        "type": "object", "properties": properties, "required": required, "additionalProperties": false,
    });
    Tool::new(name, description, object(schema))
}

fn reading() -> ToolAnnotations {
    ToolAnnotations::new().read_only(true).idempotent(true).open_world(false)
}

/// A sandbox has nothing to destroy and no network; the person who opens one is asked elsewhere.
fn running() -> ToolAnnotations {
    ToolAnnotations::new().read_only(false).destructive(false).idempotent(false).open_world(false)
}

/// One tool for each skill that has something to run, in the order of their names.
pub async fn of_skills(skills: &dyn SkillProvider) -> Result<Vec<Tool>, ProviderError> {
    let mut tools: Vec<Tool> = Vec::new();
    for listed in runnable(skills).await? {
        let name = name_of(&listed.name);
        // Of two skills that would be called the same, the first has the name.
        if !tools.iter().any(|tool| tool.name == name) {
            let schema = schema_of(&listed).unwrap_or_else(wrapped_schema);
            let tool =
                Tool::new(Cow::Owned(name), Cow::Owned(listed.description), Arc::new(schema));
            tools.push(tool.with_annotations(running()));
        }
    }
    Ok(tools)
}

/// The run that a call of a skill's own tool means; `None` when no skill has a tool of this name.
pub async fn run_of(
    skills: &dyn SkillProvider,
    name: &str,
    arguments: Option<&JsonObject>,
) -> Result<Option<SkillRunRequest>, ProviderError> {
    let listed = runnable(skills).await?.into_iter().find(|listed| name_of(&listed.name) == name);
    let Some(listed) = listed else { return Ok(None) };
    let arguments = arguments.cloned().unwrap_or_default();
    let input = match schema_of(&listed) {
        Some(_) => Value::Object(arguments),
        None => arguments.get("input").cloned().unwrap_or(Value::Null),
    };
    Ok(Some(SkillRunRequest {
        skill: listed.name,
        input: Some(input),
        ..SkillRunRequest::default()
    }))
}

async fn runnable(skills: &dyn SkillProvider) -> Result<Vec<SkillOverview>, ProviderError> {
    let (mut found, mut cursor) = (Vec::new(), None::<String>);
    loop {
        let page = skills.list(cursor.as_deref()).await?;
        found.extend(page.skills.into_iter().filter(|listed| listed.entrypoint.is_some()));
        cursor = page.next;
        if cursor.is_none() || found.len() >= MAX_SKILL_TOOLS {
            found.truncate(MAX_SKILL_TOOLS);
            return Ok(found);
        }
    }
}

fn name_of(skill: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
    "skillbox_".chars().chain(skill.chars().map(plain)).take(MAX_NAME).collect()
}

/// The skill's own schema when arguments can be its input as they are: tools take objects only.
fn schema_of(listed: &SkillOverview) -> Option<JsonObject> {
    match &listed.input_schema {
        None => Some(object(json!({ "type": "object" }))),
        Some(Value::Object(schema)) if schema.get("type") == Some(&json!("object")) => {
            Some(schema.clone())
        }
        Some(_) => None,
    }
}

fn wrapped_schema() -> JsonObject {
    object(json!({
        "type": "object",
        "properties": { "input": { "description": "The skill's input document." } },
        "required": ["input"],
    }))
}

fn object(value: Value) -> JsonObject {
    match value {
        Value::Object(object) => object,
        _ => JsonObject::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(input_schema: Option<Value>) -> SkillOverview {
        let entrypoint = Some("main.py".to_owned());
        SkillOverview {
            name: "a".into(),
            version: "1.0.0".into(),
            description: "d".into(),
            entrypoint,
            input_schema,
        }
    }

    #[test]
    fn names_fit_what_clients_take() {
        assert_eq!(name_of("word-count"), "skillbox_word-count");
        assert_eq!(name_of("A.b_c"), "skillbox_A_b_c");
        assert_eq!(name_of(&"x".repeat(128)).len(), MAX_NAME);
    }

    #[test]
    fn only_objects_are_arguments_as_they_are() {
        let own = json!({ "type": "object", "properties": { "n": { "type": "integer" } } });
        assert_eq!(schema_of(&listed(Some(own.clone()))).map(Value::Object), Some(own));
        assert!(schema_of(&listed(None)).is_some());
        assert!(schema_of(&listed(Some(json!({ "type": "array" })))).is_none());
        assert!(schema_of(&listed(Some(json!(true)))).is_none());
    }
}
