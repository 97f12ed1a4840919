//! The files of skills and of runs as resources. A list has one resource a skill, its `SKILL.md`;
//! the others are named by `load_skill`, by the skills extension, by the results of runs and by the
//! templates.

use data_encoding::BASE64;
use rmcp::model::{
    ListResourceTemplatesResult, ListResourcesResult, ReadResourceResult, Resource,
    ResourceContents, ResourceTemplate,
};

use crate::skills::{ProviderError, SkillPage, SkillProvider};
use crate::uri::{self, ResourceName};

/// What clients of the skills extension must at least take of a whole skill.
const MAX_READ_BYTES: usize = 16 << 20;

pub fn list(page: SkillPage) -> ListResourcesResult {
    let resource = |listed: crate::SkillOverview| {
        Resource::new(uri::of_skill_file(&listed.name, "SKILL.md"), listed.name)
            .with_description(listed.description)
            .with_mime_type("text/markdown")
    };
    let mut result =
        ListResourcesResult::with_all_items(page.skills.into_iter().map(resource).collect());
    result.next_cursor = page.next;
    result
}

pub fn templates() -> ListResourceTemplatesResult {
    let file = |uri: &str, name: &str, about: &str| {
        ResourceTemplate::new(uri, name).with_description(about)
    };
    ListResourceTemplatesResult::with_all_items(vec![
        file("skill://{skill}/{+path}", "skill-file", "A file of a skill."),
        file("execution://{id}/{+name}", "execution-file", "A file that a run left."),
    ])
}

/// `None` when the URI is not one of ours.
pub async fn read(
    skills: &dyn SkillProvider,
    uri: &str,
) -> Result<Option<ReadResourceResult>, ProviderError> {
    let contents = match uri::parse(uri) {
        None => return Ok(None),
        Some(ResourceName::SkillFile { skill: name, path }) => {
            let found = match skills.read_file(&name, &path, MAX_READ_BYTES).await {
                // It is listed under the name that it should have.
                Err(ProviderError::FileNotFound { .. }) if path == "SKILL.md" => {
                    let skill = skills.load(&name).await?;
                    let spelled = skill.skill_md().ok_or(ProviderError::FileNotFound {
                        skill: name.clone(),
                        path: path.clone(),
                    })?;
                    skills.read_file(&name, &spelled.path, MAX_READ_BYTES).await?
                }
                found => found?,
            };
            contents(uri, &path, found.content_type, &found.bytes, MAX_READ_BYTES)?
        }
        Some(ResourceName::Artifact { execution, name }) => {
            let found = skills.read_artifact(&execution, &name, MAX_READ_BYTES).await?;
            contents(uri, &name, found.content_type, &found.bytes, MAX_READ_BYTES)?
        }
    };
    Ok(Some(ReadResourceResult::new(vec![contents])))
}

/// A file as text when it is text, and never more than `max_bytes` bytes of it.
pub fn contents(
    uri: &str,
    path: &str,
    content_type: Option<String>,
    bytes: &[u8],
    max_bytes: usize,
) -> Result<ResourceContents, ProviderError> {
    if bytes.len() > max_bytes {
        return Err(ProviderError::TooLarge { size: bytes.len() as u64, max_bytes });
    }
    let typed = |otherwise| content_type.unwrap_or_else(|| mime_type(path, otherwise).to_owned());
    Ok(match std::str::from_utf8(bytes) {
        Ok(text) => ResourceContents::text(text, uri).with_mime_type(typed("text/plain")),
        Err(_) => ResourceContents::blob(BASE64.encode(bytes), uri)
            .with_mime_type(typed("application/octet-stream")),
    })
}

fn mime_type(path: &str, otherwise: &'static str) -> &'static str {
    match path.rsplit('.').next().unwrap_or_default().to_ascii_lowercase().as_str() {
        "md" => "text/markdown",
        "json" => "application/json",
        "html" => "text/html",
        "csv" => "text/csv",
        "py" => "text/x-python",
        "js" | "mjs" | "cjs" => "text/javascript",
        "png" => "image/png",
        "jpg" | "jpeg" => "image/jpeg",
        "svg" => "image/svg+xml",
        "pdf" => "application/pdf",
        _ => otherwise,
    }
}
