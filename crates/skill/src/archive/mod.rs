//! Reading a zip that somebody else made.
//!
//! Readers of zips disagree: some trust the central directory, some the local headers, some search
//! for signatures. An archive is accepted only when all of them must see the same thing, so the
//! headers are walked by our own code and have to account for every byte, once. The order is fixed:
//! names and sizes are checked before a single byte is unpacked.

mod central;
mod entry;
mod extra;
mod fields;
mod layout;
mod packed;

use std::ops::Range;

pub(crate) use packed::Packed;

use crate::intake::{Content, Intake};
use crate::package::{self, Package};
use crate::{Hazard, Limits, SkillError};
use central::Directory;
use entry::{Entry, Kind};

pub(crate) const LOCAL_MAGIC: [u8; 4] = *b"PK\x03\x04";
pub(crate) const CENTRAL_MAGIC: [u8; 4] = *b"PK\x01\x02";
pub(crate) const END_MAGIC: [u8; 4] = *b"PK\x05\x06";
pub(crate) const LOCAL_LEN: usize = 30;
pub(crate) const CENTRAL_LEN: usize = 46;
pub(crate) const END_LEN: usize = 22;

/// Reads an uploaded zip.
pub fn read_archive(zip: &[u8], limits: &Limits) -> Result<Package, SkillError> {
    let directory = Directory::read(zip, limits)?;
    let places = layout::locate(zip, &directory)?;
    check_ratio(zip, &directory.entries, limits)?;
    let mut intake = Intake::new(limits);
    for (entry, place) in directory.entries.iter().zip(places) {
        take(entry, &zip[place], &mut intake)?;
    }
    package::assemble(intake, None)
}

/// What an uploaded zip says that its files have in all, by which [`read_archive`] never lets it
/// exceed. Nothing is unpacked. A zip that cannot be read, or that says more than the limits allow,
/// is refused as it is there.
pub fn unpacked_bytes(zip: &[u8], limits: &Limits) -> Result<u64, SkillError> {
    let directory = Directory::read(zip, limits)?;
    check_ratio(zip, &directory.entries, limits)?;
    let total = directory.entries.iter().map(|entry| u64::from(entry.size)).sum();
    match total > limits.unpacked_bytes {
        true => Err(SkillError::TooLarge { limit_bytes: limits.unpacked_bytes }),
        false => Ok(total),
    }
}

fn take<'a>(entry: &Entry<'a>, data: &'a [u8], intake: &mut Intake<'a>) -> Result<(), SkillError> {
    let packed = Packed { data, method: entry.method, size: entry.size, crc: entry.crc };
    match entry.kind {
        Kind::File => {
            let content = Content::Packed(packed);
            intake.file(entry.name, entry.executable(), entry.size.into(), content)
        }
        Kind::Directory => {
            // A directory has no content, so nothing may hide where the content would be.
            packed.check(entry.name)?;
            intake.directory(entry.name)
        }
    }
}

/// Where the files of our own canonical form lie, which stores everything without compression.
pub(crate) fn stored_files(
    zip: &[u8],
    limits: &Limits,
) -> Result<Vec<(String, Range<usize>, bool)>, SkillError> {
    let directory = Directory::read(zip, limits)?;
    let places = layout::locate(zip, &directory)?;
    let file = |(entry, place): (&Entry<'_>, Range<usize>)| {
        let executable = entry.executable().unwrap_or(false);
        (entry.name.to_owned(), place, executable)
    };
    Ok(directory.entries.iter().zip(places).map(file).collect())
}

/// Refuses compression that only a bomb has, by the announced sizes; that they are true is checked
/// while unpacking.
fn check_ratio(zip: &[u8], entries: &[Entry<'_>], limits: &Limits) -> Result<(), SkillError> {
    let is_bomb = |unpacked: u64, packed: u64| {
        unpacked > limits.ratio_from_bytes && unpacked > packed.saturating_mul(limits.ratio)
    };
    let mut total = 0u64;
    for entry in entries {
        if is_bomb(entry.size.into(), entry.packed_len.into()) {
            return Err(Hazard::Bomb.of(entry.name));
        }
        total += u64::from(entry.size);
    }
    if is_bomb(total, zip.len() as u64) {
        return Err(Hazard::Bomb.anywhere());
    }
    Ok(())
}
