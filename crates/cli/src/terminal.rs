//! Sanitizes text from skills before it reaches a terminal.
//!
//! Such text is untrusted: escape sequences could move the cursor, hide lines or rename the
//! window. Pipes get the bytes unchanged, because programs read them.

use std::io::{self, Write};

/// Replaces control characters except newline and tab, so that no escape sequence is left.
pub(crate) fn sanitize(text: &str) -> String {
    let replace =
        |c: char| if c.is_control() && !matches!(c, '\n' | '\t') { '\u{fffd}' } else { c };
    text.chars().map(replace).collect()
}

/// Writes a stream of bytes piece by piece, sanitized if the destination is a terminal.
pub(crate) struct StreamWriter {
    is_terminal: bool,
    /// The beginning of a character whose last bytes have not arrived yet.
    pending: Vec<u8>,
}

impl StreamWriter {
    pub(crate) fn new(is_terminal: bool) -> StreamWriter {
        StreamWriter { is_terminal, pending: Vec::new() }
    }

    pub(crate) fn write(&mut self, to: &mut impl Write, bytes: &[u8]) -> io::Result<()> {
        match self.is_terminal {
            true => to.write_all(sanitize(&self.decode(bytes)).as_bytes())?,
            false => to.write_all(bytes)?,
        }
        to.flush()
    }

    /// Decodes whole characters only: a read may end in the middle of one, and decoding its halves
    /// separately would show two replacement characters.
    fn decode(&mut self, bytes: &[u8]) -> String {
        self.pending.extend_from_slice(bytes);
        let bytes = std::mem::take(&mut self.pending);
        let whole = match std::str::from_utf8(&bytes) {
            Err(error) if error.error_len().is_none() => error.valid_up_to(),
            _ => bytes.len(),
        };
        self.pending = bytes[whole..].to_vec();
        String::from_utf8_lossy(&bytes[..whole]).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escape_sequences_are_made_visible() {
        assert_eq!(sanitize("a\x1b[2Jb\r\n\tc\u{9b}d"), "a\u{fffd}[2Jb\u{fffd}\n\tc\u{fffd}d");
    }

    #[test]
    fn a_terminal_gets_whole_characters_and_no_escape_sequences() {
        let mut stream = StreamWriter::new(true);
        let mut written = Vec::new();
        for byte in "é\x1b[2J€".as_bytes() {
            stream.write(&mut written, &[*byte]).expect("memory");
        }
        assert_eq!(String::from_utf8(written).expect("text"), "é\u{fffd}[2J€");
    }

    #[test]
    fn a_pipe_gets_every_byte() {
        let mut written = Vec::new();
        StreamWriter::new(false).write(&mut written, b"\xff\0\x1b[2J").expect("memory");
        assert_eq!(written, b"\xff\0\x1b[2J");
    }
}
