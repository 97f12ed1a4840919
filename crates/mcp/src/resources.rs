//! The files of skills and of runs as resources. A list has one resource a skill, its `SKILL.md`;
//! the others are named by `load_skill`, by the skills extension, by the results of runs and by the
//! templates.

use data_encoding::BASE64;
use rmcp::model::{
    ListResourceTemplatesResult, ListResourcesResult, ReadResourceResult, Resource,
    ResourceContents, ResourceTemplate,
};

use crate::skills::{Page, Refusal, Skills};
use crate::uri::{self, Named};

/// What clients of the skills extension must at least take of a whole skill.
const MAX_READ_BYTES: usize = 16 << 20;

pub fn list(page: Page) -> ListResourcesResult {
    let resource = |listed: crate::Listed| {
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
pub async fn read(skills: &dyn Skills, uri: &str) -> Result<Option<ReadResourceResult>, Refusal> {
    let contents = match uri::parse(uri) {
        None => return Ok(None),
        Some(Named::SkillFile { skill: name, path }) => {
            let found = match skills.file(&name, &path, MAX_READ_BYTES).await {
                // It is listed under the name that it should have.
                Err(Refusal::NoFile { .. }) if path == "SKILL.md" => {
                    let skill = skills.load(&name).await?;
                    let spelled = skill
                        .skill_md()
                        .ok_or(Refusal::NoFile { skill: name.clone(), path: path.clone() })?;
                    skills.file(&name, &spelled.path, MAX_READ_BYTES).await?
                }
                found => found?,
            };
            contents(uri, &path, found.content_type, &found.bytes, MAX_READ_BYTES)?
        }
        Some(Named::Artifact { execution, name }) => {
            let found = skills.artifact(&execution, &name, MAX_READ_BYTES).await?;
            contents(uri, &name, found.content_type, &found.bytes, MAX_READ_BYTES)?
        }
    };
    Ok(Some(ReadResourceResult::new(vec![contents])))
}

/// A file as text when it is text, and never more than `most` bytes of it.
pub fn contents(
    uri: &str,
    path: &str,
    content_type: Option<String>,
    bytes: &[u8],
    most: usize,
) -> Result<ResourceContents, Refusal> {
    if bytes.len() > most {
        return Err(Refusal::TooLong { size: bytes.len() as u64, most });
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
