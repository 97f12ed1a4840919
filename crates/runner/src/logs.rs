//! A run's log text: bounded, in the order the bytes came, always valid UTF-8. Knows nothing of frames or files.

use sandbox::Stream;

/// Logs of one run. Merged runs fill only `all`; split ones also the two streams apart.
pub struct Logs {
    all: Text,
    stdout: Option<Text>,
    stderr: Option<Text>,
    pending: [Vec<u8>; 3],
}

/// What is left of the logs when the run is over.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct FinishedLogs {
    pub logs: String,
    pub stdout: Option<String>,
    pub stderr: Option<String>,
    pub truncated: bool,
}

impl Logs {
    pub fn merged(cap: u64) -> Logs {
        Logs { all: Text::new(cap), stdout: None, stderr: None, pending: Default::default() }
    }

    pub fn split(cap: u64) -> Logs {
        Logs { stdout: Some(Text::new(cap)), stderr: Some(Text::new(cap)), ..Logs::merged(cap) }
    }

    /// Takes the next bytes of one stream. A character cut in two by a chunk's edge waits for its other half, so
    /// that bytes of the other stream cannot fall into its middle.
    pub fn push(&mut self, stream: Stream, bytes: &[u8]) {
        let waiting = &mut self.pending[stream as usize];
        let joined;
        let bytes = if waiting.is_empty() {
            bytes
        } else {
            joined = [waiting.as_slice(), bytes].concat();
            joined.as_slice()
        };
        let (whole, rest) = bytes.split_at(bytes.len() - incomplete_tail(bytes));
        *waiting = rest.to_vec();
        // Both texts cut at their own cap; decoding no more than fits keeps a flood cheap.
        let fits = whole.len().min(self.all.room().max(self.room_of(stream)).saturating_add(4));
        self.append(stream, &String::from_utf8_lossy(&whole[..fits]));
    }

    pub fn finish(mut self, truncated_by_guest: bool) -> FinishedLogs {
        for stream in [Stream::Stdout, Stream::Stderr, Stream::Merged] {
            let rest = std::mem::take(&mut self.pending[stream as usize]);
            self.append(stream, &String::from_utf8_lossy(&rest));
        }
        let truncated = truncated_by_guest || self.all.cut;
        FinishedLogs {
            logs: self.all.finish(truncated),
            stdout: self.stdout.map(|text| text.finish(false)),
            stderr: self.stderr.map(|text| text.finish(false)),
            truncated,
        }
    }

    fn append(&mut self, stream: Stream, text: &str) {
        self.all.push(text);
        if let Some(apart) = self.apart(stream) {
            apart.push(text);
        }
    }

    fn apart(&mut self, stream: Stream) -> Option<&mut Text> {
        match stream {
            Stream::Stdout => self.stdout.as_mut(),
            Stream::Stderr => self.stderr.as_mut(),
            Stream::Merged => None,
        }
    }

    fn room_of(&mut self, stream: Stream) -> usize {
        self.apart(stream).map_or(0, |text| text.room())
    }
}

/// Text that stops growing at a cap.
struct Text {
    text: String,
    cap: usize,
    cut: bool,
}

impl Text {
    fn new(cap: u64) -> Text {
        Text { text: String::new(), cap: usize::try_from(cap).unwrap_or(usize::MAX), cut: false }
    }

    fn room(&self) -> usize {
        self.cap - self.text.len()
    }

    fn push(&mut self, more: &str) {
        let mut fits = more.len().min(self.room());
        while !more.is_char_boundary(fits) {
            fits -= 1;
        }
        // Postgres cannot store a NUL in text, and a one-byte stand-in keeps the cap exact.
        self.text.extend(more[..fits].chars().map(|char| if char == '\0' { '?' } else { char }));
        if fits < more.len() {
            // What comes later must not fill a hole that a wide character left.
            self.cut = true;
            self.cap = self.text.len();
        }
    }

    fn finish(mut self, truncated: bool) -> String {
        if truncated || self.cut {
            if !self.text.is_empty() && !self.text.ends_with('\n') {
                self.text.push('\n');
            }
            self.text.push_str("[logs truncated]\n");
        }
        self.text
    }
}

/// Bytes at the end that begin a character without finishing it: at most three.
fn incomplete_tail(bytes: &[u8]) -> usize {
    (1..=bytes.len().min(3))
        .find(|&length| {
            let tail = &bytes[bytes.len() - length..];
            std::str::from_utf8(tail).is_err_and(|error| error.valid_up_to() == 0 && error.error_len().is_none())
        })
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn merged(cap: u64, chunks: &[&[u8]]) -> FinishedLogs {
        let mut logs = Logs::merged(cap);
        chunks.iter().for_each(|chunk| logs.push(Stream::Merged, chunk));
        logs.finish(false)
    }

    #[test]
    fn any_cut_of_a_text_gives_the_same_text() {
        let text = "é€😀 plain\n".as_bytes();
        for first in 0..text.len() {
            for second in first..text.len() {
                let logs = merged(100, &[&text[..first], &text[first..second], &text[second..]]);
                assert_eq!(logs.logs.as_bytes(), text, "{first} {second}");
            }
        }
    }

    #[test]
    fn a_character_survives_the_other_stream_in_its_middle() {
        let mut logs = Logs::split(100);
        logs.push(Stream::Stdout, &"é".as_bytes()[..1]);
        logs.push(Stream::Stderr, b"x");
        logs.push(Stream::Stdout, &"é".as_bytes()[1..]);
        let logs = logs.finish(false);
        assert_eq!(logs.logs, "xé");
        assert_eq!((logs.stdout.as_deref(), logs.stderr.as_deref()), (Some("é"), Some("x")));
    }

    #[test]
    fn invalid_bytes_and_nuls_become_text() {
        assert_eq!(merged(100, &[b"a\xff\0b", b"\xe2\x82"]).logs, "a\u{FFFD}?b\u{FFFD}");
    }

    #[test]
    fn the_cap_cuts_at_a_character_and_says_so() {
        let logs = merged(5, &["aaaa€".as_bytes(), b"b"]);
        assert_eq!(logs.logs, "aaaa\n[logs truncated]\n");
        assert!(logs.truncated);
        let flood = merged(1000, &[&[b'x'; 1_000_000], &[0xff; 1_000_000]]);
        assert!(flood.logs.len() < 1020 && flood.logs.ends_with("x\n[logs truncated]\n"));
        assert_eq!(merged(5, &[b"aaaaa"]), FinishedLogs { logs: "aaaaa".into(), ..FinishedLogs::default() });
    }
}
