//! Standard output and standard error: results on one, words on the other.
//!
//! A reader that goes away (`skillbox exec list | head -1`) is not a failure, so nothing here panics on a closed pipe.

use std::io::{self, IsTerminal, Write};

use comfy_table::{Cell, ContentArrangement, Table, presets};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::args::Format;
use crate::text;

/// How results are printed.
#[derive(Clone, Copy)]
pub struct Output {
    format: Format,
}

impl Output {
    pub fn new(format: Format) -> Self {
        Self { format }
    }

    pub fn is_json(self) -> bool {
        self.format == Format::Json
    }

    /// One line on standard output.
    pub fn line(self, line: &str) -> io::Result<()> {
        self.bytes(format!("{line}\n").as_bytes())
    }

    /// Bytes on standard output, as they are.
    pub fn bytes(self, bytes: &[u8]) -> io::Result<()> {
        let mut stdout = io::stdout().lock();
        stdout.write_all(bytes)?;
        stdout.flush()
    }

    /// Text a skill wrote. On a terminal its control characters are made harmless; in a pipe it is left alone.
    pub fn untrusted(self, text: &str) -> io::Result<()> {
        if io::stdout().is_terminal() {
            return self.bytes(text::harmless(text).as_bytes());
        }
        self.bytes(text.as_bytes())
    }

    /// The server's rows as one compact array.
    pub fn array(self, rows: &[Box<RawValue>]) -> io::Result<()> {
        let rows: Vec<&str> = rows.iter().map(|row| row.get()).collect();
        self.line(&format!("[{}]", rows.join(",")))
    }

    /// The end of a call whose answer has no body: words for a person, a small document for a program.
    pub fn done(self, words: &str, document: &Value) -> io::Result<()> {
        if self.is_json() {
            return self.line(&document.to_string());
        }
        note(words);
        Ok(())
    }

    /// A table without lines around it: easy to read, easy to cut.
    pub fn table(self, header: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> io::Result<()> {
        let mut table = Table::new();
        table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Dynamic);
        if !header.is_empty() {
            table.set_header(header.iter().map(|title| Cell::new(title.to_uppercase())));
        }
        for row in rows {
            table.add_row(row.iter().map(|text| Cell::new(text::harmless(text))));
        }
        for column in table.column_iter_mut() {
            column.set_padding((0, 2));
        }
        for line in table.lines() {
            self.line(line.trim_end())?;
        }
        Ok(())
    }
}

/// A sentence for the person at the terminal. If nobody listens on standard error, nothing is lost.
pub fn note(line: &str) {
    let _ = writeln!(io::stderr().lock(), "{line}");
}

/// Text a skill wrote, for standard error.
pub fn untrusted_note(text: &str) {
    let mut text = text::harmless(text);
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    let _ = io::stderr().lock().write_all(text.as_bytes());
}
