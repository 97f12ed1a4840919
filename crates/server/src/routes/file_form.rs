//! A file uploaded as a form, streamed to the blob store in chunks. Memory holds one chunk, never a
//! file.

use std::time::Duration;

use axum::body::Body;
use axum::extract::multipart::{Field, MultipartError};
use axum::extract::{FromRequest, Multipart, Request};
use catalogue::PendingUpload;
use http::StatusCode;
use http_body_util::Limited;
use store::TenantId;

use crate::app::{App, SharedApp};
use crate::error::ApiError;
use crate::http::body;

/// Allowance for the boundaries, headers and small fields of a form besides the file.
const FORM_OVERHEAD_BYTES: usize = 1 << 20;
const MAX_FIELD_BYTES: usize = 4096;
/// The timeout of a whole upload, which a slow but steady client cannot extend.
const UPLOAD_TIMEOUT: Duration = Duration::from_secs(3000);

/// A form that was received completely.
pub(super) struct FileForm<'a> {
    pub upload: PendingUpload<'a>,
    /// The field `name`, else the file name of the part; empty when there is neither.
    pub name: String,
    pub content_type: Option<String>,
    pub session_id: Option<String>,
}

/// The file part of a form.
struct Part<'a> {
    upload: PendingUpload<'a>,
    file_name: String,
    content_type: Option<String>,
}

pub(super) async fn receive<'a>(
    app: &'a SharedApp,
    tenant: &TenantId,
    request: Request,
) -> Result<FileForm<'a>, ApiError> {
    body::refuse_encoding(request.headers())?;
    if body::media_type(request.headers()) != "multipart/form-data" {
        return Err(body::unsupported("Send the file as multipart/form-data with a part `file`."));
    }
    let limit = usize::try_from(app.limits.file_bytes).unwrap_or(usize::MAX);
    let most_bytes = limit.saturating_add(FORM_OVERHEAD_BYTES);
    body::refuse_length(request.body(), most_bytes).map_err(|_| body::too_large(limit))?;
    let bounded = request.map(|body| Body::new(Limited::new(body, most_bytes)));
    let form = Multipart::from_request(bounded, &())
        .await
        .map_err(|_| ApiError::bad_request("The form has no usable boundary."))?;
    tokio::time::timeout(UPLOAD_TIMEOUT, read(app, tenant, form, limit))
        .await
        .map_err(|_| body::timed_out())?
}

async fn read<'a>(
    app: &'a App,
    tenant: &TenantId,
    mut form: Multipart,
    limit: usize,
) -> Result<FileForm<'a>, ApiError> {
    let (mut part, mut name, mut session_id) = (None, None, None);
    let waiting = |error| refusal(&error, limit);
    while let Some(field) =
        body::with_body_timeout(app, form.next_field()).await?.map_err(waiting)?
    {
        match field.name() {
            Some("file") if part.is_none() => {
                part = Some(pass_on(app, tenant, field, limit).await?)
            }
            Some("name") => name = Some(text(app, field, limit).await?),
            Some("session_id") => session_id = Some(text(app, field, limit).await?),
            _ => {}
        }
    }
    let Part { upload, file_name, content_type } =
        part.ok_or_else(|| ApiError::bad_request("The form has no part `file`."))?;
    let name = name.filter(|name| !name.is_empty()).unwrap_or(file_name);
    Ok(FileForm { upload, name, content_type, session_id: session_id.filter(|id| !id.is_empty()) })
}

async fn pass_on<'a>(
    app: &'a App,
    tenant: &TenantId,
    mut field: Field<'_>,
    limit: usize,
) -> Result<Part<'a>, ApiError> {
    let file_name = field.file_name().unwrap_or_default().to_owned();
    let content_type = field.content_type().map(str::to_owned);
    let mut upload = app.catalogue.begin_upload(tenant).await?;
    while let Some(piece) = body::with_body_timeout(app, field.chunk())
        .await?
        .map_err(|error| refusal(&error, limit))?
    {
        upload.write(&piece).await?;
    }
    Ok(Part { upload, file_name, content_type })
}

/// A small field.
async fn text(app: &App, mut field: Field<'_>, limit: usize) -> Result<String, ApiError> {
    let mut bytes = Vec::new();
    while let Some(piece) = body::with_body_timeout(app, field.chunk())
        .await?
        .map_err(|error| refusal(&error, limit))?
    {
        bytes.extend_from_slice(&piece);
        if bytes.len() > MAX_FIELD_BYTES {
            return Err(ApiError::bad_request("A field of the form is too long."));
        }
    }
    String::from_utf8(bytes).map_err(|_| ApiError::bad_request("A field of the form is not UTF-8."))
}

fn refusal(error: &MultipartError, limit: usize) -> ApiError {
    if error.status() == StatusCode::PAYLOAD_TOO_LARGE {
        return body::too_large(limit);
    }
    ApiError::bad_request("The form is malformed or incomplete.")
}
