//! `/v1/executions/{id}/files`: the artifacts of an execution.

use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use tokio_util::io::ReaderStream;

use super::executions::find;
use super::file_view::{FileView, key_of};
use crate::app::SharedApp;
use crate::auth::{Allowed, Read};
use crate::error::ApiError;
use crate::http::download::attachment;
use crate::http::extract::{self, Path};
use crate::http::links::DownloadLinks;
use crate::routes::openapi::Binary;

/// List an execution's files
#[utoipa::path(
    get, path = "/v1/executions/{id}/files", tag = "executions", operation_id = "list_execution_files",
    params(("id" = String, Path, format = "uuid")),
    responses((status = 200, body = Vec<FileView>))
)]
pub(crate) async fn list(
    caller: Allowed<Read>,
    State(app): State<SharedApp>,
    links: DownloadLinks,
    Path(id): Path<String>,
) -> Result<axum::Json<Vec<FileView>>, ApiError> {
    let execution = find(&app, &caller, extract::parse_id("Execution", &id)?).await?;
    let rows = app.store.list_execution_files(&caller.tenant, execution.id).await?;
    let files: Result<_, _> = rows.into_iter().map(|row| FileView::new(row, &links)).collect();
    Ok(axum::Json(files?))
}

/// Download one file of an execution
#[utoipa::path(
    get, path = "/v1/executions/{id}/files/{*path}", tag = "executions", operation_id = "download_execution_file",
    params(("id" = String, Path, format = "uuid"), ("path" = String, Path, description = "The file's `name`")),
    responses((status = 200, body = inline(Binary), content_type = "application/octet-stream"))
)]
pub(crate) async fn get(
    caller: Allowed<Read>,
    State(app): State<SharedApp>,
    Path((id, path)): Path<(String, String)>,
) -> Result<Response, ApiError> {
    let execution = find(&app, &caller, extract::parse_id("Execution", &id)?).await?;
    let row = app.store.get_execution_file(&caller.tenant, execution.id, &path).await?;
    let not_found = || ApiError::not_found("File", &path);
    let row = row.ok_or_else(not_found)?;
    let blob = app.blobs.open(&key_of(&row)?).await?.ok_or_else(not_found)?;
    let body = Body::from_stream(ReaderStream::new(blob.stream));
    Ok(attachment(&row.name, &row.content_type, blob.size, body))
}
