//! Framing: a little-endian `u32` length, then that many bytes of a postcard-encoded message.
//!
//! The length is checked before anything is allocated, because the peer may be hostile.

use serde::{Deserialize, Serialize};

/// The largest frame the host sends; a `Run` with its whole environment is the largest message.
pub const MAX_TO_GUEST: usize = 4 << 20;

/// The largest frame the host accepts from a guest: one chunk and its header.
pub const MAX_FROM_GUEST: usize = CHUNK + 8 * 1024;

/// File and log bytes are sent in chunks of at most this size.
pub const CHUNK: usize = 128 * 1024;

/// The length prefix.
pub const HEADER: usize = 4;

/// Why a message could not be framed or read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrameError {
    /// The frame is longer than the receiver allows.
    TooLong,
    /// The bytes are not a message of the expected type.
    Malformed,
}

impl std::fmt::Display for FrameError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            FrameError::TooLong => "frame is longer than allowed",
            FrameError::Malformed => "frame is not a valid message",
        })
    }
}

impl std::error::Error for FrameError {}

/// Appends one framed message to `buffer`.
pub fn encode<M: Serialize>(
    message: &M,
    max: usize,
    buffer: &mut Vec<u8>,
) -> Result<(), FrameError> {
    let start = buffer.len();
    buffer.extend_from_slice(&[0; HEADER]);
    let body = postcard::to_extend(message, Extend(buffer)).map_err(|_| FrameError::Malformed)?.0;
    let length = body.len() - start - HEADER;
    if length > max {
        body.truncate(start);
        return Err(FrameError::TooLong);
    }
    body[start..start + HEADER].copy_from_slice(&(length as u32).to_le_bytes());
    Ok(())
}

/// Decodes the length prefix and rejects a frame longer than `max`.
pub fn body_length(header: [u8; HEADER], max: usize) -> Result<usize, FrameError> {
    let length = u32::from_le_bytes(header) as usize;
    if length > max { Err(FrameError::TooLong) } else { Ok(length) }
}

/// Reads one message; trailing bytes make it malformed.
pub fn decode<'a, M: Deserialize<'a>>(body: &'a [u8]) -> Result<M, FrameError> {
    match postcard::take_from_bytes(body) {
        Ok((message, [])) => Ok(message),
        _ => Err(FrameError::Malformed),
    }
}

/// Allows postcard to append to a borrowed vector.
struct Extend<'a>(&'a mut Vec<u8>);

impl<'a> std::iter::Extend<u8> for Extend<'a> {
    fn extend<I: IntoIterator<Item = u8>>(&mut self, bytes: I) {
        self.0.extend(bytes);
    }
}
