//! A run's log text: bounded, in the order the bytes came, always valid UTF-8. Knows nothing of
//! frames or files.

use sandbox::OutputStream;
use store::{LogSegment, LogStream, Micros};

/// Logs of one run. Merged runs fill only `all`; split ones also the two streams apart.
pub struct Logs {
    all: Text,
    stdout: Option<Text>,
    stderr: Option<Text>,
    pending: [Vec<u8>; 3],
    /// Which part of `all` came from where, and when.
    marks: Vec<Mark>,
}

/// The text up to `ends_at`, from where the mark before ends.
struct Mark {
    ends_at: usize,
    stream: LogStream,
    at: Micros,
}

/// Text of one stream that came within this time is told apart no further.
const MARK_MICROS: Micros = 200_000;
/// More changes than this are not remembered: the rest counts as merged.
const MAX_MARKS: usize = 4096;
/// A longer piece of a log is cut for its readers.
pub const PIECE_BYTES: usize = 64 << 10;

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
        Logs {
            all: Text::new(cap),
            stdout: None,
            stderr: None,
            pending: Default::default(),
            marks: Vec::new(),
        }
    }

    pub fn split(cap: u64) -> Logs {
        Logs { stdout: Some(Text::new(cap)), stderr: Some(Text::new(cap)), ..Logs::merged(cap) }
    }

    /// Takes the next bytes of one stream. A character cut in two by a chunk's edge waits for its
    /// other half, so that bytes of the other stream cannot fall into its middle.
    pub fn push(&mut self, stream: OutputStream, bytes: &[u8]) {
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
        for stream in [OutputStream::Stdout, OutputStream::Stderr, OutputStream::Merged] {
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

    /// What came behind the first `seen` bytes, in pieces of one stream and one time each.
    pub fn since(&self, seen: usize) -> Vec<LogSegment> {
        let mut segments = Vec::new();
        let first = self.marks.partition_point(|mark| mark.ends_at <= seen);
        let mut begins_at = seen;
        for mark in &self.marks[first..] {
            while begins_at < mark.ends_at {
                let ends_at = self.all.boundary(mark.ends_at.min(begins_at + PIECE_BYTES));
                segments.push(LogSegment {
                    ends_at: i64::try_from(ends_at).unwrap_or(i64::MAX),
                    stream: mark.stream,
                    written_at: mark.at,
                    text: self.all.text[begins_at..ends_at].to_owned(),
                });
                begins_at = ends_at;
            }
        }
        segments
    }

    fn append(&mut self, stream: OutputStream, text: &str) {
        let before = self.all.text.len();
        self.all.push(text);
        if self.all.text.len() > before {
            self.mark(stream);
        }
        if let Some(apart) = self.apart(stream) {
            apart.push(text);
        }
    }

    fn mark(&mut self, stream: OutputStream) {
        let (ends_at, at) = (self.all.text.len(), store::now());
        let stream = match stream {
            OutputStream::Stdout => LogStream::Stdout,
            OutputStream::Stderr => LogStream::Stderr,
            OutputStream::Merged => LogStream::Merged,
        };
        let full = self.marks.len() >= MAX_MARKS;
        match self.marks.last_mut() {
            Some(last) if last.stream == stream && at - last.at < MARK_MICROS => {
                last.ends_at = ends_at
            }
            Some(last) if full => (last.ends_at, last.stream) = (ends_at, LogStream::Merged),
            _ => self.marks.push(Mark { ends_at, stream, at }),
        }
    }

    fn apart(&mut self, stream: OutputStream) -> Option<&mut Text> {
        match stream {
            OutputStream::Stdout => self.stdout.as_mut(),
            OutputStream::Stderr => self.stderr.as_mut(),
            OutputStream::Merged => None,
        }
    }

    fn room_of(&mut self, stream: OutputStream) -> usize {
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

    /// The end of the last whole character before `at`.
    fn boundary(&self, mut at: usize) -> usize {
        while !self.text.is_char_boundary(at) {
            at -= 1;
        }
        at
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
            std::str::from_utf8(tail)
                .is_err_and(|error| error.valid_up_to() == 0 && error.error_len().is_none())
        })
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn merged(cap: u64, chunks: &[&[u8]]) -> FinishedLogs {
        let mut logs = Logs::merged(cap);
        chunks.iter().for_each(|chunk| logs.push(OutputStream::Merged, chunk));
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
        logs.push(OutputStream::Stdout, &"é".as_bytes()[..1]);
        logs.push(OutputStream::Stderr, b"x");
        logs.push(OutputStream::Stdout, &"é".as_bytes()[1..]);
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
        assert_eq!(
            merged(5, &[b"aaaaa"]),
            FinishedLogs { logs: "aaaaa".into(), ..FinishedLogs::default() }
        );
    }

    #[test]
    fn pieces_are_the_text_with_its_streams_wherever_a_reader_begins() {
        let mut logs = Logs::split(1 << 20);
        logs.push(OutputStream::Stdout, "é one\n".as_bytes());
        logs.push(OutputStream::Stderr, b"two\n");
        logs.push(OutputStream::Stdout, &b"x".repeat(PIECE_BYTES + 5));
        let all: String = logs.since(0).into_iter().map(|piece| piece.text).collect();
        let pieces = logs.since(0);
        let streams: Vec<_> = pieces.iter().map(|piece| piece.stream.as_str()).collect();
        assert_eq!(streams, ["stdout", "stderr", "stdout", "stdout"]);
        assert_eq!(pieces.last().map(|piece| piece.ends_at), i64::try_from(all.len()).ok());
        for seen in (0..=all.len()).filter(|at| all.is_char_boundary(*at)).take(20) {
            let rest: String = logs.since(seen).into_iter().map(|piece| piece.text).collect();
            assert_eq!(rest, all[seen..]);
        }
        assert!(logs.since(all.len()).is_empty());
        assert_eq!(logs.finish(false).logs, all);
    }

    #[test]
    fn changes_beyond_the_bound_are_merged_and_no_text_is_lost() {
        let mut logs = Logs::split(1 << 20);
        for _ in 0..MAX_MARKS {
            logs.push(OutputStream::Stdout, b"o");
            logs.push(OutputStream::Stderr, b"e");
        }
        let pieces = logs.since(0);
        assert_eq!(pieces.len(), MAX_MARKS);
        assert_eq!(pieces.iter().map(|piece| piece.text.len()).sum::<usize>(), 2 * MAX_MARKS);
        assert_eq!(pieces.last().map(|piece| piece.stream), Some(LogStream::Merged));
    }
}
