//! Blobs as files below one directory.
//!
//! A key is a safe relative path (see `key.rs`), so nothing is encoded or checked here.

mod file_writer;

use std::fs::{self, DirBuilder, File};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use tempfile::NamedTempFile;

use crate::{BlobError, BlobKey, BlobPrefix, BlobReader};
pub(crate) use file_writer::{BUFFER_BYTES as WRITER_BYTES, FileWriter};

/// Holds unfinished blobs, in the same file system, so that finishing one is a rename. No key can
/// refer to it, because no segment starts with a dot.
const UNFINISHED: &str = ".unfinished";

#[derive(Debug)]
pub(crate) struct Directory {
    root: PathBuf,
    unfinished: PathBuf,
}

impl Directory {
    pub(crate) fn open(root: PathBuf) -> Result<Directory, BlobError> {
        let unfinished = root.join(UNFINISHED);
        create_dirs(&unfinished).map_err(BlobError::io("create the directory for blobs"))?;
        let directory = Directory { root, unfinished };
        directory.remove_unfinished();
        Ok(directory)
    }

    pub(crate) async fn get(&self, key: &BlobKey, max: u64) -> Result<Option<Bytes>, BlobError> {
        let path = self.path(key);
        blocking(move || {
            let Some(file) =
                missing_is_none(File::open(path)).map_err(BlobError::io("open a blob"))?
            else {
                return Ok(None);
            };
            let size = file.metadata().map_err(BlobError::io("read a blob"))?.len();
            if size > max {
                return Err(BlobError::TooLarge { size, max });
            }
            let mut bytes = Vec::with_capacity(usize::try_from(size).unwrap_or(0));
            file.take(size).read_to_end(&mut bytes).map_err(BlobError::io("read a blob"))?;
            Ok(Some(bytes.into()))
        })
        .await
    }

    pub(crate) async fn size(&self, key: &BlobKey) -> Result<Option<u64>, BlobError> {
        let path = self.path(key);
        blocking(move || {
            let metadata =
                missing_is_none(fs::metadata(path)).map_err(BlobError::io("read a blob"))?;
            Ok(metadata.map(|metadata| metadata.len()))
        })
        .await
    }

    pub(crate) async fn open_blob(&self, key: &BlobKey) -> Result<Option<BlobReader>, BlobError> {
        let path = self.path(key);
        let opened = blocking(move || {
            let opened = File::open(path).and_then(|file| Ok((file.metadata()?.len(), file)));
            missing_is_none(opened).map_err(BlobError::io("open a blob"))
        });
        Ok(opened.await?.map(|(size, file)| BlobReader {
            size,
            stream: Box::pin(tokio::fs::File::from_std(file)),
        }))
    }

    pub(crate) async fn open_range(
        &self,
        key: &BlobKey,
        start: u64,
        length: u64,
    ) -> Result<Option<BlobReader>, BlobError> {
        let path = self.path(key);
        let opened = blocking(move || {
            let opened = File::open(path).and_then(|mut file| {
                file.seek(SeekFrom::Start(start))?;
                Ok((file.metadata()?.len(), file))
            });
            missing_is_none(opened).map_err(BlobError::io("open a blob"))
        });
        let Some((size, file)) = opened.await? else { return Ok(None) };
        if start.saturating_add(length) > size {
            return Err(BlobError::too_short());
        }
        let stream = tokio::io::AsyncReadExt::take(tokio::fs::File::from_std(file), length);
        Ok(Some(BlobReader { size: length, stream: Box::pin(stream) }))
    }

    pub(crate) async fn delete(&self, key: &BlobKey) -> Result<(), BlobError> {
        let path = self.path(key);
        blocking(move || {
            missing_is_none(fs::remove_file(path)).map_err(BlobError::io("delete a blob"))?;
            Ok(())
        })
        .await
    }

    /// Moves the whole tree away first, so that it disappears atomically. If the process dies while
    /// the moved tree is deleted, the next start deletes the rest.
    pub(crate) async fn delete_prefix(&self, prefix: &BlobPrefix) -> Result<(), BlobError> {
        let path = self.root.join(prefix.as_str());
        let unfinished = self.unfinished.clone();
        blocking(move || {
            let delete = || {
                let trash = tempfile::Builder::new().prefix("deleted-").tempdir_in(unfinished)?;
                missing_is_none(fs::rename(path, trash.path().join("tree")))?;
                trash.close()
            };
            delete().map_err(BlobError::io("delete blobs"))
        })
        .await
    }

    pub(crate) async fn ping(&self) -> Result<(), BlobError> {
        let unfinished = self.unfinished.clone();
        blocking(move || {
            tempfile::tempfile_in(unfinished)
                .map(drop)
                .map_err(BlobError::io("write to the directory for blobs"))
        })
        .await
    }

    /// A file, readable by its owner only, that is removed on drop unless it is published.
    pub(crate) fn create_unfinished(&self) -> io::Result<NamedTempFile> {
        NamedTempFile::new_in(&self.unfinished)
    }

    /// Makes a written file visible under its key, atomically and durably.
    ///
    /// The database then commits the blob's size and hash, so the blob must be on the disk before.
    /// The file is flushed first, or a power failure could leave the name without the content; then
    /// the directory, or it could leave no name. This costs two flushes per blob, after the skill
    /// has ended.
    pub(crate) fn publish(&self, file: NamedTempFile, key: &BlobKey) -> io::Result<()> {
        file.as_file().sync_data()?;
        let path = self.path(key);
        let parent = path.parent().unwrap_or(&self.root);
        let new_dirs = create_dirs(parent)?;
        file.persist(&path)?;
        // The name of a new directory is an entry of its parent, which must be flushed too.
        let flush = if new_dirs { usize::MAX } else { 1 };
        for dir in parent.ancestors().take_while(|dir| dir.starts_with(&self.root)).take(flush) {
            File::open(dir)?.sync_all()?;
        }
        Ok(())
    }

    fn path(&self, key: &BlobKey) -> PathBuf {
        self.root.join(key.as_str())
    }

    /// The process that wrote these files is dead; see `Blobs::directory`. A failure only leaves
    /// unused files, so it is logged and not fatal.
    fn remove_unfinished(&self) {
        let Ok(entries) = fs::read_dir(&self.unfinished) else {
            return;
        };
        for entry in entries.flatten() {
            let path = entry.path();
            let is_dir = entry.file_type().is_ok_and(|kind| kind.is_dir());
            let removed = if is_dir { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
            if let Err(error) = removed {
                tracing::warn!(path = %path.display(), %error, "cannot remove an unfinished blob");
            }
        }
    }
}

/// Creates the directory and its parents, for their owner only; returns whether it was missing.
fn create_dirs(path: &Path) -> io::Result<bool> {
    if path.is_dir() {
        return Ok(false);
    }
    DirBuilder::new().recursive(true).mode(0o700).create(path)?;
    Ok(true)
}

fn missing_is_none<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Runs blocking file operations on a blocking thread.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, BlobError> + Send + 'static,
) -> Result<T, BlobError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(failed) => match failed.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // The runtime is shutting down.
            Err(_) => Err(BlobError::Interrupted),
        },
    }
}
