//! `/v1/blobs/{token}`: downloads by signed URL.

use axum::body::Body;
use axum::extract::State;
use axum::response::Response;
use tokio_util::io::ReaderStream;

use crate::app::SharedApp;
use crate::error::{ApiError, Slug};
use crate::http::download::attachment;
use crate::http::extract::Path;
use crate::http::links::unix_now;
use crate::routes::openapi::Binary;

/// Download by signed URL
///
/// Needs no API key: the token names one object, is signed by this server, and expires.
#[utoipa::path(
    get, path = "/v1/blobs/{token}", tag = "files", operation_id = "download_blob", security(()),
    params(("token" = String, Path)),
    responses(
        (status = 200, body = inline(Binary), content_type = "application/octet-stream"),
        (status = 403, description = "`forbidden`: the URL was not signed by this server, was altered, or has expired", body = crate::error::ErrorBody),
    )
)]
pub(crate) async fn get(
    State(app): State<SharedApp>,
    Path(token): Path<String>,
) -> Result<Response, ApiError> {
    let claims = app.signer.verify(&token, unix_now()).map_err(|_| {
        ApiError::forbidden(
            "This URL is not valid or has expired. Read the execution again for a new one.",
        )
    })?;
    let blob =
        app.blobs.open(&claims.key).await?.ok_or_else(|| {
            ApiError::new(Slug::NotFound, "The object behind this URL was deleted.")
        })?;
    let body = Body::from_stream(ReaderStream::new(blob.stream));
    Ok(attachment(&claims.filename, &claims.content_type, blob.size, body))
}
