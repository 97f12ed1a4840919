//! A file in responses.

use serde::Serialize;
use store::FileRow;
use utoipa::ToSchema;

use crate::error::ApiError;
use crate::http::links::DownloadLinks;
use crate::http::timestamp::rfc3339;

/// A file: an artifact of an execution, or one that was uploaded.
#[derive(Serialize, ToSchema)]
#[schema(as = File)]
pub(crate) struct FileView {
    #[schema(format = "uuid")]
    id: String,
    tenant_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    session_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(format = "uuid")]
    execution_id: Option<String>,
    /// For an artifact, its path relative to the files directory.
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
    /// A download URL that needs no API key and expires.
    #[serde(skip_serializing_if = "Option::is_none")]
    url: Option<String>,
}

impl FileView {
    pub(crate) fn new(row: FileRow, links: &DownloadLinks) -> Result<FileView, ApiError> {
        let url = links.url(key_of(&row)?, &row.name, &row.content_type)?;
        Ok(FileView {
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
            url: Some(url),
        })
    }
}

/// The blob key of a file. The tenant in it is checked again here, so that a wrong row cannot
/// expose another tenant's bytes.
pub(crate) fn key_of(row: &FileRow) -> Result<blobs::BlobKey, ApiError> {
    let key = blobs::BlobKey::parse(&row.blob_key)?;
    match key.belongs_to(row.tenant.as_str()) {
        true => Ok(key),
        false => Err(ApiError::internal("a file's key is another tenant's")),
    }
}
