//! The names in the directories being walked, in buffers that are allocated once and never grow.

use std::mem::MaybeUninit;

use rustix::fd::AsFd;
use rustix::fs::{RawDir, SeekFrom};
use rustix::io::Errno;

/// The maximum size of all names in memory, over all levels of the walk.
const MAX_NAME_BYTES: usize = 512 * 1024;

/// The maximum number of names in memory.
const MAX_NAMES: usize = 16 * 1024;

/// The buffer size of one `getdents` call.
const BATCH_BYTES: usize = 16 * 1024;

/// A stack of sorted directories.
pub(super) struct DirectoryListing {
    bytes: Vec<u8>,
    /// Offset and length of each name in `bytes`.
    names: Vec<(u32, u16)>,
    batch: Vec<u8>,
}

/// One directory's range of names in the listing, and the position in it.
pub(super) struct Level {
    first_byte: usize,
    first_name: usize,
    next: usize,
    end: usize,
    /// The directory has more names than fit.
    pub truncated: bool,
}

impl DirectoryListing {
    pub(super) fn new() -> Self {
        // Filled once, so that the pages are allocated before the script uses up all memory.
        let mut listing = DirectoryListing {
            bytes: vec![1; MAX_NAME_BYTES],
            names: vec![(1, 1); MAX_NAMES],
            batch: vec![1; BATCH_BYTES],
        };
        listing.bytes.clear();
        listing.names.clear();
        listing.batch.clear();
        listing
    }

    /// Reads a directory, sorted by the bytes of the names.
    pub(super) fn enter(&mut self, directory: impl AsFd) -> Result<Level, Errno> {
        let (first_byte, first_name) = (self.bytes.len(), self.names.len());
        let truncated = match self.read(directory) {
            Ok(truncated) => truncated,
            Err(errno) => {
                self.truncate(first_byte, first_name);
                return Err(errno);
            }
        };
        let bytes = &self.bytes;
        self.names[first_name..]
            .sort_unstable_by_key(|&(start, length)| name_at(bytes, start, length));
        Ok(Level { first_byte, first_name, next: first_name, end: self.names.len(), truncated })
    }

    /// The next name of the directory that was entered last.
    pub(super) fn next(&self, level: &mut Level) -> Option<&[u8]> {
        let &(start, length) = self.names[..level.end].get(level.next)?;
        level.next += 1;
        Some(name_at(&self.bytes, start, length))
    }

    /// Removes the directory that was entered last.
    pub(super) fn leave(&mut self, level: Level) {
        self.truncate(level.first_byte, level.first_name);
    }

    fn truncate(&mut self, first_byte: usize, first_name: usize) {
        self.bytes.truncate(first_byte);
        self.names.truncate(first_name);
    }

    fn read(&mut self, directory: impl AsFd) -> Result<bool, Errno> {
        rustix::fs::seek(&directory, SeekFrom::Start(0))?;
        let batch: &mut [MaybeUninit<u8>] = self.batch.spare_capacity_mut();
        let mut entries = RawDir::new(directory, batch);
        while let Some(entry) = entries.next() {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if name == b"." || name == b".." {
                continue;
            }
            if self.bytes.len() + name.len() > MAX_NAME_BYTES || self.names.len() == MAX_NAMES {
                return Ok(true);
            }
            // A name has at most 255 bytes, and the sum is limited to far less than a u32 holds.
            self.names.push((self.bytes.len() as u32, name.len() as u16));
            self.bytes.extend_from_slice(name);
        }
        Ok(false)
    }
}

fn name_at(bytes: &[u8], start: u32, length: u16) -> &[u8] {
    &bytes[start as usize..start as usize + usize::from(length)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{self, File};

    #[test]
    fn directories_are_sorted_and_released() {
        let top = std::env::temp_dir().join(format!("skillbox-listing-{}", std::process::id()));
        fs::create_dir_all(top.join("b")).expect("a directory");
        for name in ["c", "a", "b/z", "b/y"] {
            File::create(top.join(name)).expect("a file");
        }
        let mut listing = DirectoryListing::new();
        let open = |path| File::open(path).expect("a directory to read");
        let mut outer = listing.enter(open(top.clone())).expect("the names");
        assert_eq!(listing.next(&mut outer), Some(&b"a"[..]));
        let mut inner = listing.enter(open(top.join("b"))).expect("the names");
        assert_eq!(listing.next(&mut inner), Some(&b"y"[..]));
        assert_eq!(listing.next(&mut inner), Some(&b"z"[..]));
        assert_eq!(listing.next(&mut inner), None);
        listing.leave(inner);
        assert_eq!(listing.next(&mut outer), Some(&b"b"[..]));
        assert_eq!(listing.next(&mut outer), Some(&b"c"[..]));
        assert_eq!(listing.next(&mut outer), None);
        assert!(!outer.truncated);
        listing.leave(outer);
        assert!(listing.bytes.is_empty() && listing.names.is_empty());
        fs::remove_dir_all(top).expect("the test's own directory is removed");
    }
}
