//! The log of a run as text: bounded, in the order in which the bytes came, always valid UTF-8. It
//! does not know frames or files.

use sandbox::OutputStream;
use store::{LogSegment, LogStream, Micros};

/// The log of one run. A merged run fills only `all`; a split one also the two streams.
pub(crate) struct LogBuffer {
    all: CappedText,
    stdout: Option<CappedText>,
    stderr: Option<CappedText>,
    pending: [Vec<u8>; 3],
    /// Which part of `all` came from which stream, and when.
    marks: Vec<Mark>,
}

/// Origin of the text from the end of the mark before up to `ends_at`.
struct Mark {
    ends_at: usize,
    stream: LogStream,
    at: Micros,
}

/// Text of one stream within this time has one mark.
const MARK_MICROS: Micros = 200_000;
/// Bounds the marks; text beyond them counts as merged.
const MAX_MARKS: usize = 4096;
/// Longer segments of a log are split for subscribers.
pub(crate) const MAX_SEGMENT_BYTES: usize = 64 << 10;

/// The log of a run that is over.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct FinishedLogs {
    pub logs: String,
    pub stdout: Option<String>,
    pub stderr: Option<String>,
    pub truncated: bool,
}

impl LogBuffer {
    pub(crate) fn merged(cap: u64) -> LogBuffer {
        LogBuffer {
            all: CappedText::new(cap),
            stdout: None,
            stderr: None,
            pending: Default::default(),
            marks: Vec::new(),
        }
    }

    pub(crate) fn split(cap: u64) -> LogBuffer {
        LogBuffer {
            stdout: Some(CappedText::new(cap)),
            stderr: Some(CappedText::new(cap)),
            ..LogBuffer::merged(cap)
        }
    }

    /// Appends the next bytes of one stream. A character that a chunk's end cuts in two is held
    /// back until its other half comes, so that the other stream cannot get into its middle.
    pub(crate) fn push(&mut self, stream: OutputStream, bytes: &[u8]) {
        let held_back = &mut self.pending[stream as usize];
        let joined;
        let bytes = if held_back.is_empty() {
            bytes
        } else {
            joined = [held_back.as_slice(), bytes].concat();
            joined.as_slice()
        };
        let (whole, rest) = bytes.split_at(bytes.len() - incomplete_tail(bytes));
        *held_back = rest.to_vec();
        // Both texts are cut at their own cap. Decoding no more than fits bounds the cost of a script
        // that floods its log.
        let fits =
            whole.len().min(self.all.remaining().max(self.remaining_of(stream)).saturating_add(4));
        self.append(stream, &String::from_utf8_lossy(&whole[..fits]));
    }

    pub(crate) fn finish(mut self, truncated_by_guest: bool) -> FinishedLogs {
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

    /// The text after the first `seen` bytes, in segments of one stream and one time each.
    pub(crate) fn since(&self, seen: usize) -> Vec<LogSegment> {
        let mut segments = Vec::new();
        let first = self.marks.partition_point(|mark| mark.ends_at <= seen);
        let mut begins_at = seen;
        for mark in &self.marks[first..] {
            while begins_at < mark.ends_at {
                let ends_at = self.all.boundary(mark.ends_at.min(begins_at + MAX_SEGMENT_BYTES));
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
        if let Some(single) = self.single_stream(stream) {
            single.push(text);
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

    fn single_stream(&mut self, stream: OutputStream) -> Option<&mut CappedText> {
        match stream {
            OutputStream::Stdout => self.stdout.as_mut(),
            OutputStream::Stderr => self.stderr.as_mut(),
            OutputStream::Merged => None,
        }
    }

    fn remaining_of(&mut self, stream: OutputStream) -> usize {
        self.single_stream(stream).map_or(0, |text| text.remaining())
    }
}

/// Text that stops growing at a cap.
struct CappedText {
    text: String,
    cap: usize,
    cut: bool,
}

impl CappedText {
    fn new(cap: u64) -> CappedText {
        CappedText {
            text: String::new(),
            cap: usize::try_from(cap).unwrap_or(usize::MAX),
            cut: false,
        }
    }

    fn remaining(&self) -> usize {
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
        let mut fits = more.len().min(self.remaining());
        while !more.is_char_boundary(fits) {
            fits -= 1;
        }
        // Postgres cannot store a NUL in text; a replacement of one byte keeps the cap exact.
        self.text.extend(more[..fits].chars().map(|char| if char == '\0' { '?' } else { char }));
        if fits < more.len() {
            // Later text must not fill the gap that a wide character left at the end.
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

/// The number of bytes at the end that begin a character without completing it: at most three.
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
        let mut logs = LogBuffer::merged(cap);
        chunks.iter().for_each(|chunk| logs.push(OutputStream::Merged, chunk));
        logs.finish(false)
    }

    #[test]
    fn chunk_boundaries_do_not_change_the_text() {
        let text = "é€😀 plain\n".as_bytes();
        for first in 0..text.len() {
            for second in first..text.len() {
                let logs = merged(100, &[&text[..first], &text[first..second], &text[second..]]);
                assert_eq!(logs.logs.as_bytes(), text, "{first} {second}");
            }
        }
    }

    #[test]
    fn a_split_character_is_not_interrupted_by_the_other_stream() {
        let mut logs = LogBuffer::split(100);
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
    fn text_beyond_the_cap_is_cut_at_a_character_and_marked() {
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
    fn segments_are_the_text_with_its_streams_from_any_offset() {
        let mut logs = LogBuffer::split(1 << 20);
        logs.push(OutputStream::Stdout, "é one\n".as_bytes());
        logs.push(OutputStream::Stderr, b"two\n");
        logs.push(OutputStream::Stdout, &b"x".repeat(MAX_SEGMENT_BYTES + 5));
        let all: String = logs.since(0).into_iter().map(|segment| segment.text).collect();
        let segments = logs.since(0);
        let streams: Vec<_> = segments.iter().map(|segment| segment.stream.as_str()).collect();
        assert_eq!(streams, ["stdout", "stderr", "stdout", "stdout"]);
        assert_eq!(segments.last().map(|segment| segment.ends_at), i64::try_from(all.len()).ok());
        for seen in (0..=all.len()).filter(|at| all.is_char_boundary(*at)).take(20) {
            let rest: String = logs.since(seen).into_iter().map(|segment| segment.text).collect();
            assert_eq!(rest, all[seen..]);
        }
        assert!(logs.since(all.len()).is_empty());
        assert_eq!(logs.finish(false).logs, all);
    }

    #[test]
    fn stream_changes_beyond_the_maximum_are_merged_without_losing_text() {
        let mut logs = LogBuffer::split(1 << 20);
        for _ in 0..MAX_MARKS {
            logs.push(OutputStream::Stdout, b"o");
            logs.push(OutputStream::Stderr, b"e");
        }
        let segments = logs.since(0);
        assert_eq!(segments.len(), MAX_MARKS);
        assert_eq!(segments.iter().map(|segment| segment.text.len()).sum::<usize>(), 2 * MAX_MARKS);
        assert_eq!(segments.last().map(|segment| segment.stream), Some(LogStream::Merged));
    }
}
