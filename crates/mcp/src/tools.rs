//! The four general tools, which work on every skill, and their schemas.

use rmcp::model::{JsonObject, Tool, ToolAnnotations};
use serde_json::{Value, json};

pub(crate) fn general_tools() -> Vec<Tool> {
    vec![
        tool(
            "list_skills",
            "List the available skills: names, versions and descriptions.",
            json!({ "cursor": string("The cursor of the next page, from an earlier answer.") }),
            &[],
        )
        .with_annotations(read_annotations()),
        tool(
            "load_skill",
            "Read a skill's instructions, and the list of its files and of its scripts. Do this before using a skill.",
            json!({ "skill": string("The skill's name.") }),
            &["skill"],
        )
        .with_annotations(read_annotations()),
        tool(
            "read_skill_resource",
            "Read one file of a skill, such as a reference that its instructions mention.",
            json!({
                "skill": string("The skill's name."),
                "path": string("The file's path inside the skill, such as references/format.md."),
            }),
            &["skill", "path"],
        )
        .with_annotations(read_annotations()),
        run_tool().with_annotations(run_annotations()),
    ]
}

fn run_tool() -> Tool {
    tool(
        "run_skill_script",
        "Run a script of a skill in a sandbox that is used once, and get its output, exit code and files. Without \
         `script` the skill's own entrypoint runs on `input`.",
        json!({
            "skill": string("The skill's name."),
            "version": string("The skill's version; the newest when absent."),
            "script": string("The path of a script inside the skill, such as scripts/report.py."),
            "args": { "type": "array", "items": { "type": "string" }, "description": "Arguments of the script." },
            "stdin": string("The script's standard input."),
            "input": { "description": "The input document for the entrypoint: any JSON." },
            "env": {
                "type": "object", "additionalProperties": { "type": "string" },
                "description": "Environment variables for the script.",
            },
            "timeout": string("A timeout such as 30s; it can only lower the skill's own."),
        }),
        &["skill"],
    )
}

fn string(description: &str) -> Value {
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

fn read_annotations() -> ToolAnnotations {
    ToolAnnotations::new().read_only(true).idempotent(true).open_world(false)
}

/// A sandbox has nothing to destroy and no network. Opening the network is the decision of the
/// person who starts the server, so a client need not confirm it.
pub(crate) fn run_annotations() -> ToolAnnotations {
    ToolAnnotations::new().read_only(false).destructive(false).idempotent(false).open_world(false)
}

pub(crate) fn object(value: Value) -> JsonObject {
    match value {
        Value::Object(object) => object,
        _ => JsonObject::new(),
    }
}
