//! The central directory: the end record that points at it, and the list of entries it is.

use super::entry::Entry;
use super::fields::{Fields, cut_short, zip64};
use super::{CENTRAL_LEN, END_LEN, END_MAGIC};
use crate::{Hazard, Limits, SkillError};

const ZIP64_LOCATOR_MAGIC: [u8; 4] = *b"PK\x06\x07";
const ZIP64_LOCATOR_LEN: usize = 20;
const LONGEST_COMMENT: usize = 65_535;

/// All entries as the central directory lists them, and where it starts.
pub(super) struct Directory<'a> {
    pub entries: Vec<Entry<'a>>,
    pub start: usize,
}

impl<'a> Directory<'a> {
    pub(super) fn read(zip: &'a [u8], limits: &Limits) -> Result<Self, SkillError> {
        let end = End::read(zip)?;
        if end.count > limits.entries {
            return Err(Hazard::TooManyEntries.anywhere());
        }
        // A count that its directory cannot hold must not make us reserve room for it.
        if end.count * CENTRAL_LEN > end.directory.len() {
            return Err(cut_short());
        }
        let mut fields = Fields::at(end.directory, 0);
        let mut entries = Vec::with_capacity(end.count);
        for _ in 0..end.count {
            entries.push(Entry::read(&mut fields)?);
        }
        if fields.remaining() > 0 {
            return Err(Hazard::StrayData.anywhere());
        }
        let start = end.start;
        Ok(Self { entries, start })
    }
}

/// The record at the end of every zip.
struct End<'a> {
    count: usize,
    start: usize,
    directory: &'a [u8],
}

impl<'a> End<'a> {
    fn read(zip: &'a [u8]) -> Result<Self, SkillError> {
        let at = find(zip)?;
        if at
            .checked_sub(ZIP64_LOCATOR_LEN)
            .is_some_and(|at| zip[at..].starts_with(&ZIP64_LOCATOR_MAGIC))
        {
            return Err(zip64());
        }
        let mut fields = Fields::at(zip, at + END_MAGIC.len());
        let (disk, directory_disk) = (fields.u16()?, fields.u16()?);
        let (count_here, count) = (fields.u16()?, fields.u16()?);
        let (len, start) = (fields.u32()? as usize, fields.u32()? as usize);
        let comment_len = usize::from(fields.u16()?);

        let comment = fields.take(comment_len)?;
        // A second end record in the comment would be the first one for readers that search from
        // the other side.
        let ambiguous = comment.windows(END_MAGIC.len()).any(|window| window == END_MAGIC);
        if fields.remaining() > 0 || ambiguous {
            return Err(Hazard::StrayData.anywhere());
        }
        if disk != 0 || directory_disk != 0 || count_here != count {
            return Err(SkillError::archive(
                "the zip is one part of a split archive; pack it as one file",
            ));
        }
        if start.checked_add(len).is_none_or(|end| end > at) {
            return Err(cut_short());
        }
        if start + len < at {
            return Err(Hazard::StrayData.anywhere());
        }
        Ok(Self { count: usize::from(count), start, directory: &zip[start..at] })
    }
}

/// The last end record, which is the one every reader uses.
fn find(zip: &[u8]) -> Result<usize, SkillError> {
    let Some(last) = zip.len().checked_sub(END_LEN) else {
        return Err(not_a_zip());
    };
    let first = last.saturating_sub(LONGEST_COMMENT);
    let window = &zip[first..last + END_MAGIC.len()];
    let found = window.windows(END_MAGIC.len()).rposition(|bytes| bytes == END_MAGIC);
    match found {
        Some(at) => Ok(first + at),
        None if zip.starts_with(b"PK") => Err(cut_short()),
        None => Err(not_a_zip()),
    }
}

fn not_a_zip() -> SkillError {
    SkillError::archive("this is not a zip file; upload a zip with SKILL.md in it")
}
