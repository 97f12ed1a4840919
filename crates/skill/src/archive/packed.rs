//! The data of one entry, and unpacking it to exactly what its header announced.

use flate2::{Decompress, FlushDecompress, Status};

use super::fields::damaged;
use crate::{Hazard, SkillError};

/// The compression methods we read.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum CompressionMethod {
    Stored,
    Deflated,
}

impl CompressionMethod {
    pub(super) fn from_number(number: u16) -> Option<Self> {
        match number {
            0 => Some(Self::Stored),
            8 => Some(Self::Deflated),
            _ => None,
        }
    }
}

/// An entry's data as it lies in the archive, with what must come out of it.
#[derive(Clone)]
pub(crate) struct PackedData<'a> {
    pub data: &'a [u8],
    pub method: CompressionMethod,
    pub size: u32,
    pub crc: u32,
}

/// How much is unpacked at a time when it is only looked at.
const CHECK_BUFFER_BYTES: usize = 32 << 10;

impl PackedData<'_> {
    /// Unpacks everything and keeps nothing: all that `unpack_into` could complain about is found
    /// without its memory.
    pub(crate) fn verify(&self, name: &str) -> Result<(), SkillError> {
        if self.method == CompressionMethod::Stored {
            return self.check_stored(name);
        }
        let mismatch = || Hazard::HeaderMismatch.in_entry(name);
        let mut crc = flate2::Crc::new();
        let mut stream = Decompress::new(false);
        let mut window = vec![0; CHECK_BUFFER_BYTES];
        loop {
            let (read, made) = (stream.total_in(), stream.total_out());
            let status = self.step(&mut stream, &mut window)?;
            let fresh = usize::try_from(stream.total_out() - made).map_err(|_| mismatch())?;
            crc.update(&window[..fresh]);
            if status == Status::StreamEnd {
                break;
            }
            let stuck = fresh == 0 && stream.total_in() == read;
            if stuck || stream.total_out() > u64::from(self.size) {
                return Err(mismatch());
            }
        }
        if stream.total_in() != self.data.len() as u64 || stream.total_out() != u64::from(self.size)
        {
            return Err(mismatch());
        }
        if crc.sum() == self.crc { Ok(()) } else { Err(damaged()) }
    }

    /// Appends the unpacked bytes to `out` and returns their CRC-32, which was checked.
    pub(crate) fn unpack_into(&self, out: &mut Vec<u8>, name: &str) -> Result<u32, SkillError> {
        let start = out.len();
        match self.method {
            CompressionMethod::Stored => {
                self.check_stored(name)?;
                out.extend_from_slice(self.data);
                return Ok(self.crc);
            }
            CompressionMethod::Deflated => {
                out.resize(start + self.size as usize, 0);
                self.inflate(&mut out[start..], name)?;
            }
        }
        let mut crc = flate2::Crc::new();
        crc.update(&out[start..]);
        if crc.sum() != self.crc {
            return Err(damaged());
        }
        Ok(self.crc)
    }

    fn check_stored(&self, name: &str) -> Result<(), SkillError> {
        if self.data.len() != self.size as usize {
            return Err(Hazard::HeaderMismatch.in_entry(name));
        }
        let mut crc = flate2::Crc::new();
        crc.update(self.data);
        if crc.sum() == self.crc { Ok(()) } else { Err(damaged()) }
    }

    /// Fills `out` and makes sure that the stream ends with it, and the data with the stream.
    fn inflate(&self, out: &mut [u8], name: &str) -> Result<(), SkillError> {
        let mut stream = Decompress::new(false);
        let mut status = self.step(&mut stream, out)?;
        if status != Status::StreamEnd {
            // The output is full, but the mark of the end may still be unread. One byte more shows
            // which it is.
            status = self.step(&mut stream, &mut [0])?;
        }
        let consumed = stream.total_in() == self.data.len() as u64;
        let filled = stream.total_out() == out.len() as u64;
        if status == Status::StreamEnd && consumed && filled {
            return Ok(());
        }
        Err(Hazard::HeaderMismatch.in_entry(name))
    }

    fn step(&self, stream: &mut Decompress, out: &mut [u8]) -> Result<Status, SkillError> {
        let read = usize::try_from(stream.total_in()).map_err(|_| damaged())?;
        let rest = self.data.get(read..).unwrap_or_default();
        stream.decompress(rest, out, FlushDecompress::Finish).map_err(|_| damaged())
    }
}
