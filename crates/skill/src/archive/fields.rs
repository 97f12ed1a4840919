//! Little-endian fields of a zip header, read with bounds checks.

use crate::SkillError;

/// Reads a header field by field.
pub(super) struct HeaderReader<'a> {
    rest: &'a [u8],
}

impl<'a> HeaderReader<'a> {
    /// Starts at an offset. Past the end there is nothing to read.
    pub(super) fn at(bytes: &'a [u8], offset: usize) -> Self {
        let rest = bytes.get(offset..).unwrap_or_default();
        Self { rest }
    }

    pub(super) fn take(&mut self, len: usize) -> Result<&'a [u8], SkillError> {
        let (taken, rest) = self.rest.split_at_checked(len).ok_or_else(damaged)?;
        self.rest = rest;
        Ok(taken)
    }

    pub(super) fn u16(&mut self) -> Result<u16, SkillError> {
        let (taken, rest) = self.rest.split_first_chunk().ok_or_else(damaged)?;
        self.rest = rest;
        Ok(u16::from_le_bytes(*taken))
    }

    pub(super) fn u32(&mut self) -> Result<u32, SkillError> {
        let (taken, rest) = self.rest.split_first_chunk().ok_or_else(damaged)?;
        self.rest = rest;
        Ok(u32::from_le_bytes(*taken))
    }

    pub(super) fn remaining(&self) -> usize {
        self.rest.len()
    }
}

pub(super) fn damaged() -> SkillError {
    SkillError::archive("the zip is damaged or cut short; pack and upload it again")
}

pub(super) fn zip64_unsupported() -> SkillError {
    SkillError::archive(
        "the zip uses the Zip64 extension, which is only needed above 4 GiB; pack the files to disk with plain zip, not through a pipe",
    )
}
