//! A skill as it arrives: a raw zip, a zip in a form, or a directory as separate form parts.

use admission::Permit;
use axum::body::Body;
use axum::extract::multipart::{Field, MultipartError};
use axum::extract::{FromRequest, Multipart, Request};
use bytes::Bytes;
use http::StatusCode;
use http_body_util::Limited;
use skill::{Finding, Package, PackageLimits, SkillError};

use crate::app::{App, SharedApp};
use crate::error::{ApiError, Slug};
use crate::http::body;

/// Room for the boundaries and headers of a form around the skill itself.
const FORM_OVERHEAD_BYTES: usize = 1 << 20;

/// What a manifest, findings and the rest of a package take in memory beside its files.
const PACKAGE_OVERHEAD_BYTES: u64 = 4 << 20;

/// An upload that has arrived whole and has not been looked into, with the memory that it takes.
pub(crate) struct Upload {
    content: Content,
    permit: Permit,
}

enum Content {
    Archive(Bytes),
    /// Relative paths and contents.
    Directory(Vec<(String, Vec<u8>)>),
}

impl FromRequest<SharedApp> for Upload {
    type Rejection = ApiError;

    async fn from_request(request: Request, app: &SharedApp) -> Result<Self, ApiError> {
        body::refuse_encoding(request.headers())?;
        let limit = app.limits.skill_bytes;
        let mut permit = body::reserve(app, &request, limit.saturating_add(FORM_OVERHEAD_BYTES), 1)
            .await
            .map_err(
                |error| if error.slug() == Slug::TooLarge { body::too_large(limit) } else { error },
            )?;
        let content = match body::media_type(request.headers()).as_str() {
            "application/zip" | "application/x-zip-compressed" | "application/octet-stream" => {
                body::with_body_timeout(app, body::read(request.into_body(), limit))
                    .await?
                    .map(Content::Archive)?
            }
            "multipart/form-data" => body::with_body_timeout(app, form(request, limit)).await??,
            _ => {
                return Err(body::unsupported(
                    "Send the skill as application/zip, or as multipart/form-data with a part `file` or parts `files[]`.",
                ));
            }
        };
        match &content {
            Content::Archive(bytes) if bytes.is_empty() => {
                return Err(ApiError::bad_request("The upload is empty."));
            }
            Content::Directory(parts) if parts.is_empty() => {
                return Err(ApiError::bad_request(
                    "The form has no part `file` and no parts `files[]`.",
                ));
            }
            Content::Archive(_) | Content::Directory(_) => {}
        }
        permit.shrink_to(content.bytes());
        Ok(Upload { content, permit })
    }
}

impl Content {
    /// As it arrived.
    fn bytes(&self) -> u64 {
        match self {
            Content::Archive(zip) => zip.len() as u64,
            Content::Directory(parts) => {
                parts.iter().map(|(path, bytes)| (path.len() + bytes.len()) as u64).sum()
            }
        }
    }

    /// As it will be when it is unpacked, as far as can be told without unpacking it.
    fn unpacked_bytes(&self, limits: &PackageLimits) -> Result<u64, SkillError> {
        match self {
            Content::Archive(zip) => skill::declared_unpacked_bytes(zip, limits),
            Content::Directory(_) => Ok(self.bytes()),
        }
    }
}

impl Upload {
    /// Reads and checks the skill, and scans it if that is wanted, off the async threads: it
    /// unpacks, hashes and searches. Memory for what comes out of it is reserved before.
    pub(crate) async fn read(
        self,
        app: &App,
        scan: bool,
    ) -> Result<Result<Incoming, SkillError>, ApiError> {
        let limits = PackageLimits::default();
        let Upload { content, mut permit } = self;
        let unpacked = match content.unpacked_bytes(&limits) {
            Ok(bytes) => bytes,
            Err(refused) => return Ok(Err(refused)),
        };
        app.memory
            .reserve_more(&mut permit, unpacked.saturating_add(PACKAGE_OVERHEAD_BYTES))
            .await?;
        let reading = tokio::task::spawn_blocking(move || {
            let package = match content {
                Content::Archive(zip) => skill::read_archive(&zip, &limits),
                Content::Directory(parts) => skill::read_parts(parts, &limits),
            }?;
            let scanned = if scan {
                skill::scan(&package.files, package.entrypoint.as_ref())
            } else {
                Vec::new()
            };
            // What arrived is gone by now.
            permit.shrink_to(package.archive.len() as u64 + PACKAGE_OVERHEAD_BYTES);
            Ok(Incoming { package, scanned, permit })
        });
        reading.await.map_err(ApiError::internal)
    }
}

/// A skill that was read.
pub(crate) struct Incoming {
    pub package: Package,
    /// What the scanner found, beside the findings of the package itself.
    pub scanned: Vec<Finding>,
    /// For the package.
    pub permit: Permit,
}

async fn form(request: Request, limit: usize) -> Result<Content, ApiError> {
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
    let most = PackageLimits::default().entries;
    while let Some(field) = form.next_field().await.map_err(|error| refusal(&error, limit))? {
        match field.name() {
            // The form is read to its end all the same: a client that is still sending would take
            // our answer for a broken connection.
            Some("file") if archive.is_none() => {
                archive = Some(contents(field, &mut total, limit).await?)
            }
            Some("files[]" | "files") => {
                let path = field.file_name().unwrap_or_default().to_owned();
                if path.is_empty() {
                    return Err(ApiError::bad_request(
                        "Every part `files[]` needs a file name: its relative path.",
                    ));
                }
                if parts.len() == most {
                    return Err(ApiError::new(
                        Slug::TooManyEntries,
                        format!("The form has more than {most} files."),
                    ));
                }
                parts.push((path, contents(field, &mut total, limit).await?.to_vec()));
            }
            _ => {}
        }
    }
    Ok(archive.map_or(Content::Directory(parts), Content::Archive))
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
