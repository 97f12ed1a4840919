//! The type of a directory entry, determined without opening it, and names in printable form.

use guest::names::MAX_PATH;
use guest::protocol::SkipReason;
use rustix::fd::AsFd;
use rustix::fs::{AtFlags, FileType, statat};
use rustix::io::Errno;

/// The type of an entry.
pub(super) enum EntryType {
    Regular {
        size: u64,
    },
    Directory,
    SymbolicLink,
    /// A regular file with several names, one of which may be outside of the output directory.
    HardLink,
    Special,
    Unreadable,
    Missing,
}

impl EntryType {
    /// Why an entry of this type is not collected.
    pub(super) fn skip_reason(&self) -> SkipReason {
        match self {
            EntryType::SymbolicLink => SkipReason::SymbolicLink,
            EntryType::HardLink => SkipReason::HardLink,
            EntryType::Unreadable => SkipReason::Unreadable,
            EntryType::Regular { .. }
            | EntryType::Directory
            | EntryType::Special
            | EntryType::Missing => SkipReason::Special,
        }
    }
}

/// Determines the type of an entry without following a link or opening it: opening a fifo or a
/// device could block or have side effects.
pub(super) fn entry_type(directory: impl AsFd, name: &[u8]) -> EntryType {
    let stat = match statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => stat,
        Err(Errno::NOENT) => return EntryType::Missing,
        Err(_) => return EntryType::Unreadable,
    };
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::Directory => EntryType::Directory,
        FileType::Symlink => EntryType::SymbolicLink,
        FileType::RegularFile if stat.st_nlink > 1 => EntryType::HardLink,
        FileType::RegularFile => {
            EntryType::Regular { size: u64::try_from(stat.st_size).unwrap_or(u64::MAX) }
        }
        _ => EntryType::Special,
    }
}

/// Copies a file name, which has at most 255 bytes on every file system of Linux.
pub(super) fn copy_name<'a>(name: &[u8], space: &'a mut [u8; 256]) -> &'a [u8] {
    let length = name.len().min(space.len());
    space[..length].copy_from_slice(&name[..length]);
    &space[..length]
}

/// Appends a name that is not plain in a printable form.
pub(super) fn push_printable(name: &[u8], path: &mut String) {
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

/// Truncates a path to the allowed length, between characters.
pub(super) fn truncate_path(path: &str) -> &str {
    &path[..path.floor_char_boundary(MAX_PATH)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replaces_unprintable_bytes() {
        let mut path = String::from("dir/");
        push_printable(b"a\n\xff\xfeb\x7f", &mut path);
        assert_eq!(path, "dir/a\u{fffd}\u{fffd}\u{fffd}b\u{fffd}");
    }

    #[test]
    fn truncates_long_paths_between_characters() {
        let long = "ä".repeat(MAX_PATH);
        assert_eq!(truncate_path(&long).len(), MAX_PATH);
        assert_eq!(truncate_path(&format!("x{long}")).len(), MAX_PATH - 1);
        assert_eq!(truncate_path("short"), "short");
    }
}
