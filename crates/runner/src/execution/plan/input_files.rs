//! The files that a request names, to be placed beside its input. What is missing or does not fit
//! is refused before a sandbox costs anything; the bytes are read only while they are sent to the
//! guest.

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

const MAX_FILES: usize = 100;

/// With the paths they have inside the sandbox.
pub async fn find(runner: &Runner, order: &AcceptedRequest) -> Result<Vec<StreamedFile>, Stop> {
    let ids = &order.request.input_files;
    if ids.len() > MAX_FILES {
        return Err(Stop::refused(format!("A run takes at most {MAX_FILES} input files.")));
    }
    let mut rows = Vec::new();
    for id in ids {
        rows.push(find_row(runner, order, id).await?);
    }
    check_names(&rows)?;
    rows.into_iter().map(|row| streamed(runner, row)).collect()
}

async fn find_row(runner: &Runner, order: &AcceptedRequest, id: &str) -> Result<FileRow, Stop> {
    let uuid = Uuid::try_parse(id).map_err(|_| missing(id))?;
    let row = runner.store.get_file(&order.tenant, uuid).await.map_err(|error| {
        tracing::error!(tenant = %order.tenant, id, %error, "looking for an input file failed");
        Stop::unready("The input files could not be read.")
    })?;
    row.ok_or_else(|| missing(id))
}

pub fn missing(id: &str) -> Stop {
    Stop::refused(format!("Input file {id:?} does not exist."))
}

/// Names are checked again: what is stored may be older than the rules, and an artifact's name is a
/// path.
fn check_names(rows: &[FileRow]) -> Result<(), Stop> {
    let mut names = BTreeSet::new();
    for FileRow { id, name, .. } in rows {
        let odd = |part: &str| {
            matches!(part, "" | "." | "..")
                || part.contains('\\')
                || part.chars().any(char::is_control)
        };
        if name.split('/').any(odd) {
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
    let source = Stored { blobs: runner.blobs.clone(), key, size, sha256: row.sha256 };
    Ok(StreamedFile { path, size, source: Arc::new(source) })
}

/// A stored file, whose hash is checked on its way.
struct Stored {
    blobs: Blobs,
    key: BlobKey,
    size: u64,
    sha256: String,
}

#[async_trait]
impl FileSource for Stored {
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

/// Why a run ended whose file could not be sent to its guest.
pub fn unreadable(path: &str, error: &io::Error) -> Stop {
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
