//! The files of skills and runs as resources. The list has one resource for each skill, its
//! `SKILL.md`; the URIs of other files come from `load_skill`, the skills extension, the results of
//! runs and the templates.

use data_encoding::BASE64;
use rmcp::model::{
    ListResourceTemplatesResult, ListResourcesResult, ReadResourceResult, Resource,
    ResourceContents, ResourceTemplate,
};

use crate::provider::{FileContents, SkillOverview, SkillPage, SkillProvider};
use crate::provider_error::ProviderError;
use crate::uri::{self, ResourceName};

/// The size of a whole skill that clients of the skills extension must support.
const MAX_READ_BYTES: usize = 16 << 20;

pub(crate) fn resource_list(page: SkillPage) -> ListResourcesResult {
    let resource = |skill: SkillOverview| {
        Resource::new(uri::skill_file_uri(&skill.name, "SKILL.md"), skill.name)
            .with_description(skill.description)
            .with_mime_type("text/markdown")
    };
    let mut result =
        ListResourcesResult::with_all_items(page.skills.into_iter().map(resource).collect());
    result.next_cursor = page.next;
    result
}

pub(crate) fn resource_templates() -> ListResourceTemplatesResult {
    let file = |uri: &str, name: &str, description: &str| {
        ResourceTemplate::new(uri, name).with_description(description)
    };
    ListResourceTemplatesResult::with_all_items(vec![
        file("skill://{skill}/{+path}", "skill-file", "A file of a skill."),
        file("execution://{id}/{+name}", "execution-file", "A file that a run wrote."),
    ])
}

/// `None` when the URI has another scheme or form.
pub(crate) async fn read_resource(
    skills: &dyn SkillProvider,
    uri: &str,
) -> Result<Option<ReadResourceResult>, ProviderError> {
    let contents = match uri::parse_uri(uri) {
        None => return Ok(None),
        Some(ResourceName::SkillFile { skill, path }) => {
            let file = read_skill_file(skills, &skill, &path).await?;
            resource_contents(uri, &path, file, MAX_READ_BYTES)?
        }
        Some(ResourceName::Artifact { execution, name }) => {
            let file = skills.read_artifact(&execution, &name, MAX_READ_BYTES).await?;
            resource_contents(uri, &name, file, MAX_READ_BYTES)?
        }
    };
    Ok(Some(ReadResourceResult::new(vec![contents])))
}

async fn read_skill_file(
    skills: &dyn SkillProvider,
    skill: &str,
    path: &str,
) -> Result<FileContents, ProviderError> {
    match skills.read_file(skill, path, MAX_READ_BYTES).await {
        // Lists name the file `SKILL.md` whatever the case of its real name, so that clients of the
        // skills extension find it.
        Err(not_found @ ProviderError::FileNotFound { .. }) if path == "SKILL.md" => {
            let loaded = skills.load(skill).await?;
            let Some(file) = loaded.skill_md() else { return Err(not_found) };
            skills.read_file(skill, &file.path, MAX_READ_BYTES).await
        }
        result => result,
    }
}

/// A file as text when it is UTF-8 and as base64 otherwise. Fails when it has more than
/// `max_bytes`, whatever the provider checked.
pub(crate) fn resource_contents(
    uri: &str,
    path: &str,
    file: FileContents,
    max_bytes: usize,
) -> Result<ResourceContents, ProviderError> {
    let FileContents { bytes, content_type } = file;
    if bytes.len() > max_bytes {
        return Err(ProviderError::TooLarge { size: bytes.len() as u64, max_bytes });
    }
    let mime = |default| content_type.unwrap_or_else(|| mime_type(path, default).to_owned());
    Ok(match std::str::from_utf8(&bytes) {
        Ok(text) => ResourceContents::text(text, uri).with_mime_type(mime("text/plain")),
        Err(_) => ResourceContents::blob(BASE64.encode(&bytes), uri)
            .with_mime_type(mime("application/octet-stream")),
    })
}

fn mime_type(path: &str, default: &'static str) -> &'static str {
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
        _ => default,
    }
}
