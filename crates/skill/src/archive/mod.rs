//! Reading zips from untrusted sources.
//!
//! Readers of zips disagree: some trust the central directory, some the local headers, some search
//! for signatures. An archive is accepted only when all of them must see the same thing, so the
//! headers are parsed by our own code and have to account for every byte exactly once. The order is
//! fixed: names and sizes are checked before any byte is unpacked.

mod central;
mod entry;
mod extra;
mod fields;
mod layout;
mod packed;

use std::ops::Range;

pub(crate) use packed::PackedData;

use crate::collector::{FileCollector, FileContent};
use crate::package::{self, Package};
use crate::{Hazard, PackageLimits, SkillError};
use central::CentralDirectory;
use entry::{CentralEntry, EntryKind};

pub(crate) const LOCAL_MAGIC: [u8; 4] = *b"PK\x03\x04";
pub(crate) const CENTRAL_MAGIC: [u8; 4] = *b"PK\x01\x02";
pub(crate) const END_MAGIC: [u8; 4] = *b"PK\x05\x06";
pub(crate) const LOCAL_LEN: usize = 30;
pub(crate) const CENTRAL_LEN: usize = 46;
pub(crate) const END_LEN: usize = 22;

/// Reads an uploaded zip.
pub fn read_archive(zip: &[u8], limits: &PackageLimits) -> Result<Package, SkillError> {
    let directory = CentralDirectory::read(zip, limits)?;
    let data_ranges = layout::locate(zip, &directory)?;
    check_ratio(zip, &directory.entries, limits)?;
    let mut collector = FileCollector::new(limits);
    for (entry, place) in directory.entries.iter().zip(data_ranges) {
        add_entry(entry, &zip[place], &mut collector)?;
    }
    package::assemble(collector, None)
}

/// The total size of the files that the headers of a zip declare. [`read_archive`] never unpacks
/// more than that. Nothing is unpacked here; a damaged zip, or one that declares more than the
/// limits allow, is rejected as by [`read_archive`].
pub fn declared_unpacked_bytes(zip: &[u8], limits: &PackageLimits) -> Result<u64, SkillError> {
    let directory = CentralDirectory::read(zip, limits)?;
    check_ratio(zip, &directory.entries, limits)?;
    let total = directory.entries.iter().map(|entry| u64::from(entry.size)).sum();
    match total > limits.unpacked_bytes {
        true => Err(SkillError::TooLarge { limit_bytes: limits.unpacked_bytes }),
        false => Ok(total),
    }
}

fn add_entry<'a>(
    entry: &CentralEntry<'a>,
    data: &'a [u8],
    collector: &mut FileCollector<'a>,
) -> Result<(), SkillError> {
    let packed = PackedData { data, method: entry.method, size: entry.size, crc: entry.crc };
    match entry.kind {
        EntryKind::File => {
            let content = FileContent::Packed(packed);
            collector.add_file(entry.name, entry.executable(), entry.size.into(), content)
        }
        EntryKind::Directory => {
            // A directory has no content. Bytes in its place would be hidden data.
            packed.verify(entry.name)?;
            collector.add_directory(entry.name)
        }
    }
}

/// The files of a canonical archive and their byte ranges; it stores files without compression.
pub(crate) fn list_stored_files(
    zip: &[u8],
    limits: &PackageLimits,
) -> Result<Vec<(String, Range<usize>, bool)>, SkillError> {
    let directory = CentralDirectory::read(zip, limits)?;
    let data_ranges = layout::locate(zip, &directory)?;
    let file = |(entry, place): (&CentralEntry<'_>, Range<usize>)| {
        let executable = entry.executable().unwrap_or(false);
        (entry.name.to_owned(), place, executable)
    };
    Ok(directory.entries.iter().zip(data_ranges).map(file).collect())
}

/// Rejects zip bombs by their declared sizes, before memory is reserved for them. Unpacking checks
/// that the declared sizes are true.
fn check_ratio(
    zip: &[u8],
    entries: &[CentralEntry<'_>],
    limits: &PackageLimits,
) -> Result<(), SkillError> {
    let is_bomb = |unpacked: u64, packed: u64| {
        unpacked > limits.ratio_from_bytes && unpacked > packed.saturating_mul(limits.ratio)
    };
    let mut total = 0u64;
    for entry in entries {
        if is_bomb(entry.size.into(), entry.packed_len.into()) {
            return Err(Hazard::Bomb.in_entry(entry.name));
        }
        total += u64::from(entry.size);
    }
    if is_bomb(total, zip.len() as u64) {
        return Err(Hazard::Bomb.in_archive());
    }
    Ok(())
}
