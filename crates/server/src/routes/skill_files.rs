//! `/v1/skills/{name}/{version}/content` and `/files`: what a skill consists of.

use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use serde::Serialize;
use store::SkillFileRow;
use tokio_util::io::ReaderStream;
use utoipa::ToSchema;

use super::skills::find;
use crate::app::SharedApp;
use crate::auth::{Allowed, Read};
use crate::error::ApiError;
use crate::http::download::attachment;
use crate::http::extract::Path;
use crate::http::permit_body::with_permit;
use crate::routes::openapi::Binary;

/// Download a skill's archive
///
/// The canonical zip, whose SHA-256 is the skill's digest.
#[utoipa::path(
    get, path = "/v1/skills/{name}/{version}/content", tag = "skills", operation_id = "download_skill",
    params(("name" = String, Path), ("version" = String, Path)),
    responses((status = 200, body = inline(Binary), content_type = "application/zip"))
)]
pub(crate) async fn content(
    caller: Allowed<Read>,
    State(app): State<SharedApp>,
    Path((name, version)): Path<(String, String)>,
) -> Result<Response, ApiError> {
    let head = find(&app, &caller, &name, &version).await?;
    let key = blobs::BlobKey::skill(head.tenant.as_str(), &head.digest);
    let blob = app.blobs.open(&key).await?;
    let blob =
        blob.ok_or_else(|| ApiError::internal(format!("the archive {} is missing", head.digest)))?;
    let file_name = format!("{}-{}.zip", head.name, head.version);
    let body = Body::from_stream(ReaderStream::new(blob.stream));
    Ok(attachment(&file_name, "application/zip", blob.size, body))
}

/// A file of a skill.
#[derive(Serialize, ToSchema)]
pub(crate) struct SkillFileEntry {
    path: String,
    size_bytes: u64,
    executable: bool,
}

/// List a skill's files
#[utoipa::path(
    get, path = "/v1/skills/{name}/{version}/files", tag = "skills", operation_id = "list_skill_files",
    params(("name" = String, Path), ("version" = String, Path)),
    responses((status = 200, body = Vec<SkillFileEntry>))
)]
pub(crate) async fn list(
    caller: Allowed<Read>,
    State(app): State<SharedApp>,
    Path((name, version)): Path<(String, String)>,
) -> Result<Response, ApiError> {
    let head = find(&app, &caller, &name, &version).await?;
    let (files, permit) = app.catalogue.list_skill_files(&head).await?.into_parts();
    let entry = |file: SkillFileRow| SkillFileEntry {
        path: file.path,
        size_bytes: file.size_bytes,
        executable: file.executable,
    };
    let files: Vec<_> = files.into_iter().map(entry).collect();
    Ok(with_permit(axum::Json(files), permit))
}

/// Download one file of a skill
#[utoipa::path(
    get, path = "/v1/skills/{name}/{version}/files/{*path}", tag = "skills", operation_id = "download_skill_file",
    params(("name" = String, Path), ("version" = String, Path), ("path" = String, Path)),
    responses((status = 200, body = inline(Binary), content_type = "application/octet-stream"))
)]
pub(crate) async fn get(
    caller: Allowed<Read>,
    State(app): State<SharedApp>,
    Path((name, version, path)): Path<(String, String, String)>,
) -> Result<Response, ApiError> {
    let head = find(&app, &caller, &name, &version).await?;
    let (file, reader) = app
        .catalogue
        .open_skill_file(&head, &path)
        .await?
        .ok_or_else(|| ApiError::not_found("File", &path))?;
    let content_type =
        if file.is_text { "text/plain; charset=utf-8" } else { "application/octet-stream" };
    // Bytes that are not what was published break the connection off before their end.
    let body = Body::from_stream(ReaderStream::new(reader.stream));
    Ok(attachment(&file.path, content_type, reader.size, body))
}
