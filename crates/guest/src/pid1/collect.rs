//! Sends the output document and the files of a run. Every other process is dead, so the directory
//! does not change meanwhile.
//!
//! An entry is only opened after it was found to be a regular file or a directory, and no link is
//! ever followed: each step opens one name in one directory. Skipped entries are reported, up to a
//! maximum.

use std::os::fd::{BorrowedFd, OwnedFd};

use guest::names::{MAX_DEPTH, MAX_PATH, is_plain_component};
use guest::protocol::{FromGuest, SkipReason, paths};
use rustix::fd::AsFd;
use rustix::fs::{Mode, OFlags, open, openat};
use rustix::io::{read, retry_on_intr};

use super::channel::{Channel, exit_guest};
use super::directory_listing::{DirectoryListing, Level};
use super::entry_type::{EntryType, copy_name, entry_type, push_printable, truncate_path};
use super::receive_job::ReturnLimits;

/// The maximum number of individual skip reports; one summary replaces the rest.
const MAX_REPORTED_SKIPS: u32 = 100;

/// The maximum number of names in total. The walk stops there.
const MAX_VISITED_NAMES: u32 = 200_000;

/// Sends the contents of the output directory. `buffer` is used for reading and must not be empty.
pub(super) fn collect(
    host: &mut Channel,
    limits: &ReturnLimits,
    listing: &mut DirectoryListing,
    buffer: &mut [u8],
) {
    let path = String::with_capacity(2 * MAX_PATH);
    let mut collector = Collector {
        host,
        limits,
        listing,
        buffer,
        path,
        files: 0,
        bytes: 0,
        reported: 0,
        visited: 0,
        stopped_at: None,
    };
    let Ok(sandbox) = open(paths::SANDBOX, DIRECTORY, Mode::empty()) else { return };
    let Some(out) = collector.contract_directory(&sandbox, "out", paths::OUT_DIR) else { return };
    collector.send_output(&out);
    if let Some(files) = collector.contract_directory(&out, "files", paths::FILES_DIR) {
        collector.walk(files);
    }
    if let Some(path) = collector.stopped_at.take() {
        collector.host.send(&FromGuest::Skipped { path: &path, reason: SkipReason::TooMany });
    }
}

const DIRECTORY: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC)
    .union(OFlags::NONBLOCK);
const REGULAR: OFlags = OFlags::RDONLY
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC)
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOCTTY);

struct Collector<'a> {
    host: &'a mut Channel,
    limits: &'a ReturnLimits,
    listing: &'a mut DirectoryListing,
    buffer: &'a mut [u8],
    /// The path of the current entry, relative to the files directory.
    path: String,
    files: u32,
    bytes: u64,
    reported: u32,
    visited: u32,
    /// The path of the first entry that was left out without a report of its own.
    stopped_at: Option<String>,
}

/// A directory that is being walked, its names, and the length of its path.
type OpenDirectory = (OwnedFd, Level, usize);

impl Collector<'_> {
    /// Opens one of the fixed directories, unless the script replaced it with something else.
    fn contract_directory(&mut self, above: &OwnedFd, name: &str, path: &str) -> Option<OwnedFd> {
        let reason = match entry_type(above, name.as_bytes()) {
            EntryType::Missing => return None,
            EntryType::Directory => match openat(above, name, DIRECTORY, Mode::empty()) {
                Ok(directory) => return Some(directory),
                Err(_) => SkipReason::Unreadable,
            },
            other => other.skip_reason(),
        };
        self.skip(path, reason);
        None
    }

    fn send_output(&mut self, out: &OwnedFd) {
        let reason = match entry_type(out, b"output.json") {
            EntryType::Missing => return,
            EntryType::Regular { size } if size > self.limits.output_bytes => {
                // Announced without its bytes, so that the host knows the cause.
                return self.host.send(&FromGuest::Output { size });
            }
            EntryType::Regular { size } => match openat(out, "output.json", REGULAR, Mode::empty())
            {
                Ok(file) => {
                    self.host.send(&FromGuest::Output { size });
                    return self.send(&file, size);
                }
                Err(_) => SkipReason::Unreadable,
            },
            other => other.skip_reason(),
        };
        self.skip(paths::OUTPUT_JSON, reason);
    }

    fn walk(&mut self, top: OwnedFd) {
        let mut open_directories: Vec<OpenDirectory> = Vec::with_capacity(MAX_DEPTH + 1);
        self.path.clear();
        self.enter(&mut open_directories, top);
        loop {
            let depth = open_directories.len();
            let Some((directory, level, length)) = open_directories.last_mut() else { return };
            self.path.truncate(*length);
            let mut space = [0; 256];
            match self.listing.next(level).map(|name| copy_name(name, &mut space)) {
                Some(name) => match self.visit(directory.as_fd(), name, depth) {
                    Visited::Continue => {}
                    Visited::Enter(inner) => self.enter(&mut open_directories, inner),
                    Visited::Stop => return self.stop_here(),
                },
                None if level.truncated => return self.stop_here(),
                None => {
                    if let Some((_, level, _)) = open_directories.pop() {
                        self.listing.leave(level);
                    }
                }
            }
        }
    }

    /// Starts to walk the directory at the current path.
    fn enter(&mut self, open_directories: &mut Vec<OpenDirectory>, directory: OwnedFd) {
        match self.listing.enter(&directory) {
            Ok(level) => open_directories.push((directory, level, self.path.len())),
            Err(_) => self.skip_here(SkipReason::Unreadable),
        }
    }

    /// Sends, enters or skips one entry. The type is checked before anything is opened.
    fn visit(&mut self, directory: BorrowedFd<'_>, name: &[u8], depth: usize) -> Visited {
        self.visited += 1;
        if self.visited > MAX_VISITED_NAMES {
            return Visited::Stop;
        }
        if !self.append(name) {
            self.skip_here(SkipReason::Name);
            return Visited::Continue;
        }
        let reason = match entry_type(directory, name) {
            EntryType::Missing => return Visited::Continue,
            EntryType::Directory if depth > MAX_DEPTH => SkipReason::TooDeep,
            EntryType::Directory => match openat(directory, name, DIRECTORY, Mode::empty()) {
                Ok(inner) => return Visited::Enter(inner),
                Err(_) => SkipReason::Unreadable,
            },
            EntryType::Regular { .. } if self.files == self.limits.artifact_files => {
                return Visited::Stop;
            }
            EntryType::Regular { size } if size > self.limits.artifact_bytes - self.bytes => {
                SkipReason::TooLarge
            }
            EntryType::Regular { size } => match openat(directory, name, REGULAR, Mode::empty()) {
                Ok(file) => {
                    self.send_file(&file, size);
                    return Visited::Continue;
                }
                Err(_) => SkipReason::Unreadable,
            },
            other => other.skip_reason(),
        };
        self.skip_here(reason);
        Visited::Continue
    }

    /// Appends `name` to the current path; false when the path must not be sent.
    fn append(&mut self, name: &[u8]) -> bool {
        if !self.path.is_empty() {
            self.path.push('/');
        }
        match std::str::from_utf8(name) {
            Ok(text) if is_plain_component(text) => self.path.push_str(text),
            _ => {
                push_printable(name, &mut self.path);
                return false;
            }
        }
        self.path.len() <= MAX_PATH
    }

    fn send_file(&mut self, file: &OwnedFd, size: u64) {
        self.files += 1;
        self.bytes += size;
        self.host.send(&FromGuest::File { path: &self.path, size });
        self.send(file, size);
    }

    /// Sends exactly the bytes that were announced.
    fn send(&mut self, file: &OwnedFd, size: u64) {
        let mut remaining = size;
        while remaining > 0 {
            let length = remaining.min(self.buffer.len() as u64) as usize;
            match retry_on_intr(|| read(file, &mut self.buffer[..length])) {
                // No process is left that could have truncated the file, so this is a failure of
                // the file system. The announced size cannot be taken back: exit, so that the host
                // does not record a damaged file.
                Ok(0) | Err(_) => exit_guest(),
                Ok(count) => {
                    self.host.send(&FromGuest::Chunk(&self.buffer[..count]));
                    remaining -= count as u64;
                }
            }
        }
    }

    fn skip(&mut self, path: &str, reason: SkipReason) {
        if self.reported < MAX_REPORTED_SKIPS {
            self.reported += 1;
            self.host.send(&FromGuest::Skipped { path: truncate_path(path), reason });
        } else if self.stopped_at.is_none() {
            self.stopped_at = Some(paths::FILES_DIR.to_owned());
        }
    }

    fn skip_here(&mut self, reason: SkipReason) {
        let path = std::mem::take(&mut self.path);
        self.skip(&path, reason);
        self.path = path;
    }

    fn stop_here(&mut self) {
        self.stopped_at = Some(truncate_path(&self.path).to_owned());
    }
}

/// How to continue after one entry.
enum Visited {
    Continue,
    Enter(OwnedFd),
    Stop,
}
