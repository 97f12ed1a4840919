//! Collects the results of an unconfined run from its directory. Its processes were killed, as far
//! as they were found; nevertheless, no link is followed and only regular files are read.

use std::fs::{File, OpenOptions};
use std::io::Read;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use guest::names;

use crate::guest_error::GuestError;
use crate::job::{OutputLimits, Sink, SinkError};
use crate::outcome::SkippedFile;

const CHUNK_BYTES: usize = 64 << 10;

/// The output document of the script.
pub(super) enum OutputDocument {
    None,
    Whole(Vec<u8>),
    TooLarge,
}

impl OutputDocument {
    pub(super) fn bytes(self) -> Option<Vec<u8>> {
        match self {
            OutputDocument::Whole(bytes) => Some(bytes),
            OutputDocument::None | OutputDocument::TooLarge => None,
        }
    }
}

pub(super) fn read_document(path: &Path, max_bytes: u64) -> OutputDocument {
    let Some((file, size)) = open_regular(path) else { return OutputDocument::None };
    let mut bytes = Vec::new();
    match file.take(max_bytes).read_to_end(&mut bytes) {
        _ if size > max_bytes => OutputDocument::TooLarge,
        Ok(_) => OutputDocument::Whole(bytes),
        Err(_) => OutputDocument::None,
    }
}

/// Opens a regular file with a single name; returns it and its size.
fn open_regular(path: &Path) -> Option<(File, u64)> {
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path).ok()?;
    let metadata =
        file.metadata().ok().filter(|metadata| metadata.is_file() && metadata.nlink() == 1)?;
    let size = metadata.len();
    Some((file, size))
}

/// Collects the files below one directory, within the limits.
pub(super) struct FileCollector {
    root: PathBuf,
    remaining_bytes: u64,
    remaining_files: u32,
    pub skipped: Vec<SkippedFile>,
}

impl FileCollector {
    pub(super) fn new(root: PathBuf, limits: &OutputLimits) -> FileCollector {
        FileCollector {
            root,
            remaining_bytes: limits.artifact_bytes,
            remaining_files: limits.artifact_files,
            skipped: Vec::new(),
        }
    }

    /// Sends all files to the sink, in the order of their paths.
    pub(super) async fn send_all(&mut self, sink: &mut dyn Sink) -> Result<(), GuestError> {
        let mut pending = vec![String::new()];
        while let Some(path) = pending.pop() {
            let file = self.root.join(&path);
            let is_directory =
                std::fs::symlink_metadata(&file).is_ok_and(|metadata| metadata.is_dir());
            if is_directory {
                pending.extend(self.entries(&path));
            } else if let Some((file, size)) = self.open_within_limits(&path, &file) {
                send_file(sink, &path, file, size).await?;
            }
        }
        Ok(())
    }

    /// The paths of a directory's entries, in reverse order.
    fn entries(&mut self, directory: &str) -> Vec<String> {
        let mut names = Vec::new();
        for entry in std::fs::read_dir(self.root.join(directory)).into_iter().flatten().flatten() {
            let name = entry.file_name().to_string_lossy().into_owned();
            let path = if directory.is_empty() { name } else { format!("{directory}/{name}") };
            match entry.file_name().to_str().is_some() && names::is_plain_path(&path) {
                true => names.push(path),
                false => self.skip(&path, "name not allowed"),
            }
        }
        names.sort_by(|one, other| other.cmp(one));
        names
    }

    /// Opens a file if it is within the limits; otherwise reports it as skipped.
    fn open_within_limits(&mut self, path: &str, file: &Path) -> Option<(File, u64)> {
        let reason = match open_regular(file) {
            None => "not a regular file",
            Some(_) if self.remaining_files == 0 => "too many files",
            Some((_, size)) if size > self.remaining_bytes => "too large",
            Some((file, size)) => {
                self.remaining_files -= 1;
                self.remaining_bytes -= size;
                return Some((file, size));
            }
        };
        self.skip(path, reason);
        None
    }

    fn skip(&mut self, path: &str, reason: &str) {
        const MAX_REPORTED_SKIPS: usize = 100;
        if self.skipped.len() < MAX_REPORTED_SKIPS {
            self.skipped.push(SkippedFile {
                path: path.escape_debug().to_string(),
                reason: reason.to_owned(),
            });
        }
    }
}

async fn send_file(
    sink: &mut dyn Sink,
    path: &str,
    file: File,
    size: u64,
) -> Result<(), GuestError> {
    sink.file_start(path, size).await?;
    let (mut file, mut remaining) = (file.take(size), size);
    let mut buffer = vec![0; CHUNK_BYTES];
    while remaining > 0 {
        let count = file.read(&mut buffer).unwrap_or(0);
        if count == 0 {
            // Its size was announced, so a shorter file cannot be completed.
            return Err(SinkError(format!("{path} changed while it was read")).into());
        }
        sink.file_chunk(&buffer[..count]).await?;
        remaining -= count as u64;
    }
    sink.file_end().await?;
    Ok(())
}
