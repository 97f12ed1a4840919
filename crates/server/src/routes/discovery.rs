//! Discovery of skills: an index for programs, and text for a system prompt.

use admission::WithPermit;
use axum::extract::State;
use axum::response::Response;
use http::header;
use serde::Serialize;
use store::{PageRequest, SkillMetadata, SkillStatus};
use utoipa::ToSchema;

use super::skills::page_bytes;
use crate::app::{App, SharedApp};
use crate::auth::{Allowed, Caller, Read};
use crate::error::ApiError;
use crate::http::origin::Origin;
use crate::http::permit_body::with_permit;

const SCHEMA: &str = "https://schemas.agentskills.io/discovery/0.2.0/schema.json";
/// Few, because memory is reserved as if all of them were as long as can be.
const PAGE: i64 = 50;
/// What an entry takes beside its description, as a value and in the answer.
const ENTRY_BYTES: u64 = 2048;

/// The index of the discovery convention for agent skills.
#[derive(Serialize, ToSchema)]
pub(crate) struct SkillIndex {
    #[serde(rename = "$schema")]
    schema: &'static str,
    skills: Vec<SkillEntry>,
}

/// A skill of the index.
#[derive(Serialize, ToSchema)]
pub(crate) struct SkillEntry {
    name: String,
    /// Always `archive`: a zip of the whole skill.
    #[serde(rename = "type")]
    kind: &'static str,
    description: String,
    version: String,
    /// The URL of the zip, for the same key.
    url: String,
    /// The digest of the zip's bytes.
    #[schema(example = "sha256:…")]
    digest: String,
}

/// The skills as an index
///
/// In the format of the discovery convention for agent skills; the newest version of each skill
/// that this key may use.
#[utoipa::path(
    get, path = "/.well-known/agent-skills/index.json", tag = "skills", operation_id = "discover_skills",
    responses((status = 200, body = SkillIndex))
)]
pub(crate) async fn index(
    caller: Allowed<Read>,
    State(app): State<SharedApp>,
    origin: Origin,
) -> Result<Response, ApiError> {
    let entry = |head: SkillMetadata| SkillEntry {
        url: format!("{}/v1/skills/{}/{}/content", origin.0, head.name, head.version),
        name: head.name,
        kind: "archive",
        description: head.description,
        version: head.version,
        digest: head.digest,
    };
    let (skills, permit) = available(&app, &caller, entry).await?.into_parts();
    Ok(with_permit(axum::Json(SkillIndex { schema: SCHEMA, skills }), permit))
}

/// The skills as text for a system prompt
#[utoipa::path(
    get, path = "/v1/skills/prompt", tag = "skills", operation_id = "skills_prompt",
    responses((status = 200, body = String, content_type = "text/plain"))
)]
pub(crate) async fn prompt(
    caller: Allowed<Read>,
    State(app): State<SharedApp>,
    origin: Origin,
) -> Result<Response, ApiError> {
    let entry = |head: SkillMetadata| {
        let location =
            format!("{}/v1/skills/{}/{}/files/SKILL.md", origin.0, head.name, head.version);
        format!(
            "<skill>\n<name>{}</name>\n<description>{}</description>\n<location>{}</location>\n</skill>\n",
            escaped(&head.name),
            escaped(&head.description),
            escaped(&location)
        )
    };
    let (entries, permit) = available(&app, &caller, entry).await?.into_parts();
    let text = format!("<available_skills>\n{}</available_skills>\n", entries.concat());
    Ok(with_permit(([(header::CONTENT_TYPE, "text/plain; charset=utf-8")], text), permit))
}

/// The newest version of each skill that the caller may use, by name. Memory is reserved page by
/// page, before each.
async fn available<T>(
    app: &App,
    caller: &Caller,
    entry: impl Fn(SkillMetadata) -> T,
) -> Result<WithPermit<Vec<T>>, ApiError> {
    let usable =
        |head: &SkillMetadata| head.status == SkillStatus::Available && caller.may_use(&head.name);
    let mut all = Vec::new();
    let mut page = PageRequest::first(PAGE);
    let mut permit = app.memory.reserve(&caller.tenant, 0).await?;
    loop {
        let held = permit.amount();
        app.memory.reserve_more(&mut permit, page_bytes(&page)).await?;
        let heads = app.store.list_skill_metadata(&caller.tenant, &page).await?;
        let Some(last) = heads.last().map(SkillMetadata::cursor) else {
            return Ok(WithPermit::new(all, permit));
        };
        let taken: u64 =
            heads.iter().map(|head| ENTRY_BYTES + 2 * head.description.len() as u64).sum();
        all.extend(heads.into_iter().filter(usable).map(&entry));
        permit.shrink_to(held + taken);
        page = PageRequest::after(last, PAGE);
    }
}

/// Escapes a description for the prompt. It is untrusted text: it must not close its element, open
/// another or start a new line.
fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            c if c.is_control() => safe.push(' '),
            c => safe.push(c),
        }
    }
    safe
}
