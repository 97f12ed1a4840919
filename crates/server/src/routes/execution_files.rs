//! `/v1/executions/{id}/files`: what a run left behind.

use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use serde::Serialize;
use store::FileRow;
use tokio_util::io::ReaderStream;
use utoipa::ToSchema;

use super::executions::find;
use crate::app::Shared;
use crate::auth::{Allowed, Read};
use crate::download::attachment;
use crate::error::ApiError;
use crate::extract::{self, Path};
use crate::links::Links;
use crate::openapi::Binary;
use crate::time::rfc3339;

/// One artifact.
#[derive(Serialize, ToSchema)]
pub struct ExecutionFile {
    #[schema(format = "uuid")]
    id: String,
    tenant_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    session_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(format = "uuid")]
    execution_id: Option<String>,
    /// Its path, relative to the files directory.
    #[schema(example = "charts/revenue.svg")]
    name: String,
    content_type: String,
    size_bytes: i64,
    version: i32,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(format = "uuid")]
    parent_id: Option<String>,
    #[schema(format = "date-time")]
    created_at: String,
    #[schema(format = "date-time")]
    updated_at: String,
    sha256: String,
    /// Needs no key and expires.
    #[serde(skip_serializing_if = "Option::is_none")]
    url: Option<String>,
}

impl ExecutionFile {
    pub fn new(row: FileRow, links: &Links) -> ExecutionFile {
        let key = row.execution_id.map(|id| blobs::Key::artifact(row.tenant.as_str(), id, &row.name));
        let url = key.map(|key| links.url(key, &row.name, &row.content_type));
        ExecutionFile {
            id: row.id.to_string(),
            tenant_id: row.tenant.to_string(),
            session_id: row.session_id,
            execution_id: row.execution_id.map(|id| id.to_string()),
            name: row.name,
            content_type: row.content_type,
            size_bytes: row.size_bytes,
            version: row.version,
            parent_id: row.parent_id.map(|id| id.to_string()),
            created_at: rfc3339(row.created_at),
            updated_at: rfc3339(row.updated_at),
            sha256: row.sha256,
            url,
        }
    }
}

/// List an execution's files
#[utoipa::path(
    get, path = "/v1/executions/{id}/files", tag = "executions", operation_id = "list_execution_files",
    params(("id" = String, Path, format = "uuid")),
    responses((status = 200, body = Vec<ExecutionFile>))
)]
pub async fn list(
    caller: Allowed<Read>,
    State(app): State<Shared>,
    links: Links,
    Path(id): Path<String>,
) -> Result<axum::Json<Vec<ExecutionFile>>, ApiError> {
    let execution = find(&app, &caller, extract::id(&id)?).await?;
    let rows = app.store.list_execution_files(&caller.tenant, execution.id).await?;
    Ok(axum::Json(rows.into_iter().map(|row| ExecutionFile::new(row, &links)).collect()))
}

/// Download one file of an execution
#[utoipa::path(
    get, path = "/v1/executions/{id}/files/{*path}", tag = "executions", operation_id = "download_execution_file",
    params(("id" = String, Path, format = "uuid"), ("path" = String, Path, description = "The file's `name`")),
    responses((status = 200, body = inline(Binary), content_type = "application/octet-stream"))
)]
pub async fn get(
    caller: Allowed<Read>,
    State(app): State<Shared>,
    Path((id, path)): Path<(String, String)>,
) -> Result<Response, ApiError> {
    let execution = find(&app, &caller, extract::id(&id)?).await?;
    let row = app.store.get_execution_file(&caller.tenant, execution.id, &path).await?;
    let row = row.ok_or_else(ApiError::not_found)?;
    let key = blobs::Key::artifact(caller.tenant.as_str(), execution.id, &row.name);
    let blob = app.blobs.open(&key).await?.ok_or_else(ApiError::not_found)?;
    let body = Body::from_stream(ReaderStream::new(blob.stream));
    Ok(attachment(&row.name, &row.content_type, blob.size, body))
}
