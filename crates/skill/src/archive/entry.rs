//! One entry as the central directory describes it.

use super::fields::{HeaderReader, damaged, zip64_unsupported};
use super::{CENTRAL_MAGIC, extra::ExtraFields, packed::CompressionMethod};
use crate::{Hazard, SkillError};

/// The fields of a central header that matter here, each already validated.
pub(super) struct CentralEntry<'a> {
    pub name: &'a str,
    pub flags: EntryFlags,
    pub method: CompressionMethod,
    pub crc: u32,
    pub packed_len: u32,
    pub size: u32,
    pub local_at: u32,
    pub kind: EntryKind,
    made_by: u16,
    mode: u32,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum EntryKind {
    File,
    Directory,
}

/// The general purpose bits that change the meaning of an entry; the rest are hints of the packer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct EntryFlags(u16);

impl EntryFlags {
    const ENCRYPTED: u16 = 1 | 1 << 6 | 1 << 13;
    const DESCRIPTOR: u16 = 1 << 3;
    const PATCHED: u16 = 1 << 5;
    const UTF8: u16 = 1 << 11;

    pub(super) fn new(bits: u16) -> Self {
        Self(bits & (Self::ENCRYPTED | Self::DESCRIPTOR | Self::PATCHED | Self::UTF8))
    }

    pub(super) fn has_utf8_name(self) -> bool {
        self.0 & Self::UTF8 != 0
    }

    /// Whether sizes and checksum follow the data.
    pub(super) fn has_descriptor(self) -> bool {
        self.0 & Self::DESCRIPTOR != 0
    }
}

/// A four-byte field with this value means that the real value is in a Zip64 field.
const ZIP64_MARKER: u32 = u32::MAX;

/// Version 6.3 of the format, the latest. Other readers reject later versions too.
const MAX_VERSION: u16 = 63;

/// DOS attributes: a volume label, which Info-ZIP skips, and a directory.
const DOS_LABEL: u32 = 0x08;
const DOS_DIRECTORY: u32 = 0x10;

const TYPE_MASK: u32 = 0o170_000;
const TYPE_FILE: u32 = 0o100_000;
const TYPE_DIRECTORY: u32 = 0o040_000;
const TYPE_LINK: u32 = 0o120_000;

impl<'a> CentralEntry<'a> {
    pub(super) fn read(fields: &mut HeaderReader<'a>) -> Result<Self, SkillError> {
        if fields.take(CENTRAL_MAGIC.len())? != CENTRAL_MAGIC {
            return Err(damaged());
        }
        let (made_by, version_needed) = (fields.u16()?, fields.u16()?);
        let (flags, method) = (fields.u16()?, fields.u16()?);
        let _time_and_date = fields.u32()?;
        let (crc, packed_len, size) = (fields.u32()?, fields.u32()?, fields.u32()?);
        let (name_len, extra_len, comment_len) = (fields.u16()?, fields.u16()?, fields.u16()?);
        let (disk, _internal) = (fields.u16()?, fields.u16()?);
        let (attributes, local_at) = (fields.u32()?, fields.u32()?);
        let name = fields.take(name_len.into())?;
        let extra = ExtraFields::read(fields.take(extra_len.into())?, name)?;
        fields.take(comment_len.into())?;

        if disk != 0 || [packed_len, size, local_at].contains(&ZIP64_MARKER) {
            return Err(zip64_unsupported());
        }
        if version_needed & 0xff > MAX_VERSION {
            return Err(SkillError::archive(
                "the zip uses a newer version of the format than is supported; pack it with plain zip",
            ));
        }
        let flags = EntryFlags::new(flags);
        let name = extra.decode_name(name, flags, made_by)?;
        if flags.0 & EntryFlags::ENCRYPTED != 0 {
            return Err(Hazard::Encrypted.in_entry(name));
        }
        let known =
            CompressionMethod::from_number(method).filter(|_| flags.0 & EntryFlags::PATCHED == 0);
        let kind = kind(name, attributes)?;
        extra.check_kind(kind, name)?;
        if kind == EntryKind::Directory && size > 0 {
            return Err(Hazard::HeaderMismatch.in_entry(name));
        }
        Ok(Self {
            name,
            flags,
            method: known.ok_or_else(|| Hazard::Method.in_entry(name))?,
            crc,
            packed_len,
            size,
            local_at,
            kind,
            made_by,
            mode: attributes >> 16,
        })
    }

    /// The executable bit, if the packer's system has one and the packer recorded it.
    pub(super) fn executable(&self) -> Option<bool> {
        const UNIX: u16 = 3;
        const MACOS: u16 = 19;
        let has_modes = matches!(self.made_by >> 8, UNIX | MACOS) && self.mode & 0o777 != 0;
        has_modes.then_some(self.mode & 0o111 != 0)
    }
}

impl EntryKind {
    /// The kind that a Unix mode declares, if it declares one. Anything but a file or a directory
    /// is rejected.
    pub(super) fn from_mode(mode: u32, name: &str) -> Result<Option<Self>, SkillError> {
        match mode & TYPE_MASK {
            0 => Ok(None),
            TYPE_FILE => Ok(Some(Self::File)),
            TYPE_DIRECTORY => Ok(Some(Self::Directory)),
            TYPE_LINK => Err(Hazard::Link.in_entry(name)),
            _ => Err(Hazard::SpecialFile.in_entry(name)),
        }
    }
}

/// File or directory. Readers decide by the name, the Unix mode or the DOS attribute, so all of
/// them must agree, whatever system the header names.
fn kind(name: &str, attributes: u32) -> Result<EntryKind, SkillError> {
    let by_name = if name.ends_with('/') { EntryKind::Directory } else { EntryKind::File };
    let by_mode = EntryKind::from_mode(attributes >> 16, name)?.unwrap_or(by_name);
    if attributes & DOS_LABEL != 0 {
        return Err(Hazard::SpecialFile.in_entry(name));
    }
    let dos_directory = by_name == EntryKind::File && attributes & DOS_DIRECTORY != 0;
    if by_mode != by_name || dos_directory {
        return Err(Hazard::HeaderMismatch.in_entry(name));
    }
    Ok(by_name)
}
