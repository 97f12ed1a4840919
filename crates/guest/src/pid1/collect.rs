//! Sends the output document and the files that a run left. Every process is dead, so nothing moves
//! meanwhile.
//!
//! Nothing is opened before it is known to be a regular file or a directory, and no link is ever
//! followed: each step opens one name in one directory. What is not sent is reported, up to a
//! bound.

use std::os::fd::{BorrowedFd, OwnedFd};

use guest::names::{MAX_DEPTH, MAX_PATH, plain_component};
use guest::protocol::{FromGuest, SkipReason, paths};
use rustix::fd::AsFd;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, open, openat, statat};
use rustix::io::{Errno, read, retry_on_intr};

use super::channel::{Channel, end};
use super::listing::{Level, Listing};
use super::place::Bounds;

/// Things reported one by one; the rest is one line.
const REPORTED: u32 = 100;

/// Names looked at in all. A walk that meets more is cut short.
const LOOKED_AT: u32 = 200_000;

/// Sends what is in the output directory. `buffer` is used for reading and must not be empty.
pub fn collect(host: &mut Channel, bounds: &Bounds, listing: &mut Listing, buffer: &mut [u8]) {
    let path = String::with_capacity(2 * MAX_PATH);
    let mut collector = Collector {
        host,
        bounds,
        listing,
        buffer,
        path,
        files: 0,
        bytes: 0,
        reported: 0,
        looked_at: 0,
        cut: None,
    };
    let Ok(sandbox) = open(paths::SANDBOX, DIRECTORY, Mode::empty()) else { return };
    let Some(out) = collector.contract_directory(&sandbox, "out", paths::OUT_DIR) else { return };
    collector.output(&out);
    if let Some(files) = collector.contract_directory(&out, "files", paths::FILES_DIR) {
        collector.walk(files);
    }
    if let Some(path) = collector.cut.take() {
        collector.host.send(&FromGuest::Skipped { path: &path, why: SkipReason::TooMany });
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
    bounds: &'a Bounds,
    listing: &'a mut Listing,
    buffer: &'a mut [u8],
    /// Of what is being looked at, below the files directory.
    path: String,
    files: u32,
    bytes: u64,
    reported: u32,
    looked_at: u32,
    /// Where something was left out without a word of its own.
    cut: Option<String>,
}

/// A directory being walked, its names, and the length of its path.
type Walked = (OwnedFd, Level, usize);

impl Collector<'_> {
    /// Opens a directory of the contract, unless the script put something else in its place.
    fn contract_directory(&mut self, above: &OwnedFd, name: &str, path: &str) -> Option<OwnedFd> {
        let why = match look(above, name.as_bytes()) {
            Found::Missing => return None,
            Found::Directory => match openat(above, name, DIRECTORY, Mode::empty()) {
                Ok(directory) => return Some(directory),
                Err(_) => SkipReason::Unreadable,
            },
            other => other.why_not(),
        };
        self.skip(path, why);
        None
    }

    fn output(&mut self, out: &OwnedFd) {
        let why = match look(out, b"output.json") {
            Found::Missing => return,
            Found::Regular { size } if size > self.bounds.output_bytes => {
                return self.host.send(&FromGuest::Output { size });
            }
            Found::Regular { size } => match openat(out, "output.json", REGULAR, Mode::empty()) {
                Ok(file) => {
                    self.host.send(&FromGuest::Output { size });
                    return self.send(&file, size);
                }
                Err(_) => SkipReason::Unreadable,
            },
            other => other.why_not(),
        };
        self.skip(paths::OUTPUT_JSON, why);
    }

    fn walk(&mut self, top: OwnedFd) {
        let mut walked: Vec<Walked> = Vec::with_capacity(MAX_DEPTH + 1);
        self.path.clear();
        self.enter(&mut walked, top);
        loop {
            let depth = walked.len();
            let Some((directory, level, length)) = walked.last_mut() else { return };
            self.path.truncate(*length);
            let mut space = [0; 256];
            match self.listing.next(level).map(|name| copy(name, &mut space)) {
                Some(name) => match self.visit(directory.as_fd(), name, depth) {
                    Visit::On => {}
                    Visit::Enter(inner) => self.enter(&mut walked, inner),
                    Visit::Enough => return self.cut_here(),
                },
                None if level.cut => return self.cut_here(),
                None => {
                    if let Some((_, level, _)) = walked.pop() {
                        self.listing.leave(level);
                    }
                }
            }
        }
    }

    /// Takes the names of the directory whose path is the present one.
    fn enter(&mut self, walked: &mut Vec<Walked>, directory: OwnedFd) {
        match self.listing.enter(&directory) {
            Ok(level) => walked.push((directory, level, self.path.len())),
            Err(_) => self.skip_here(SkipReason::Unreadable),
        }
    }

    fn visit(&mut self, directory: BorrowedFd<'_>, name: &[u8], depth: usize) -> Visit {
        self.looked_at += 1;
        if self.looked_at > LOOKED_AT {
            return Visit::Enough;
        }
        if !self.append(name) {
            self.skip_here(SkipReason::Name);
            return Visit::On;
        }
        let why = match look(directory, name) {
            Found::Missing => return Visit::On,
            Found::Directory if depth > MAX_DEPTH => SkipReason::TooDeep,
            Found::Directory => match openat(directory, name, DIRECTORY, Mode::empty()) {
                Ok(inner) => return Visit::Enter(inner),
                Err(_) => SkipReason::Unreadable,
            },
            Found::Regular { .. } if self.files == self.bounds.artifact_files => {
                return Visit::Enough;
            }
            Found::Regular { size } if size > self.bounds.artifact_bytes - self.bytes => {
                SkipReason::TooLarge
            }
            Found::Regular { size } => match openat(directory, name, REGULAR, Mode::empty()) {
                Ok(file) => {
                    self.file(&file, size);
                    return Visit::On;
                }
                Err(_) => SkipReason::Unreadable,
            },
            other => other.why_not(),
        };
        self.skip_here(why);
        Visit::On
    }

    /// Makes the present path that of `name` in the present directory; false when it may not be
    /// sent like that.
    fn append(&mut self, name: &[u8]) -> bool {
        if !self.path.is_empty() {
            self.path.push('/');
        }
        match std::str::from_utf8(name) {
            Ok(text) if plain_component(text) => self.path.push_str(text),
            _ => {
                lossy(name, &mut self.path);
                return false;
            }
        }
        self.path.len() <= MAX_PATH
    }

    fn file(&mut self, file: &OwnedFd, size: u64) {
        self.files += 1;
        self.bytes += size;
        self.host.send(&FromGuest::File { path: &self.path, size });
        self.send(file, size);
    }

    /// Sends exactly the bytes that were announced.
    fn send(&mut self, file: &OwnedFd, size: u64) {
        let mut left = size;
        while left > 0 {
            let most = left.min(self.buffer.len() as u64) as usize;
            match retry_on_intr(|| read(file, &mut self.buffer[..most])) {
                // Nobody is left who could have made it shorter. The host hears of it as a guest
                // that is gone.
                Ok(0) | Err(_) => end(),
                Ok(count) => {
                    self.host.send(&FromGuest::Chunk(&self.buffer[..count]));
                    left -= count as u64;
                }
            }
        }
    }

    fn skip(&mut self, path: &str, why: SkipReason) {
        if self.reported < REPORTED {
            self.reported += 1;
            self.host.send(&FromGuest::Skipped { path: shortened(path), why });
        } else if self.cut.is_none() {
            self.cut = Some(paths::FILES_DIR.to_owned());
        }
    }

    fn skip_here(&mut self, why: SkipReason) {
        let path = std::mem::take(&mut self.path);
        self.skip(&path, why);
        self.path = path;
    }

    fn cut_here(&mut self) {
        self.cut = Some(shortened(&self.path).to_owned());
    }
}

/// What to do after one name.
enum Visit {
    On,
    Enter(OwnedFd),
    Enough,
}

/// What a name stands for, without opening it.
enum Found {
    Regular {
        size: u64,
    },
    Directory,
    SymbolicLink,
    /// Another name leads to the same file, and may lead out of what the script meant to hand over.
    HardLink,
    Special,
    Unreadable,
    Missing,
}

impl Found {
    fn why_not(&self) -> SkipReason {
        match self {
            Found::SymbolicLink => SkipReason::SymbolicLink,
            Found::HardLink => SkipReason::HardLink,
            Found::Unreadable => SkipReason::Unreadable,
            Found::Regular { .. } | Found::Directory | Found::Special | Found::Missing => {
                SkipReason::Special
            }
        }
    }
}

fn look(directory: impl AsFd, name: &[u8]) -> Found {
    let stat = match statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => stat,
        Err(Errno::NOENT) => return Found::Missing,
        Err(_) => return Found::Unreadable,
    };
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::Directory => Found::Directory,
        FileType::Symlink => Found::SymbolicLink,
        FileType::RegularFile if stat.st_nlink > 1 => Found::HardLink,
        FileType::RegularFile => {
            Found::Regular { size: u64::try_from(stat.st_size).unwrap_or(u64::MAX) }
        }
        _ => Found::Special,
    }
}

/// A file name is at most 255 bytes on every file system that Linux has.
fn copy<'a>(name: &[u8], space: &'a mut [u8; 256]) -> &'a [u8] {
    let length = name.len().min(space.len());
    space[..length].copy_from_slice(&name[..length]);
    &space[..length]
}

/// Appends a name that may not be sent in a form that may be shown.
fn lossy(name: &[u8], path: &mut String) {
    for chunk in name.utf8_chunks() {
        path.extend(
            chunk
                .valid()
                .chars()
                .map(|c| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c }),
        );
        if !chunk.invalid().is_empty() {
            path.push(char::REPLACEMENT_CHARACTER);
        }
    }
}

/// As much of a path as a frame may hold.
fn shortened(path: &str) -> &str {
    &path[..path.floor_char_boundary(MAX_PATH)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_cannot_be_shown_are_made_showable() {
        let mut path = String::from("dir/");
        lossy(b"a\n\xff\xfeb\x7f", &mut path);
        assert_eq!(path, "dir/a\u{fffd}\u{fffd}\u{fffd}b\u{fffd}");
    }

    #[test]
    fn long_paths_are_cut_between_characters() {
        let long = "ä".repeat(MAX_PATH);
        assert_eq!(shortened(&long).len(), MAX_PATH);
        assert_eq!(shortened(&format!("x{long}")).len(), MAX_PATH - 1);
        assert_eq!(shortened("short"), "short");
    }
}
