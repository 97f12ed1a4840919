//! `/v1/files`: files uploaded for runs, and the artifacts of executions.

use axum::body::Body;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use catalogue::FileMetadata;
use http::StatusCode;
use serde::Deserialize;
use store::{FileFilter, FileRow};
use tokio_util::io::ReaderStream;
use utoipa::{IntoParams, ToSchema};
use uuid::Uuid;

use super::executions;
use super::file_form::{self, FileForm};
use super::file_view::{FileView, key_of};
use crate::app::{App, SharedApp};
use crate::audit::actor;
use crate::auth::{Allowed, Caller, Execute, Read};
use crate::error::ApiError;
use crate::http::download::attachment;
use crate::http::extract::{self, Path, Query};
use crate::http::links::DownloadLinks;
use crate::http::paging::{PageQuery, Paging};
use crate::routes::openapi::Binary;

/// What a message calls the object of these routes.
const FILE: &str = "File";

/// The parts of an upload.
#[derive(ToSchema)]
#[expect(dead_code, reason = "only its schema is used")]
pub(crate) struct FileUpload {
    /// The content of the file.
    #[schema(inline)]
    file: Binary,
    /// The file's name; by default the file name of the part `file`. No slash, backslash or control
    /// character.
    name: Option<String>,
    /// A label of the caller, to filter lists by.
    session_id: Option<String>,
}

/// Upload a file
///
/// For the `input_files` of a run.
#[utoipa::path(
    post, path = "/v1/files", tag = "files", operation_id = "upload_file",
    request_body(content((FileUpload = "multipart/form-data"))),
    responses(
        (status = 201, body = FileView),
        (status = 413, description = "`too_large` or `quota_exceeded`", body = crate::error::ErrorBody),
    )
)]
pub(crate) async fn create(
    caller: Allowed<Execute>,
    State(app): State<SharedApp>,
    links: DownloadLinks,
    request: Request,
) -> Result<Response, ApiError> {
    let FileForm { upload, name, content_type, session_id } =
        file_form::receive(&app, &caller.tenant, request).await?;
    let file = upload.finish(FileMetadata { name, content_type, session_id }).await?;
    Ok((StatusCode::CREATED, axum::Json(FileView::new(file, &links)?)).into_response())
}

/// Which files to list.
#[derive(Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct Filter {
    /// Only files of this session.
    session_id: Option<String>,
    /// Only files of this execution.
    #[param(format = "uuid")]
    execution_id: Option<String>,
}

/// List files
///
/// Newest first; every version is a row.
#[utoipa::path(
    get, path = "/v1/files", tag = "files", operation_id = "list_files", params(Filter, PageQuery),
    responses((status = 200, body = Vec<FileView>, headers(("Link" = String, description = "The next page"))))
)]
pub(crate) async fn list(
    caller: Allowed<Read>,
    State(app): State<SharedApp>,
    links: DownloadLinks,
    Query(filter): Query<Filter>,
    paging: Paging,
) -> Result<Response, ApiError> {
    let execution_id = filter.execution_id.map(|text| Uuid::try_parse(&text));
    let execution_id = execution_id
        .transpose()
        .map_err(|_| ApiError::bad_request("execution_id must be the id of an execution."))?;
    let filter = FileFilter { session_id: filter.session_id, execution_id };
    let rows = app.store.list_files(&caller.tenant, &filter, &paging.page(&caller.tenant)?).await?;
    let mut hidden = Vec::new();
    for row in &rows {
        if !may_see(&app, &caller, row).await? {
            hidden.push(row.id);
        }
    }
    let visible = |row: FileRow| match hidden.contains(&row.id) {
        true => None,
        false => FileView::new(row, &links).ok(),
    };
    Ok(paging.respond(&caller.tenant, rows, FileRow::cursor, visible))
}

/// Read a file's metadata
#[utoipa::path(
    get, path = "/v1/files/{id}", tag = "files", operation_id = "get_file", params(("id" = String, Path, format = "uuid")),
    responses((status = 200, body = FileView))
)]
pub(crate) async fn get(
    caller: Allowed<Read>,
    State(app): State<SharedApp>,
    links: DownloadLinks,
    Path(id): Path<String>,
) -> Result<axum::Json<FileView>, ApiError> {
    Ok(axum::Json(FileView::new(find(&app, &caller, &id).await?, &links)?))
}

/// Download a file
#[utoipa::path(
    get, path = "/v1/files/{id}/download", tag = "files", operation_id = "download_file",
    params(("id" = String, Path, format = "uuid")),
    responses((status = 200, body = inline(Binary), content_type = "application/octet-stream"))
)]
pub(crate) async fn download(
    caller: Allowed<Read>,
    State(app): State<SharedApp>,
    Path(id): Path<String>,
) -> Result<Response, ApiError> {
    let row = find(&app, &caller, &id).await?;
    let blob =
        app.blobs.open(&key_of(&row)?).await?.ok_or_else(|| ApiError::not_found(FILE, &id))?;
    let body = Body::from_stream(ReaderStream::new(blob.stream));
    Ok(attachment(&row.name, &row.content_type, blob.size, body))
}

/// Upload a new version of a file
///
/// It gets a new id and keeps the name; `parent_id` is the first version.
#[utoipa::path(
    put, path = "/v1/files/{id}", tag = "files", operation_id = "update_file", params(("id" = String, Path, format = "uuid")),
    request_body(content((FileUpload = "multipart/form-data"))),
    responses(
        (status = 200, body = FileView),
        (status = 413, description = "`too_large` or `quota_exceeded`", body = crate::error::ErrorBody),
    )
)]
pub(crate) async fn update(
    caller: Allowed<Execute>,
    State(app): State<SharedApp>,
    links: DownloadLinks,
    Path(id): Path<String>,
    request: Request,
) -> Result<axum::Json<FileView>, ApiError> {
    let of = find(&app, &caller, &id).await?;
    let FileForm { upload, content_type, .. } =
        file_form::receive(&app, &caller.tenant, request).await?;
    let file = upload
        .finish_version(&of, content_type)
        .await?
        .ok_or_else(|| ApiError::not_found(FILE, &id))?;
    Ok(axum::Json(FileView::new(file, &links)?))
}

/// List a file's versions
///
/// Newest first. The id may be that of any version.
#[utoipa::path(
    get, path = "/v1/files/{id}/versions", tag = "files", operation_id = "list_file_versions",
    params(("id" = String, Path, format = "uuid")), responses((status = 200, body = Vec<FileView>))
)]
pub(crate) async fn versions(
    caller: Allowed<Read>,
    State(app): State<SharedApp>,
    links: DownloadLinks,
    Path(id): Path<String>,
) -> Result<axum::Json<Vec<FileView>>, ApiError> {
    let file = find(&app, &caller, &id).await?;
    let rows = app.store.list_file_versions(&caller.tenant, file.id).await?;
    let files: Result<_, _> = rows.into_iter().map(|row| FileView::new(row, &links)).collect();
    Ok(axum::Json(files?))
}

/// Delete a file
///
/// Deleting the first version deletes all versions. Deleting an artifact also deletes the archive
/// of all files of its execution.
#[utoipa::path(
    delete, path = "/v1/files/{id}", tag = "files", operation_id = "delete_file", params(("id" = String, Path, format = "uuid")),
    responses((status = 204, description = "Deleted"))
)]
pub(crate) async fn delete(
    caller: Allowed<Execute>,
    State(app): State<SharedApp>,
    Path(id): Path<String>,
) -> Result<StatusCode, ApiError> {
    let file = find(&app, &caller, &id).await?;
    let archive = app.runner.archive_with_copy(&file).await?;
    let actor = actor(&caller);
    let deleted =
        app.catalogue.delete_file(Some(&actor), &caller.tenant, file.id, archive.as_ref()).await?;
    if !deleted {
        return Err(ApiError::not_found(FILE, &id));
    }
    Ok(StatusCode::NO_CONTENT)
}

/// A file that the caller may see. Any other is reported as missing.
async fn find(app: &App, caller: &Caller, id: &str) -> Result<FileRow, ApiError> {
    let row = app
        .store
        .get_file(&caller.tenant, extract::parse_id(FILE, id)?)
        .await?
        .ok_or_else(|| ApiError::not_found(FILE, id))?;
    match may_see(app, caller, &row).await? {
        true => Ok(row),
        false => Err(ApiError::not_found(FILE, id)),
    }
}

/// An artifact is visible to callers that may use the skill of its execution.
async fn may_see(app: &App, caller: &Caller, row: &FileRow) -> Result<bool, ApiError> {
    let Some(execution_id) = row.execution_id.filter(|_| caller.identity.skills().is_some()) else {
        return Ok(true);
    };
    match executions::find(app, caller, execution_id).await {
        Ok(_) => Ok(true),
        Err(error) if error.slug() == crate::error::Slug::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}
