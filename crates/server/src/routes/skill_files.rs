//! `/v1/skills/{name}/{version}/content` and `/files`: what a skill consists of.

use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use serde::Serialize;
use skill::SkillFile;
use store::SkillRow;
use tokio_util::io::ReaderStream;
use utoipa::ToSchema;

use super::skills::find;
use crate::app::{App, Shared};
use crate::auth::{Allowed, Read};
use crate::download::attachment;
use crate::error::ApiError;
use crate::extract::Path;
use crate::openapi::Binary;

/// Download a skill's archive
///
/// The canonical zip, whose SHA-256 is the skill's digest.
#[utoipa::path(
    get, path = "/v1/skills/{name}/{version}/content", tag = "skills", operation_id = "download_skill",
    params(("name" = String, Path), ("version" = String, Path)),
    responses((status = 200, body = inline(Binary), content_type = "application/zip"))
)]
pub async fn content(
    caller: Allowed<Read>,
    State(app): State<Shared>,
    Path((name, version)): Path<(String, String)>,
) -> Result<Response, ApiError> {
    let row = find(&app, &caller, &name, &version).await?;
    let key = blobs::Key::skill(row.tenant.as_str(), &row.digest);
    let blob = app.blobs.open(&key).await?;
    let blob = blob.ok_or_else(|| ApiError::internal(format!("the archive {} is missing", row.digest)))?;
    let file_name = format!("{}-{}.zip", row.name, row.version);
    let body = Body::from_stream(ReaderStream::new(blob.stream));
    Ok(attachment(&file_name, "application/zip", blob.size, body))
}

/// A file of a skill.
#[derive(Serialize, ToSchema)]
pub struct SkillFileEntry {
    path: String,
    size_bytes: usize,
    executable: bool,
}

/// List a skill's files
#[utoipa::path(
    get, path = "/v1/skills/{name}/{version}/files", tag = "skills", operation_id = "list_skill_files",
    params(("name" = String, Path), ("version" = String, Path)),
    responses((status = 200, body = Vec<SkillFileEntry>))
)]
pub async fn list(
    caller: Allowed<Read>,
    State(app): State<Shared>,
    Path((name, version)): Path<(String, String)>,
) -> Result<axum::Json<Vec<SkillFileEntry>>, ApiError> {
    let row = find(&app, &caller, &name, &version).await?;
    let files = unpack(&app, &row).await?.into_iter();
    let entry =
        |file: SkillFile| SkillFileEntry { size_bytes: file.bytes.len(), path: file.path, executable: file.executable };
    Ok(axum::Json(files.map(entry).collect()))
}

/// Download one file of a skill
#[utoipa::path(
    get, path = "/v1/skills/{name}/{version}/files/{*path}", tag = "skills", operation_id = "download_skill_file",
    params(("name" = String, Path), ("version" = String, Path), ("path" = String, Path)),
    responses((status = 200, body = inline(Binary), content_type = "application/octet-stream"))
)]
pub async fn get(
    caller: Allowed<Read>,
    State(app): State<Shared>,
    Path((name, version, path)): Path<(String, String, String)>,
) -> Result<Response, ApiError> {
    let row = find(&app, &caller, &name, &version).await?;
    let file = unpack(&app, &row).await?.into_iter().find(|file| file.path == path);
    let file = file.ok_or_else(ApiError::not_found)?;
    let text = std::str::from_utf8(&file.bytes).is_ok();
    let content_type = if text { "text/plain; charset=utf-8" } else { "application/octet-stream" };
    Ok(attachment(&file.path, content_type, file.bytes.len() as u64, Body::from(file.bytes)))
}

/// The files of a stored skill, digest checked, off the async threads.
pub async fn unpack(app: &App, row: &SkillRow) -> Result<Vec<SkillFile>, ApiError> {
    let key = blobs::Key::skill(row.tenant.as_str(), &row.digest);
    let most = u64::try_from(row.size_bytes).unwrap_or(0).max(app.limits.skill_bytes as u64 * 2);
    let archive = app.blobs.get(&key, most).await?;
    let archive = archive.ok_or_else(|| ApiError::internal(format!("the archive {} is missing", row.digest)))?;
    let digest = row.digest.clone();
    let unpacking = tokio::task::spawn_blocking(move || skill::unpack_canonical(&archive, &digest));
    Ok(unpacking.await.map_err(ApiError::internal)??)
}
