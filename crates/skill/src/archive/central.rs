//! The central directory: the end record that points at it, and its list of entries.

use super::entry::CentralEntry;
use super::fields::{HeaderReader, damaged, zip64_unsupported};
use super::{CENTRAL_LEN, END_LEN, END_MAGIC};
use crate::{Hazard, PackageLimits, SkillError};

const ZIP64_LOCATOR_MAGIC: [u8; 4] = *b"PK\x06\x07";
const ZIP64_LOCATOR_LEN: usize = 20;
const MAX_COMMENT_BYTES: usize = 65_535;

/// All entries as the central directory lists them, and where it starts.
pub(super) struct CentralDirectory<'a> {
    pub entries: Vec<CentralEntry<'a>>,
    pub start: usize,
}

impl<'a> CentralDirectory<'a> {
    pub(super) fn read(zip: &'a [u8], limits: &PackageLimits) -> Result<Self, SkillError> {
        let end = EndRecord::read(zip)?;
        if end.count > limits.entries {
            return Err(Hazard::TooManyEntries.in_archive());
        }
        // Checked before the allocation below: a false count must not reserve memory.
        if end.count * CENTRAL_LEN > end.directory.len() {
            return Err(damaged());
        }
        let mut fields = HeaderReader::at(end.directory, 0);
        let mut entries = Vec::with_capacity(end.count);
        for _ in 0..end.count {
            entries.push(CentralEntry::read(&mut fields)?);
        }
        if fields.remaining() > 0 {
            return Err(Hazard::StrayData.in_archive());
        }
        let start = end.start;
        Ok(Self { entries, start })
    }
}

/// The record at the end of every zip.
struct EndRecord<'a> {
    count: usize,
    start: usize,
    directory: &'a [u8],
}

impl<'a> EndRecord<'a> {
    fn read(zip: &'a [u8]) -> Result<Self, SkillError> {
        let at = find_end_record(zip)?;
        // Readers with Zip64 support would take another directory than those without.
        if at
            .checked_sub(ZIP64_LOCATOR_LEN)
            .is_some_and(|at| zip[at..].starts_with(&ZIP64_LOCATOR_MAGIC))
        {
            return Err(zip64_unsupported());
        }
        let mut fields = HeaderReader::at(zip, at + END_MAGIC.len());
        let (disk, directory_disk) = (fields.u16()?, fields.u16()?);
        let (count_here, count) = (fields.u16()?, fields.u16()?);
        let (len, start) = (fields.u32()? as usize, fields.u32()? as usize);
        let comment_len = usize::from(fields.u16()?);

        let comment = fields.take(comment_len)?;
        // A second end record in the comment would be the first one for readers that search from
        // the other side.
        let ambiguous = comment.windows(END_MAGIC.len()).any(|window| window == END_MAGIC);
        if fields.remaining() > 0 || ambiguous {
            return Err(Hazard::StrayData.in_archive());
        }
        if disk != 0 || directory_disk != 0 || count_here != count {
            return Err(SkillError::archive(
                "the zip is one part of a split archive; pack it as one file",
            ));
        }
        if start.checked_add(len).is_none_or(|end| end > at) {
            return Err(damaged());
        }
        // A gap between the directory and the end record would hide data.
        if start + len < at {
            return Err(Hazard::StrayData.in_archive());
        }
        Ok(Self { count: usize::from(count), start, directory: &zip[start..at] })
    }
}

/// The offset of the last end record, which is the one that every reader uses.
fn find_end_record(zip: &[u8]) -> Result<usize, SkillError> {
    let Some(last) = zip.len().checked_sub(END_LEN) else {
        return Err(not_a_zip());
    };
    let first = last.saturating_sub(MAX_COMMENT_BYTES);
    let window = &zip[first..last + END_MAGIC.len()];
    let found = window.windows(END_MAGIC.len()).rposition(|bytes| bytes == END_MAGIC);
    match found {
        Some(at) => Ok(first + at),
        None if zip.starts_with(b"PK") => Err(damaged()),
        None => Err(not_a_zip()),
    }
}

fn not_a_zip() -> SkillError {
    SkillError::archive("this is not a zip file; upload a zip with SKILL.md in it")
}
