//! The lines of keys and signatures: comments, and fixed numbers of bytes in base64.

use data_encoding::BASE64;

use super::SignatureError;

pub(super) const UNTRUSTED: &str = "untrusted comment: ";
pub(super) const TRUSTED: &str = "trusted comment: ";

/// Reads a text line by line.
pub(super) struct LineReader<'a> {
    what: &'static str,
    rest: std::str::Lines<'a>,
}

impl<'a> LineReader<'a> {
    pub(super) fn new(what: &'static str, text: &'a str) -> LineReader<'a> {
        LineReader { what, rest: text.lines() }
    }

    pub(super) fn malformed<T>(&self, why: &'static str) -> Result<T, SignatureError> {
        Err(SignatureError::Malformed { what: self.what, why })
    }

    /// The next line, which must start with this prefix, without the prefix.
    pub(super) fn comment(&mut self, prefix: &'static str) -> Result<&'a str, SignatureError> {
        match self.rest.next().and_then(|line| line.strip_prefix(prefix)) {
            Some(comment) if !comment.contains(is_forbidden_control) => Ok(comment),
            Some(_) => self.malformed("a comment contains control characters"),
            None => self.malformed("a comment line is missing"),
        }
    }

    /// The next line, which must decode to exactly `N` bytes.
    pub(super) fn bytes<const N: usize>(&mut self) -> Result<[u8; N], SignatureError> {
        let Some(line) = self.rest.next() else { return self.malformed("a line is missing") };
        // Strict base64: only one encoding of given bytes is accepted, so that a signature file
        // cannot be changed without detection.
        let bytes = BASE64.decode(line.as_bytes()).ok().and_then(|bytes| bytes.try_into().ok());
        bytes.map_or_else(|| self.malformed("a line is not base64 of the right length"), Ok)
    }

    pub(super) fn end(mut self) -> Result<(), SignatureError> {
        match self.rest.next() {
            None => Ok(()),
            Some(_) => self.malformed("there are more lines after its end"),
        }
    }
}

/// Minisign puts tabs between the parts of a comment.
fn is_forbidden_control(c: char) -> bool {
    c.is_control() && c != '\t'
}

/// The next `N` bytes of a structure.
pub(super) fn take<const N: usize>(bytes: &mut &[u8]) -> [u8; N] {
    let (head, tail) =
        bytes.split_first_chunk().expect("structures have a fixed length, which was checked");
    *bytes = tail;
    *head
}
