//! The extra fields of a header that can change the meaning of the header.
//!
//! There are dozens, most of them times and owners, which are ignored. The few that rename an
//! entry, turn it into a link or hide its content are checked, because readers differ in whether
//! they apply them.

use super::entry::{EntryFlags, EntryKind};
use super::fields::{HeaderReader, damaged, zip64_unsupported};
use crate::error::printable;
use crate::{Hazard, SkillError};

const ZIP64: u16 = 0x0001;
/// PKWARE's field for Unix: times and owners and, for a link or a device, its target.
const PKWARE_UNIX: u16 = 0x000d;
const PKWARE_UNIX_FILE_BYTES: usize = 12;
const STRONG_ENCRYPTION: u16 = 0x0017;
/// A Unix mode that Info-ZIP applies if the header itself has none.
const ASI_UNIX: u16 = 0x756e;
/// A second name, which only some readers use.
const UNICODE_PATH: u16 = 0x7075;
const AES_ENCRYPTION: u16 = 0x9901;

/// The content of the extra fields of one header that is not rejected at once.
pub(super) struct ExtraFields {
    /// The name is repeated in UTF-8.
    name_repeated: bool,
    mode: Option<u16>,
}

impl ExtraFields {
    pub(super) fn read(bytes: &[u8], name: &[u8]) -> Result<Self, SkillError> {
        let printable = || String::from_utf8_lossy(name);
        let mut extra = Self { name_repeated: false, mode: None };
        let mut fields = HeaderReader::at(bytes, 0);
        while fields.remaining() >= 4 {
            let (id, len) = (fields.u16()?, usize::from(fields.u16()?));
            let mut field = HeaderReader::at(fields.take(len)?, 0);
            match id {
                ZIP64 => return Err(zip64_unsupported()),
                PKWARE_UNIX if len > PKWARE_UNIX_FILE_BYTES => {
                    return Err(Hazard::Link.in_entry(&printable()));
                }
                STRONG_ENCRYPTION | AES_ENCRYPTION => {
                    return Err(Hazard::Encrypted.in_entry(&printable()));
                }
                ASI_UNIX => {
                    let _checksum = field.u32()?;
                    let mode = field.u16()?;
                    // Of two different modes, some readers use the first and some the last.
                    if extra.mode.is_some_and(|other| other != mode) {
                        return Err(Hazard::HeaderMismatch.in_entry(&printable()));
                    }
                    extra.mode = Some(mode);
                }
                UNICODE_PATH => {
                    let _version_and_checksum = field.take(5)?;
                    if field.take(field.remaining())? != name {
                        return Err(Hazard::HeaderMismatch.in_entry(&printable()));
                    }
                    extra.name_repeated = true;
                }
                _ => {}
            }
        }
        // Fewer than four bytes are padding, which alignment tools leave. Other readers may take
        // bytes other than zero for the start of a field.
        let padding = fields.take(fields.remaining())?;
        if padding.iter().any(|byte| *byte != 0) {
            return Err(damaged());
        }
        Ok(extra)
    }

    /// The name, if every reader decodes it to the same text.
    pub(super) fn decode_name<'a>(
        &self,
        name: &'a [u8],
        flags: EntryFlags,
        made_by: u16,
    ) -> Result<&'a str, SkillError> {
        let Ok(text) = std::str::from_utf8(name) else {
            return Err(Hazard::UnsafePath.in_entry(&String::from_utf8_lossy(name)));
        };
        // Without the UTF-8 flag each reader decodes a name beyond ASCII in its own code page. For
        // archives from the two systems with such code pages Info-ZIP trusts the flag only if the
        // name is repeated in the Unicode field.
        let has_code_pages = matches!(made_by >> 8, FAT | HPFS);
        let agreed = flags.has_utf8_name() && (!has_code_pages || self.name_repeated);
        if text.is_ascii() || agreed {
            return Ok(text);
        }
        Err(SkillError::archive(format!(
            "`{}`: not every program reads this name alike, because of how the zip encodes it; pack it with `skillbox skill package`, or rename the file in plain ASCII",
            printable(text)
        )))
    }

    /// Checks that the mode in the extra fields, if there is one, fits the kind of the entry.
    pub(super) fn check_kind(&self, kind: EntryKind, name: &str) -> Result<(), SkillError> {
        let Some(mode) = self.mode else { return Ok(()) };
        match EntryKind::from_mode(mode.into(), name)? {
            Some(other) if other != kind => Err(Hazard::HeaderMismatch.in_entry(name)),
            _ => Ok(()),
        }
    }
}

const FAT: u16 = 0;
const HPFS: u16 = 6;
