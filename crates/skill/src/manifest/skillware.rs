//! Skillware directories: `manifest.yaml` with the parameters, `skill.py` with a class that has
//! `execute`.
//!
//! They have no `SKILL.md`. Their names are paths; the last component is used as the name.

use serde_json::{Map, Value, json};

use super::fields::{Located, YamlFields};
use super::settings::{ManifestSettings, read_version};
use super::{ManifestParts, Origin, YamlDocument, values};
use crate::error::printable;
use crate::finding::{Diagnostics, Finding};

/// Keys for readers and for its own runtime. They are kept without effect.
const IGNORED_KEYS: [&str; 9] = [
    "short_description", "issuer", "category", "outputs", "presentation", "constitution",
    "env_vars", "requirements", "tags",
];
/// The ones among them that its own runtime implements, and what to do here instead.
const UNSUPPORTED_KEYS: [(&str, &str); 2] = [
    (
        "requirements",
        "are not installed here; use an image that has them, or ship them with the skill",
    ),
    ("env_vars", "are not looked up here; the caller passes them in `env`"),
];

/// Whether this is the code of such a skill. A cheap textual check; the class itself is looked up
/// at run time.
pub(crate) fn defines_execute(code: &[u8]) -> bool {
    let lines = code.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii_start);
    let starts = |line: &[u8]| {
        [&b"def execute("[..], b"async def execute(", b"async def aexecute("]
            .iter()
            .any(|start| line.starts_with(start))
    };
    lines.into_iter().any(starts)
}

pub(super) fn read<'a>(
    document: YamlDocument<'a>,
    instructions: &str,
    diagnostics: &mut Diagnostics,
) -> ManifestParts<'a> {
    let path = document.document.path;
    let mut fields = YamlFields::new(document.document, document.root, diagnostics);
    let origin = Origin { path, lines: fields.lines(), ..Origin::default() };
    let mut full_name = None;
    let last_part = |text: &str| {
        full_name = Some(text.to_owned());
        values::name(text.trim().rsplit('/').next().unwrap_or_default())
    };
    let name = fields.required("name", "name_missing", last_part, diagnostics);
    if let Some(full) = full_name.filter(|full| *full != name && !name.is_empty()) {
        let message = format!(
            "the name `{}` cannot be used here, so the skill is called `{name}`; call it that",
            printable(&full)
        );
        diagnostics.lints.push(origin.at(Finding::from_rule("name_adapted", message), "name"));
    }
    let description = fields.required(
        "description",
        "description_missing",
        |text| Ok(text.trim().to_owned()),
        diagnostics,
    );
    let settings = ManifestSettings {
        version: read_version(&mut fields, diagnostics),
        input_schema: parameters(&mut fields, diagnostics),
        ..ManifestSettings::default()
    };
    let mut metadata = Map::new();
    for key in IGNORED_KEYS {
        if let Some(node) = fields.take(key) {
            diagnostics
                .lints
                .extend(ignored(key, &node.to_text()).map(|finding| origin.at(finding, key)));
            metadata.insert(key.to_owned(), node.to_text());
        }
    }
    let message = "other runtimes read SKILL.md only; add one beside `manifest.yaml`";
    diagnostics.lints.push(Finding::from_rule("skill_file_foreign", message).at(path, 1));
    if instructions.is_empty() {
        let message =
            "there are no instructions; say in `instructions.md` when and how to use the skill";
        diagnostics.lints.push(Finding::from_rule("no_instructions", message).at(path, 1));
    }
    ManifestParts {
        origin,
        name,
        description,
        metadata,
        instructions: instructions.to_owned(),
        settings: vec![settings],
        unknown: fields.report_unknown(diagnostics),
        ..ManifestParts::default()
    }
}

/// A finding about an unsupported key, with the names that it lists.
fn ignored(key: &str, value: &Value) -> Option<Finding> {
    let (_, instead) = UNSUPPORTED_KEYS.iter().find(|(acted_upon, _)| *acted_upon == key)?;
    let names = names(value);
    let message = format!("`{key}` ({}) {instead}", printable(&names.join(", ")));
    (!names.is_empty()).then(|| Finding::from_rule("setting_ignored", message))
}

/// The names in a list of texts or of mappings with a `name`, or the keys of a mapping.
fn names(value: &Value) -> Vec<&str> {
    match value {
        Value::String(text) => {
            Some(text.as_str()).filter(|text| !text.is_empty()).into_iter().collect()
        }
        Value::Array(items) => items
            .iter()
            .flat_map(|item| item.get("name").map_or_else(|| names(item), names))
            .collect(),
        Value::Object(map) => map.keys().map(String::as_str).collect(),
        _ => Vec::new(),
    }
}

/// The input schema: `parameters` is a schema or a mapping of names to schemas. Older skills call
/// it `inputs`.
fn parameters<'a>(
    fields: &mut YamlFields<'a>,
    diagnostics: &mut Diagnostics,
) -> Option<Located<'a, Value>> {
    let parameters = fields.schema("parameters", diagnostics);
    let inputs = fields.schema("inputs", diagnostics);
    let Located { value, path, key, line } = parameters.or(inputs)?;
    let value = match value {
        Value::Object(map) if !is_schema(&map) => schema_of(map),
        schema => schema,
    };
    Some(Located { value, path, key, line })
}

fn is_schema(map: &Map<String, Value>) -> bool {
    map.get("type").is_some_and(Value::is_string)
        || ["properties", "$ref", "allOf", "anyOf", "oneOf"]
            .iter()
            .any(|key| map.contains_key(*key))
}

/// The schema of an object with these properties, each of which has its own `required` flag.
fn schema_of(mut properties: Map<String, Value>) -> Value {
    let mut required = Vec::new();
    for (name, property) in &mut properties {
        let flag = property
            .as_object_mut()
            .filter(|property| property.get("required").is_some_and(Value::is_boolean));
        if flag.and_then(|property| property.remove("required")) == Some(Value::Bool(true)) {
            required.push(Value::String(name.clone()));
        }
    }
    json!({"type": "object", "properties": properties, "required": required})
}
