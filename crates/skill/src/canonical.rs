//! The canonical archive of a skill: a zip whose bytes depend only on names, contents and
//! executable bits, so that equal skills have equal digests.
//!
//! Entries are sorted by path, stored without compression, dated 1980-01-01 and have mode 644 or
//! 755. They are stored, not deflated, because a compressor's output changes between its versions
//! and the digest must not; and because a stored file is a slice of the archive, so that loading a
//! skill copies nothing.

use bytes::Bytes;
use sha2::{Digest, Sha256};

use crate::SkillError;
use crate::archive::{CENTRAL_LEN, CENTRAL_MAGIC, END_LEN, END_MAGIC, LOCAL_LEN, LOCAL_MAGIC};
use crate::collector::SourceFile;

/// A file of a skill. The bytes are a view into the skill's archive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkillFile {
    pub path: String,
    pub bytes: Bytes,
    pub executable: bool,
}

/// A canonical archive, its digest and its files.
pub(crate) struct CanonicalArchive {
    pub archive: Bytes,
    pub digest: String,
    pub files: Vec<SkillFile>,
}

const UTF8_NAME: u16 = 1 << 11;
const VERSION: u16 = 20;
const MADE_BY_UNIX: u16 = 3 << 8 | VERSION;
/// 1980-01-01, the earliest date of the format.
const DATE: u16 = 1 << 5 | 1;
const MODE_FILE: u32 = 0o100_644;
const MODE_EXECUTABLE: u32 = 0o100_755;

struct PackedFile {
    path: String,
    local_at: u32,
    data_at: usize,
    size: u32,
    crc: u32,
    executable: bool,
}

/// Packs files whose paths are checked and distinct.
///
/// Contents are unpacked directly into the archive, so that the memory peak is one copy of them.
pub(crate) fn pack(mut sources: Vec<SourceFile<'_>>) -> Result<CanonicalArchive, SkillError> {
    sources.sort_by(|a, b| a.path.cmp(&b.path));
    let mut out = Vec::with_capacity(archive_len(&sources)?);
    let mut records = Vec::with_capacity(sources.len());
    for source in sources {
        records.push(append_file(&mut out, source)?);
    }
    append_directory(&mut out, &records);

    let archive = Bytes::from(out);
    let file = |record: PackedFile| SkillFile {
        bytes: archive.slice(record.data_at..record.data_at + record.size as usize),
        path: record.path,
        executable: record.executable,
    };
    Ok(CanonicalArchive {
        digest: digest(&archive),
        files: records.into_iter().map(file).collect(),
        archive,
    })
}

/// `sha256:` and the hash in hexadecimal.
pub(crate) fn digest(archive: &[u8]) -> String {
    let hash = Sha256::digest(archive);
    format!("sha256:{}", data_encoding::HEXLOWER.encode(&hash))
}

/// The exact length of the archive. Fails above the limits of the format without Zip64, which
/// [`crate::read_archive`] rejects.
fn archive_len(sources: &[SourceFile<'_>]) -> Result<usize, SkillError> {
    let entry = |source: &SourceFile<'_>| {
        let headers = LOCAL_LEN + CENTRAL_LEN + 2 * source.path.len();
        source.size.saturating_add(headers as u64)
    };
    let total = sources.iter().map(entry).fold(END_LEN as u64, u64::saturating_add);
    let too_large = SkillError::TooLarge { limit_bytes: u64::from(u32::MAX) };
    if total > u64::from(u32::MAX) || sources.len() >= usize::from(u16::MAX) {
        return Err(too_large);
    }
    usize::try_from(total).map_err(|_| too_large)
}

fn append_file(out: &mut Vec<u8>, source: SourceFile<'_>) -> Result<PackedFile, SkillError> {
    let local_at = out.len();
    let data_at = local_at + LOCAL_LEN + source.path.len();
    out.resize(data_at, 0);
    let crc = source.content.append_to(out, &source.path)?;

    let content = &out[data_at..];
    let record = PackedFile {
        // Uploads of separate files carry no modes; a shebang decides instead.
        executable: source.executable.unwrap_or_else(|| content.starts_with(b"#!")),
        path: source.path,
        local_at: to_u32(local_at),
        data_at,
        size: to_u32(content.len()),
        crc,
    };
    // The header needs the checksum of the content, so it is filled in after it.
    let mut header = Vec::with_capacity(data_at - local_at);
    header.extend_from_slice(&LOCAL_MAGIC);
    append_common_fields(&mut header, &record);
    header.extend_from_slice(record.path.as_bytes());
    out[local_at..data_at].copy_from_slice(&header);
    Ok(record)
}

/// The fields that the local and the central header share, in the same order.
fn append_common_fields(out: &mut Vec<u8>, record: &PackedFile) {
    const STORED: u16 = 0;
    const MIDNIGHT: u16 = 0;
    const NO_EXTRA: u16 = 0;
    for field in [VERSION, UTF8_NAME, STORED, MIDNIGHT, DATE] {
        out.extend_from_slice(&field.to_le_bytes());
    }
    for field in [record.crc, record.size, record.size] {
        out.extend_from_slice(&field.to_le_bytes());
    }
    for field in [to_u16(record.path.len()), NO_EXTRA] {
        out.extend_from_slice(&field.to_le_bytes());
    }
}

fn append_directory(out: &mut Vec<u8>, records: &[PackedFile]) {
    let start = out.len();
    for record in records {
        let mode = if record.executable { MODE_EXECUTABLE } else { MODE_FILE };
        out.extend_from_slice(&CENTRAL_MAGIC);
        out.extend_from_slice(&MADE_BY_UNIX.to_le_bytes());
        append_common_fields(out, record);
        // No comment, first disk, no internal attributes.
        out.extend_from_slice(&[0; 6]);
        out.extend_from_slice(&(mode << 16).to_le_bytes());
        out.extend_from_slice(&record.local_at.to_le_bytes());
        out.extend_from_slice(record.path.as_bytes());
    }
    let (count, len) = (to_u16(records.len()), to_u32(out.len() - start));
    out.extend_from_slice(&END_MAGIC);
    out.extend_from_slice(&[0; 4]);
    out.extend_from_slice(&count.to_le_bytes());
    out.extend_from_slice(&count.to_le_bytes());
    out.extend_from_slice(&len.to_le_bytes());
    out.extend_from_slice(&to_u32(start).to_le_bytes());
    out.extend_from_slice(&[0; 2]);
}

fn to_u32(value: usize) -> u32 {
    u32::try_from(value).expect("archive_len() keeps the whole archive below 4 GiB")
}

fn to_u16(value: usize) -> u16 {
    u16::try_from(value)
        .expect("archive_len() bounds the count, path::normalize() the length of a name")
}
