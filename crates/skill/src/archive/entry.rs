//! One entry as the central directory describes it.

use super::fields::{Fields, cut_short, zip64};
use super::{CENTRAL_MAGIC, packed::Method};
use crate::error::shown;
use crate::{Hazard, SkillError};

/// The fields of a central header that mean something to us, already judged one by one.
pub(super) struct Entry<'a> {
    pub name: &'a str,
    pub flags: Flags,
    pub method: Method,
    pub crc: u32,
    pub packed_len: u32,
    pub size: u32,
    pub local_at: u32,
    made_by: u16,
    mode: u32,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Kind {
    File,
    Directory,
}

/// The general purpose bits that change what an entry means; the rest are hints of the packer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Flags(u16);

impl Flags {
    const ENCRYPTED: u16 = 1 | 1 << 6 | 1 << 13;
    const DESCRIPTOR: u16 = 1 << 3;
    const PATCHED: u16 = 1 << 5;
    const UTF8: u16 = 1 << 11;

    pub(super) fn new(bits: u16) -> Self {
        Self(bits & (Self::ENCRYPTED | Self::DESCRIPTOR | Self::PATCHED | Self::UTF8))
    }

    /// Whether sizes and checksum follow the data.
    pub(super) fn has_descriptor(self) -> bool {
        self.0 & Self::DESCRIPTOR != 0
    }
}

/// A four-byte field with this value says that the true one is in a Zip64 field.
const IN_ZIP64: u32 = u32::MAX;

/// Version 6.3 of the format, which is the last one; other readers refuse more, so we do.
const NEWEST_VERSION: u16 = 63;

const TYPE_MASK: u32 = 0o170_000;
const TYPE_FILE: u32 = 0o100_000;
const TYPE_DIRECTORY: u32 = 0o040_000;
const TYPE_LINK: u32 = 0o120_000;

impl<'a> Entry<'a> {
    pub(super) fn read(fields: &mut Fields<'a>) -> Result<Self, SkillError> {
        if fields.take(CENTRAL_MAGIC.len())? != CENTRAL_MAGIC {
            return Err(cut_short());
        }
        let (made_by, version_needed) = (fields.u16()?, fields.u16()?);
        let (flags, method) = (fields.u16()?, fields.u16()?);
        let _time_and_date = fields.u32()?;
        let (crc, packed_len, size) = (fields.u32()?, fields.u32()?, fields.u32()?);
        let (name_len, extra_len, comment_len) = (fields.u16()?, fields.u16()?, fields.u16()?);
        let (disk, _internal) = (fields.u16()?, fields.u16()?);
        let (attributes, local_at) = (fields.u32()?, fields.u32()?);
        let name = fields.take(name_len.into())?;
        let extra = Extra::read(fields.take(extra_len.into())?)?;
        fields.take(comment_len.into())?;

        if disk != 0 || [packed_len, size, local_at].contains(&IN_ZIP64) {
            return Err(zip64());
        }
        if version_needed & 0xff > NEWEST_VERSION {
            return Err(SkillError::archive("the zip is of a newer kind than any we know; pack it with plain zip"));
        }
        let flags = Flags::new(flags);
        let name = extra.name_of(name, flags)?;
        if flags.0 & Flags::ENCRYPTED != 0 {
            return Err(Hazard::Encrypted.of(name));
        }
        let known = Method::from_number(method).filter(|_| flags.0 & Flags::PATCHED == 0);
        Ok(Self {
            name,
            flags,
            method: known.ok_or_else(|| Hazard::Method.of(name))?,
            crc,
            packed_len,
            size,
            local_at,
            made_by,
            mode: attributes >> 16,
        })
    }

    /// File or directory; anything else is refused, whatever system claims to have made it.
    pub(super) fn kind(&self) -> Result<Kind, SkillError> {
        let by_name = if self.name.ends_with('/') { Kind::Directory } else { Kind::File };
        let by_mode = match self.mode & TYPE_MASK {
            0 => by_name,
            TYPE_FILE => Kind::File,
            TYPE_DIRECTORY => Kind::Directory,
            TYPE_LINK => return Err(Hazard::Link.of(self.name)),
            _ => return Err(Hazard::SpecialFile.of(self.name)),
        };
        if by_mode != by_name || (by_name == Kind::Directory && self.size > 0) {
            return Err(Hazard::HeaderMismatch.of(self.name));
        }
        Ok(by_name)
    }

    /// The executable bit, when the packer ran on a system that has one and recorded it.
    pub(super) fn executable(&self) -> Option<bool> {
        const UNIX: u16 = 3;
        const MACOS: u16 = 19;
        let has_modes = matches!(self.made_by >> 8, UNIX | MACOS) && self.mode & 0o777 != 0;
        has_modes.then_some(self.mode & 0o111 != 0)
    }
}

/// The extra fields of a header that could change what the header says.
pub(super) struct Extra<'a> {
    /// Info-ZIP's second name, which some readers take and some do not.
    unicode_path: Option<&'a [u8]>,
}

impl<'a> Extra<'a> {
    const ZIP64: u16 = 0x0001;
    const UNICODE_PATH: u16 = 0x7075;

    pub(super) fn read(bytes: &'a [u8]) -> Result<Self, SkillError> {
        let mut fields = Fields::at(bytes, 0);
        let mut unicode_path = None;
        // Fewer than four bytes are padding, which alignment tools leave.
        while fields.remaining() >= 4 {
            let (id, len) = (fields.u16()?, fields.u16()?);
            let mut field = Fields::at(fields.take(len.into())?, 0);
            match id {
                Self::ZIP64 => return Err(zip64()),
                Self::UNICODE_PATH => {
                    let _version_and_checksum = field.take(5)?;
                    unicode_path = Some(field.take(field.remaining())?);
                }
                _ => {}
            }
        }
        Ok(Self { unicode_path })
    }

    /// The name, provided that every reader decodes it to the same text.
    pub(super) fn name_of(&self, name: &'a [u8], flags: Flags) -> Result<&'a str, SkillError> {
        let lossy = || String::from_utf8_lossy(name);
        let Ok(text) = std::str::from_utf8(name) else {
            return Err(Hazard::UnsafePath.of(&lossy()));
        };
        if self.unicode_path.is_some_and(|unicode| unicode != name) {
            return Err(Hazard::HeaderMismatch.of(text));
        }
        // Without the mark, a name beyond ASCII is in whatever code page its reader prefers.
        if !text.is_ascii() && flags.0 & Flags::UTF8 == 0 {
            return Err(SkillError::archive(format!(
                "`{}`: the zip does not say how this name is encoded; pack it with `skillbox skill package` or 7-Zip, or rename the file in plain ASCII",
                shown(text)
            )));
        }
        Ok(text)
    }
}
