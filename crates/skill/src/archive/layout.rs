//! Checks that the local headers agree with the central directory and that the entries account for
//! every byte.

use std::ops::Range;

use super::central::CentralDirectory;
use super::entry::{CentralEntry, EntryFlags};
use super::extra::ExtraFields;
use super::fields::HeaderReader;
use super::packed::CompressionMethod;
use super::{LOCAL_LEN, LOCAL_MAGIC};
use crate::{Hazard, SkillError};

const DESCRIPTOR_MAGIC: [u8; 4] = *b"PK\x07\x08";

/// The byte range of the data of each entry, in the order of the central directory.
///
/// Entries must be contiguous from the first byte to the central directory: a gap would hide data,
/// and readers that stream the file would see other entries than those that use the directory.
pub(super) fn locate(
    zip: &[u8],
    directory: &CentralDirectory<'_>,
) -> Result<Vec<Range<usize>>, SkillError> {
    let entries = &directory.entries;
    let before_directory = &zip[..directory.start];
    let mut by_offset: Vec<usize> = (0..entries.len()).collect();
    by_offset.sort_by_key(|index| entries[*index].local_at);

    let mut data_ranges = vec![0..0; entries.len()];
    let mut next = 0;
    for index in by_offset {
        let entry = &entries[index];
        let at = entry.local_at as usize;
        if at < next {
            return Err(Hazard::Overlap.in_entry(entry.name));
        }
        if at > next {
            return Err(Hazard::StrayData.in_archive());
        }
        let (place, end) = read_local_header(before_directory, entry)?;
        data_ranges[index] = place;
        next = end;
    }
    if next != directory.start {
        return Err(Hazard::StrayData.in_archive());
    }
    Ok(data_ranges)
}

/// Reads one local header. Returns the range of the data and the end of everything that belongs to
/// the entry.
fn read_local_header(
    zip: &[u8],
    entry: &CentralEntry<'_>,
) -> Result<(Range<usize>, usize), SkillError> {
    let mismatch = || Hazard::HeaderMismatch.in_entry(entry.name);
    let at = entry.local_at as usize;
    let mut fields = HeaderReader::at(zip, at);
    if fields.take(LOCAL_MAGIC.len())? != LOCAL_MAGIC {
        return Err(mismatch());
    }
    let _version_needed = fields.u16()?;
    let (flags, method) = (EntryFlags::new(fields.u16()?), fields.u16()?);
    let _time_and_date = fields.u32()?;
    let sizes = [fields.u32()?, fields.u32()?, fields.u32()?];
    let (name_len, extra_len) = (usize::from(fields.u16()?), usize::from(fields.u16()?));
    let name = fields.take(name_len)?;
    let extra = ExtraFields::read(fields.take(extra_len)?, name)?;

    // A streaming packer writes zero for values that follow the data; Info-ZIP fills in some.
    let agrees = |(given, true_value): (&u32, u32)| {
        *given == true_value || (flags.has_descriptor() && *given == 0)
    };
    let sizes_agree = sizes.iter().zip(expected_values(entry)).all(agrees);
    let same = flags == entry.flags
        && CompressionMethod::from_number(method) == Some(entry.method)
        && name == entry.name.as_bytes()
        && sizes_agree;
    if !same {
        return Err(mismatch());
    }
    extra.check_kind(entry.kind, entry.name)?;

    let start = at + LOCAL_LEN + name_len + extra_len;
    let end = start + entry.packed_len as usize;
    if end > zip.len() {
        return Err(Hazard::Overlap.in_entry(entry.name));
    }
    if !flags.has_descriptor() {
        return Ok((start..end, end));
    }
    // Readers that stream the file find the end of stored data by its descriptor, so the data must
    // not contain one.
    if entry.method == CompressionMethod::Stored && contains(&zip[start..end], DESCRIPTOR_MAGIC) {
        return Err(mismatch());
    }
    Ok((start..end, end + descriptor_len(zip, end, entry)?))
}

/// The length of the data descriptor. Its signature is optional.
fn descriptor_len(zip: &[u8], at: usize, entry: &CentralEntry<'_>) -> Result<usize, SkillError> {
    let values: Vec<u8> = expected_values(entry).into_iter().flat_map(u32::to_le_bytes).collect();
    let rest = &zip[at..];
    if rest.strip_prefix(&DESCRIPTOR_MAGIC).is_some_and(|rest| rest.starts_with(&values)) {
        return Ok(DESCRIPTOR_MAGIC.len() + values.len());
    }
    if rest.starts_with(&values) {
        return Ok(values.len());
    }
    Err(Hazard::HeaderMismatch.in_entry(entry.name))
}

fn contains(data: &[u8], magic: [u8; 4]) -> bool {
    data.windows(magic.len()).any(|window| window == magic)
}

fn expected_values(entry: &CentralEntry<'_>) -> [u32; 3] {
    [entry.crc, entry.packed_len, entry.size]
}
