//! What a script left, read from the directory it wrote it to. Its processes are dead by now, as
//! far as they were found; still, no link is followed and only regular files are read.

use std::fs::{File, OpenOptions};
use std::io::Read;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use guest::names;

use crate::guest::GuestError;
use crate::job::{OutputLimits, Sink, SinkError};
use crate::outcome::SkippedFile;

const CHUNK_BYTES: usize = 64 << 10;

/// The output document.
pub enum OutputDocument {
    None,
    Whole(Vec<u8>),
    TooLarge,
}

impl OutputDocument {
    pub fn bytes(self) -> Option<Vec<u8>> {
        match self {
            OutputDocument::Whole(bytes) => Some(bytes),
            OutputDocument::None | OutputDocument::TooLarge => None,
        }
    }
}

pub fn document(path: &Path, cap: u64) -> OutputDocument {
    let Some((file, size)) = regular(path) else { return OutputDocument::None };
    let mut bytes = Vec::new();
    match file.take(cap).read_to_end(&mut bytes) {
        _ if size > cap => OutputDocument::TooLarge,
        Ok(_) => OutputDocument::Whole(bytes),
        Err(_) => OutputDocument::None,
    }
}

/// Opens a file that is one, with its size.
fn regular(path: &Path) -> Option<(File, u64)> {
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path).ok()?;
    let metadata =
        file.metadata().ok().filter(|metadata| metadata.is_file() && metadata.nlink() == 1)?;
    let size = metadata.len();
    Some((file, size))
}

/// The files below one directory, within the caps.
pub struct FileCollector {
    root: PathBuf,
    left_bytes: u64,
    left_files: u32,
    pub skipped: Vec<SkippedFile>,
}

impl FileCollector {
    pub fn new(root: PathBuf, caps: &OutputLimits) -> FileCollector {
        FileCollector {
            root,
            left_bytes: caps.artifact_bytes,
            left_files: caps.artifact_files,
            skipped: Vec::new(),
        }
    }

    pub async fn send(&mut self, sink: &mut dyn Sink) -> Result<(), GuestError> {
        let mut waiting = vec![String::new()];
        while let Some(path) = waiting.pop() {
            let place = self.root.join(&path);
            let is_directory =
                std::fs::symlink_metadata(&place).is_ok_and(|metadata| metadata.is_dir());
            if is_directory {
                waiting.extend(self.entries(&path));
            } else if let Some((file, size)) = self.admit(&path, &place) {
                send(sink, &path, file, size).await?;
            }
        }
        Ok(())
    }

    /// The names in a directory, the last first.
    fn entries(&mut self, directory: &str) -> Vec<String> {
        let mut names = Vec::new();
        for entry in std::fs::read_dir(self.root.join(directory)).into_iter().flatten().flatten() {
            let shown = entry.file_name().to_string_lossy().into_owned();
            let path = if directory.is_empty() { shown } else { format!("{directory}/{shown}") };
            match entry.file_name().to_str().is_some() && names::is_plain_path(&path) {
                true => names.push(path),
                false => self.skip(&path, "name not allowed"),
            }
        }
        names.sort_by(|one, other| other.cmp(one));
        names
    }

    fn admit(&mut self, path: &str, place: &Path) -> Option<(File, u64)> {
        let why = match regular(place) {
            None => "not a regular file",
            Some(_) if self.left_files == 0 => "too many files",
            Some((_, size)) if size > self.left_bytes => "too large",
            Some((file, size)) => {
                self.left_files -= 1;
                self.left_bytes -= size;
                return Some((file, size));
            }
        };
        self.skip(path, why);
        None
    }

    fn skip(&mut self, path: &str, why: &str) {
        const MAX_REPORTED_SKIPS: usize = 100;
        if self.skipped.len() < MAX_REPORTED_SKIPS {
            self.skipped.push(SkippedFile {
                path: path.escape_debug().to_string(),
                reason: why.to_owned(),
            });
        }
    }
}

async fn send(sink: &mut dyn Sink, path: &str, file: File, size: u64) -> Result<(), GuestError> {
    sink.file_start(path, size).await?;
    let (mut file, mut left) = (file.take(size), size);
    let mut buffer = vec![0; CHUNK_BYTES];
    while left > 0 {
        let count = file.read(&mut buffer).unwrap_or(0);
        if count == 0 {
            return Err(SinkError(format!("{path} changed while it was read")).into());
        }
        sink.file_chunk(&buffer[..count]).await?;
        left -= count as u64;
    }
    sink.file_end().await?;
    Ok(())
}
