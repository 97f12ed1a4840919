//! The data of one entry, and unpacking it to exactly what its header announced.

use flate2::{Decompress, FlushDecompress, Status};

use super::fields::cut_short;
use crate::{Hazard, SkillError};

/// The compression methods we read.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Method {
    Stored,
    Deflated,
}

impl Method {
    pub(super) fn from_number(number: u16) -> Option<Self> {
        match number {
            0 => Some(Self::Stored),
            8 => Some(Self::Deflated),
            _ => None,
        }
    }
}

/// An entry's data as it lies in the archive, with what must come out of it.
pub(crate) struct Packed<'a> {
    pub data: &'a [u8],
    pub method: Method,
    pub size: u32,
    pub crc: u32,
}

impl Packed<'_> {
    /// Appends the unpacked bytes to `out` and returns their CRC-32, which was checked.
    pub(crate) fn append_to(&self, out: &mut Vec<u8>, name: &str) -> Result<u32, SkillError> {
        let start = out.len();
        match self.method {
            Method::Stored if self.data.len() != self.size as usize => {
                return Err(Hazard::HeaderMismatch.of(name));
            }
            Method::Stored => out.extend_from_slice(self.data),
            Method::Deflated => {
                out.resize(start + self.size as usize, 0);
                self.inflate(&mut out[start..], name)?;
            }
        }
        let mut crc = flate2::Crc::new();
        crc.update(&out[start..]);
        if crc.sum() != self.crc {
            return Err(cut_short());
        }
        Ok(self.crc)
    }

    /// Fills `out` and makes sure that the stream ends with it, and the data with the stream.
    fn inflate(&self, out: &mut [u8], name: &str) -> Result<(), SkillError> {
        let mut stream = Decompress::new(false);
        let mut status = self.step(&mut stream, out)?;
        if status != Status::StreamEnd {
            // The output is full, but the mark of the end may still be unread. One byte more shows which it is.
            status = self.step(&mut stream, &mut [0])?;
        }
        let consumed = stream.total_in() == self.data.len() as u64;
        let filled = stream.total_out() == out.len() as u64;
        if status == Status::StreamEnd && consumed && filled {
            return Ok(());
        }
        Err(Hazard::HeaderMismatch.of(name))
    }

    fn step(&self, stream: &mut Decompress, out: &mut [u8]) -> Result<Status, SkillError> {
        let read = usize::try_from(stream.total_in()).map_err(|_| cut_short())?;
        let rest = self.data.get(read..).unwrap_or_default();
        stream.decompress(rest, out, FlushDecompress::Finish).map_err(|_| cut_short())
    }
}
