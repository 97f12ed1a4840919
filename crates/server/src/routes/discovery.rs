//! What an agent reads first: which skills there are, as an index for programs and as text for a system prompt.

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::header;
use serde::Serialize;
use store::{Page, SkillRow, SkillStatus};
use utoipa::ToSchema;

use crate::app::{App, Shared};
use crate::auth::{Allowed, Caller, Read};
use crate::error::ApiError;
use crate::origin::Origin;

const SCHEMA: &str = "https://schemas.agentskills.io/discovery/0.2.0/schema.json";
const PAGE: i64 = 200;

/// The index of the discovery convention for agent skills.
#[derive(Serialize, ToSchema)]
pub struct SkillIndex {
    #[serde(rename = "$schema")]
    schema: &'static str,
    skills: Vec<SkillEntry>,
}

/// A skill of the index.
#[derive(Serialize, ToSchema)]
pub struct SkillEntry {
    name: String,
    /// Always `archive`: a zip of the whole skill.
    #[serde(rename = "type")]
    kind: &'static str,
    description: String,
    version: String,
    /// Where the zip is, with the same key.
    url: String,
    /// Of the zip's bytes.
    #[schema(example = "sha256:…")]
    digest: String,
}

/// The skills as an index
///
/// By the discovery convention for agent skills; the newest version of each skill that this key may use.
#[utoipa::path(
    get, path = "/.well-known/agent-skills/index.json", tag = "skills", operation_id = "discover_skills",
    responses((status = 200, body = SkillIndex))
)]
pub async fn index(
    caller: Allowed<Read>,
    State(app): State<Shared>,
    origin: Origin,
) -> Result<axum::Json<SkillIndex>, ApiError> {
    let entry = |row: SkillRow| SkillEntry {
        url: format!("{}/v1/skills/{}/{}/content", origin.0, row.name, row.version),
        name: row.name,
        kind: "archive",
        description: row.description,
        version: row.version,
        digest: row.digest,
    };
    let skills = available(&app, &caller).await?.into_iter().map(entry).collect();
    Ok(axum::Json(SkillIndex { schema: SCHEMA, skills }))
}

/// The skills as text for a system prompt
#[utoipa::path(
    get, path = "/v1/skills/prompt", tag = "skills", operation_id = "skills_prompt",
    responses((status = 200, body = String, content_type = "text/plain"))
)]
pub async fn prompt(caller: Allowed<Read>, State(app): State<Shared>, origin: Origin) -> Result<Response, ApiError> {
    let mut text = String::from("<available_skills>\n");
    for row in available(&app, &caller).await? {
        let location = format!("{}/v1/skills/{}/{}/files/SKILL.md", origin.0, row.name, row.version);
        text.push_str(&format!(
            "<skill>\n<name>{}</name>\n<description>{}</description>\n<location>{}</location>\n</skill>\n",
            escaped(&row.name),
            escaped(&row.description),
            escaped(&location)
        ));
    }
    text.push_str("</available_skills>\n");
    Ok(([(header::CONTENT_TYPE, "text/plain; charset=utf-8")], text).into_response())
}

/// The newest version of each skill that the caller may use, by name.
async fn available(app: &App, caller: &Caller) -> Result<Vec<SkillRow>, ApiError> {
    let mut all = Vec::new();
    let mut page = Page::first(PAGE);
    loop {
        let rows = app.store.list_skills(&caller.tenant, &page).await?;
        let Some(last) = rows.last().map(SkillRow::cursor) else { return Ok(all) };
        all.extend(rows.into_iter().filter(|row| row.status == SkillStatus::Available && caller.may_use(&row.name)));
        page = Page::after(last, PAGE);
    }
}

/// A description is a stranger's text: it may not end its element and begin another, nor start a line of its own.
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
