//! A skill as it arrives: a raw zip, a zip in a form, or a directory as separate form parts.

use axum::body::Body;
use axum::extract::multipart::{Field, MultipartError};
use axum::extract::{FromRequest, Multipart, Request};
use bytes::Bytes;
use http::StatusCode;
use http_body_util::Limited;
use skill::{Finding, Limits, Package, SkillError};

use crate::app::Shared;
use crate::body;
use crate::error::ApiError;

/// Room for the boundaries and headers of a form around the skill itself.
const FORM_OVERHEAD_BYTES: usize = 1 << 20;

/// An upload that has arrived whole and has not been looked into.
pub enum Upload {
    Archive(Bytes),
    /// Relative paths and contents.
    Directory(Vec<(String, Vec<u8>)>),
}

impl FromRequest<Shared> for Upload {
    type Rejection = ApiError;

    async fn from_request(request: Request, app: &Shared) -> Result<Self, ApiError> {
        body::refuse_encoding(request.headers())?;
        let limit = app.limits.skill_bytes;
        let upload = match body::media_type(request.headers()).as_str() {
            "application/zip" | "application/x-zip-compressed" | "application/octet-stream" => {
                body::within(app, body::read(request.into_body(), limit)).await?.map(Upload::Archive)?
            }
            "multipart/form-data" => body::within(app, form(request, limit)).await??,
            _ => {
                return Err(body::unsupported(
                    "Send the skill as application/zip, or as multipart/form-data with a part `file` or parts `files[]`.",
                ));
            }
        };
        match &upload {
            Upload::Archive(bytes) if bytes.is_empty() => Err(ApiError::bad_request("The upload is empty.")),
            Upload::Directory(parts) if parts.is_empty() => {
                Err(ApiError::bad_request("The form has no part `file` and no parts `files[]`."))
            }
            _ => Ok(upload),
        }
    }
}

impl Upload {
    /// Reads and checks the skill, and scans it if that is wanted, off the async threads: it unpacks, hashes and searches.
    pub async fn read(self, scan: bool) -> Result<Result<Incoming, SkillError>, ApiError> {
        let limits = Limits::default();
        let reading = tokio::task::spawn_blocking(move || {
            let package = match self {
                Upload::Archive(zip) => skill::read_archive(&zip, &limits),
                Upload::Directory(parts) => skill::read_parts(parts, &limits),
            }?;
            let scanned = if scan { skill::scan(&package.files, package.entrypoint.as_ref()) } else { Vec::new() };
            Ok(Incoming { package, scanned })
        });
        reading.await.map_err(ApiError::internal)
    }
}

/// A skill that was read.
pub struct Incoming {
    pub package: Package,
    /// What the scanner found, beside the findings of the package itself.
    pub scanned: Vec<Finding>,
}

async fn form(request: Request, limit: usize) -> Result<Upload, ApiError> {
    // The form is bounded as a whole before it is parsed, so that no part can be endless.
    let most_bytes = limit.saturating_add(FORM_OVERHEAD_BYTES);
    body::refuse_length(request.body(), most_bytes).map_err(|_| body::too_large(limit))?;
    let bounded = request.map(|body| Body::new(Limited::new(body, most_bytes)));
    let mut form = Multipart::from_request(bounded, &())
        .await
        .map_err(|_| ApiError::bad_request("The form has no usable boundary."))?;
    let mut archive = None;
    let mut parts = Vec::new();
    let mut total = 0;
    let most = Limits::default().entries;
    while let Some(field) = form.next_field().await.map_err(|error| refusal(&error, limit))? {
        match field.name() {
            // The form is read to its end all the same: a client that is still sending would take our answer for a
            // broken connection.
            Some("file") if archive.is_none() => archive = Some(contents(field, &mut total, limit).await?),
            Some("files[]" | "files") => {
                let path = field.file_name().unwrap_or_default().to_owned();
                if path.is_empty() {
                    return Err(ApiError::bad_request("Every part `files[]` needs a file name: its relative path."));
                }
                if parts.len() == most {
                    return Err(ApiError::new(
                        crate::error::Slug::TooManyEntries,
                        format!("The form has more than {most} files."),
                    ));
                }
                parts.push((path, contents(field, &mut total, limit).await?.to_vec()));
            }
            _ => {}
        }
    }
    Ok(archive.map_or(Upload::Directory(parts), Upload::Archive))
}

async fn contents(field: Field<'_>, total: &mut usize, limit: usize) -> Result<Bytes, ApiError> {
    let bytes = field.bytes().await.map_err(|error| refusal(&error, limit))?;
    *total += bytes.len();
    if *total > limit { Err(body::too_large(limit)) } else { Ok(bytes) }
}

fn refusal(error: &MultipartError, limit: usize) -> ApiError {
    if error.status() == StatusCode::PAYLOAD_TOO_LARGE {
        return body::too_large(limit);
    }
    ApiError::bad_request("The form is malformed or incomplete.")
}
