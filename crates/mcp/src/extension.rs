//! The skills extension, `io.modelcontextprotocol/skills`: whole skills, with the digest of every
//! file, for programs that store them. The SDK has no types for it; its methods arrive as custom
//! requests.

use rmcp::model::JsonObject;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::provider::{LoadedSkill, SkillFileInfo, SkillProvider};
use crate::provider_error::ProviderError;
use crate::uri::{self, ResourceName};

const NAME: &str = "io.modelcontextprotocol/skills";
pub(crate) const LIST_METHOD: &str = "skills/list";
pub(crate) const GET_METHOD: &str = "skills/get";

#[derive(Deserialize, Default)]
#[serde(default)]
struct ListParams {
    cursor: Option<String>,
}

#[derive(Deserialize)]
struct GetParams {
    uri: String,
}

/// Declares the extension without its optional features.
pub(crate) fn capability() -> (String, JsonObject) {
    (NAME.to_owned(), JsonObject::new())
}

/// Every skill of a page with all its files.
pub(crate) async fn list_skills(
    skills: &dyn SkillProvider,
    params: Option<Value>,
) -> Result<Value, ProviderError> {
    let ListParams { cursor } = parse_params(params.unwrap_or_else(|| json!({})))?;
    let page = skills.list(cursor.as_deref()).await?;
    let mut entries = Vec::new();
    for overview in &page.skills {
        match skills.load(&overview.name).await {
            Ok(skill) if violated_rule(&skill).is_none() => entries.push(entry(&skill)),
            // One invalid entry would make a client reject the whole list; the tools still offer
            // the skill.
            Ok(_) => {}
            // Deleted since the page was read.
            Err(ProviderError::SkillNotFound(_)) => {}
            Err(other) => return Err(other),
        }
    }
    let mut result = json!({ "skills": entries });
    if let Some(next) = page.next {
        result["nextCursor"] = next.into();
    }
    Ok(complete(result))
}

/// One skill, named by the URI of its `SKILL.md`.
pub(crate) async fn get_skill(
    skills: &dyn SkillProvider,
    params: Option<Value>,
) -> Result<Value, ProviderError> {
    let GetParams { uri } = parse_params(params.unwrap_or_default())?;
    match uri::parse_uri(&uri) {
        Some(ResourceName::SkillFile { skill, path }) if path == "SKILL.md" => {
            let skill = skills.load(&skill).await?;
            match violated_rule(&skill) {
                None => Ok(complete(json!({ "skill": entry(&skill) }))),
                Some(rule) => Err(ProviderError::InvalidRequest(format!(
                    "The skill violates a rule of the skills extension: {rule}."
                ))),
            }
        }
        _ => Err(ProviderError::InvalidRequest(format!(
            "`{uri}` is not the URI of a skill's SKILL.md."
        ))),
    }
}

fn parse_params<T: serde::de::DeserializeOwned>(params: Value) -> Result<T, ProviderError> {
    serde_json::from_value(params).map_err(|error| {
        ProviderError::InvalidRequest(format!("The parameters are invalid: {error}."))
    })
}

/// Marks a result as complete and not cacheable by others: skills change with every publish, and
/// each caller sees its own.
fn complete(mut result: Value) -> Value {
    result["resultType"] = "complete".into();
    result["ttlMs"] = 0.into();
    result["cacheScope"] = "private".into();
    result
}

/// The first rule of the extension, beyond our own format, that the skill violates.
fn violated_rule(skill: &LoadedSkill) -> Option<&'static str> {
    let fields = &skill.frontmatter;
    let length = |name: &str| {
        fields.get(name).and_then(Value::as_str).map_or(0, |text| text.chars().count())
    };
    let is_string_map =
        |value: &Value| value.as_object().is_some_and(|map| map.values().all(Value::is_string));
    let name = fields.get("name").and_then(Value::as_str).unwrap_or_default();
    let rules = [
        (
            name == skill.manifest.name && is_extension_name(name),
            "name: 1 to 64 lower-case letters, digits and single hyphens",
        ),
        ((1..=1024).contains(&length("description")), "description: 1 to 1024 characters"),
        (
            !fields.contains_key("compatibility") || (1..=500).contains(&length("compatibility")),
            "compatibility: 1 to 500 characters",
        ),
        (fields.get("metadata").is_none_or(is_string_map), "metadata: a map of strings"),
        (!fields.contains_key("__proto__"), "no field __proto__"),
    ];
    rules.into_iter().find_map(|(holds, rule)| (!holds).then_some(rule))
}

fn is_extension_name(name: &str) -> bool {
    let part = |part: &str| {
        !part.is_empty() && part.bytes().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit())
    };
    name.len() <= 64 && name.split('-').all(part)
}

fn entry(skill: &LoadedSkill) -> Value {
    let name = &skill.manifest.name;
    let skill_md = skill.skill_md().map(|file| file.path.as_str());
    let resource = |file: &SkillFileInfo| {
        // The extension requires exactly this case.
        let path = if skill_md == Some(file.path.as_str()) { "SKILL.md" } else { &file.path };
        json!({
            "uri": uri::skill_file_uri(name, path),
            "digest": format!("sha256:{}", file.sha256),
            "size": file.size,
        })
    };
    json!({
        "uri": uri::skill_file_uri(name, "SKILL.md"),
        "frontmatter": skill.frontmatter,
        "resources": skill.files.iter().map(resource).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use data_encoding::HEXLOWER;
    use sha2::{Digest, Sha256};

    use super::*;

    fn skill(frontmatter: &str) -> LoadedSkill {
        let text = format!("---\n{frontmatter}---\nDo it.\n");
        let parts = vec![
            ("SKILL.md".to_owned(), text.into_bytes()),
            ("run.sh".to_owned(), b"true\n".to_vec()),
        ];
        skill::read_parts(parts, &skill::PackageLimits::default()).expect("a skill").into()
    }

    #[test]
    fn an_entry_has_the_digest_of_every_file() {
        let entry = entry(&skill("name: a\ndescription: d\n"));
        assert_eq!(entry["uri"], "skill://a/SKILL.md");
        let script = &entry["resources"][1];
        assert_eq!((&script["uri"], &script["size"]), (&json!("skill://a/run.sh"), &json!(5)));
        let digest = format!("sha256:{}", HEXLOWER.encode(&Sha256::digest(b"true\n")));
        assert_eq!(script["digest"], digest);
    }

    #[test]
    fn violated_rules_are_named() {
        assert_eq!(
            violated_rule(&skill(
                "name: a-1\ndescription: d\nmetadata: {a: b}\ncompatibility: all\n"
            )),
            None
        );
        for (frontmatter, field) in [
            ("name: Odd_Name.v2\ndescription: d\n", "name"),
            ("name: a\ndescription: d\nmetadata: {tags: [a]}\n", "metadata"),
            ("name: a\ndescription: d\n__proto__: x\n", "no field"),
        ] {
            assert!(
                violated_rule(&skill(frontmatter)).is_some_and(|rule| rule.starts_with(field)),
                "{frontmatter}"
            );
        }
    }
}
