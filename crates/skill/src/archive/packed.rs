//! The data of one entry, and unpacking it to exactly the size and checksum of its header.

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

/// An entry's data as it is in the archive, with the size and checksum that it must unpack to.
#[derive(Clone)]
pub(crate) struct PackedData<'a> {
    pub data: &'a [u8],
    pub method: CompressionMethod,
    pub size: u32,
    pub crc: u32,
}

/// How much is unpacked at a time when the result is not kept.
const CHECK_BUFFER_BYTES: usize = 32 << 10;

impl PackedData<'_> {
    /// Unpacks everything into a small buffer: finds every error that `unpack_into` would, without
    /// memory for the result.
    pub(crate) fn verify(&self, name: &str) -> Result<(), SkillError> {
        if self.method == CompressionMethod::Stored {
            return self.check_stored(name);
        }
        let mismatch = || Hazard::HeaderMismatch.in_entry(name);
        let mut crc = flate2::Crc::new();
        let mut stream = Decompress::new(false);
        let mut window = vec![0; CHECK_BUFFER_BYTES];
        loop {
            let (read, written) = (stream.total_in(), stream.total_out());
            let status = self.step(&mut stream, &mut window)?;
            let unpacked = usize::try_from(stream.total_out() - written).map_err(|_| mismatch())?;
            crc.update(&window[..unpacked]);
            if status == Status::StreamEnd {
                break;
            }
            // Truncated data never reaches the end of the stream and would loop forever.
            let stuck = unpacked == 0 && stream.total_in() == read;
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

    /// Appends the unpacked bytes to `out` and returns their verified CRC-32.
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

    /// Fills `out` and checks that the stream ends exactly there, and the data with the stream.
    fn inflate(&self, out: &mut [u8], name: &str) -> Result<(), SkillError> {
        let mut stream = Decompress::new(false);
        let mut status = self.step(&mut stream, out)?;
        if status != Status::StreamEnd {
            // The output is full, but the end marker of the stream may still be unread. Room for
            // one more byte shows whether the stream ends or has more data than declared.
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
