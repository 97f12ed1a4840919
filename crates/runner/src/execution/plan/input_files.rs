//! The input files of a request. A missing file or a bad name is refused before it costs a sandbox;
//! the bytes are read only while they are sent to the guest.

use std::collections::BTreeSet;
use std::io;
use std::pin::Pin;
use std::sync::Arc;

use async_trait::async_trait;
use blobs::{BlobError, BlobKey, Blobs};
use sandbox::{FileSource, StreamedFile, paths};
use store::FileRow;
use tokio::io::AsyncRead;
use uuid::Uuid;

use crate::execution::accept::AcceptedRequest;
use crate::execution::stop::Stop;
use crate::runner::Runner;

const MAX_INPUT_FILES: usize = 100;

/// Finds the files, each with its path inside the sandbox.
pub(crate) async fn find(
    runner: &Runner,
    accepted: &AcceptedRequest,
) -> Result<Vec<StreamedFile>, Stop> {
    let ids = &accepted.request.input_files;
    if ids.len() > MAX_INPUT_FILES {
        return Err(Stop::refused(format!("A run takes at most {MAX_INPUT_FILES} input files.")));
    }
    let mut rows = Vec::new();
    for id in ids {
        rows.push(find_row(runner, accepted, id).await?);
    }
    check_names(&rows)?;
    rows.into_iter().map(|row| streamed(runner, row)).collect()
}

async fn find_row(runner: &Runner, accepted: &AcceptedRequest, id: &str) -> Result<FileRow, Stop> {
    let uuid = Uuid::try_parse(id).map_err(|_| not_found(id))?;
    let row = runner.store.get_file(&accepted.tenant, uuid).await.map_err(|error| {
        tracing::error!(tenant = %accepted.tenant, id, %error, "reading an input file's row failed");
        Stop::unready("The input files could not be read.")
    })?;
    row.ok_or_else(|| not_found(id))
}

pub(crate) fn not_found(id: &str) -> Stop {
    Stop::refused(format!("Input file {id:?} does not exist."))
}

/// Names are checked again: a stored name may be older than the rules, and the name of an artifact is
/// a path.
fn check_names(rows: &[FileRow]) -> Result<(), Stop> {
    let mut names = BTreeSet::new();
    for FileRow { id, name, .. } in rows {
        let is_unsafe = |part: &str| {
            matches!(part, "" | "." | "..")
                || part.contains('\\')
                || part.chars().any(char::is_control)
        };
        if name.split('/').any(is_unsafe) {
            return Err(Stop::refused(format!(
                "Input file {id} has the name {name:?}, which cannot be placed."
            )));
        }
        if !names.insert(name) {
            return Err(Stop::refused(format!("Two input files have the name {name:?}.")));
        }
    }
    Ok(())
}

fn streamed(runner: &Runner, row: FileRow) -> Result<StreamedFile, Stop> {
    let key = BlobKey::parse(&row.blob_key).ok().filter(|key| key.belongs_to(row.tenant.as_str()));
    let key = key.ok_or_else(|| Stop::lost("The input files could not be read."))?;
    let size = u64::try_from(row.size_bytes).unwrap_or(0);
    let path = format!("{}/{}", paths::INPUT_DIR, row.name);
    let source = BlobFile { blobs: runner.blobs.clone(), key, size, sha256: row.sha256 };
    Ok(StreamedFile { path, size, source: Arc::new(source) })
}

/// A file in blobs, whose hash is checked while it is read.
struct BlobFile {
    blobs: Blobs,
    key: BlobKey,
    size: u64,
    sha256: String,
}

#[async_trait]
impl FileSource for BlobFile {
    async fn open(&self) -> io::Result<Pin<Box<dyn AsyncRead + Send>>> {
        let reader = self.blobs.open(&self.key).await.map_err(|error| match error {
            BlobError::Io { source, .. } => source,
            other => io::Error::other(other),
        })?;
        let reader = reader.ok_or(io::ErrorKind::NotFound)?;
        match reader.size == self.size {
            true => Ok(reader.verified(&self.sha256).stream),
            false => Err(io::ErrorKind::InvalidData.into()),
        }
    }
}

/// The end of a run whose input file could not be sent to its guest.
pub(crate) fn unreadable(path: &str, error: &io::Error) -> Stop {
    tracing::error!(path, %error, "an input file could not be sent");
    let name =
        path.strip_prefix(paths::INPUT_DIR).map_or(path, |name| name.trim_start_matches('/'));
    match error.kind() {
        io::ErrorKind::NotFound => {
            Stop::refused(format!("Input file {name:?} was deleted before the run began."))
        }
        io::ErrorKind::InvalidData => {
            Stop::refused(format!("Input file {name:?} is not what was uploaded; upload it again."))
        }
        _ => Stop::lost(format!("Input file {name:?} could not be read.")),
    }
}
