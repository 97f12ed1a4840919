//! Standard output and standard error: results on one, words on the other.
//!
//! A reader that goes away (`skillbox exec list | head -1`) is not a failure, so nothing here
//! panics on a closed pipe.

use std::io::{self, IsTerminal, Write};

use comfy_table::{Cell, ColumnConstraint, ContentArrangement, Table, presets};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::args::Format;
use crate::terminal;

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

    /// Text a skill wrote. On a terminal its control characters are made harmless; in a pipe it is
    /// left alone.
    pub fn untrusted(self, text: &str) -> io::Result<()> {
        if io::stdout().is_terminal() {
            return self.bytes(terminal::sanitize(text).as_bytes());
        }
        self.bytes(text.as_bytes())
    }

    /// The server's rows as one compact array.
    pub fn array(self, rows: &[Box<RawValue>]) -> io::Result<()> {
        let rows: Vec<&str> = rows.iter().map(|row| row.get()).collect();
        self.line(&format!("[{}]", rows.join(",")))
    }

    /// The end of a call whose answer has no body: words for a person, a small document for a
    /// program.
    pub fn done(self, words: &str, document: &Value) -> io::Result<()> {
        if self.is_json() {
            return self.line(&document.to_string());
        }
        note(words);
        Ok(())
    }

    /// A table without lines around it: easy to read, easy to cut.
    pub fn table(
        self,
        header: &[&str],
        rows: impl IntoIterator<Item = Vec<String>>,
    ) -> io::Result<()> {
        let mut table = table(header, rows);
        // Only on a terminal, and not on one so narrow that nothing but letters under letters would
        // come of it.
        if table.width().is_some_and(|width| width >= NARROWEST) {
            table.set_content_arrangement(ContentArrangement::Dynamic);
        }
        self.bytes(lines(&table).as_bytes())
    }
}

/// Below this many columns lines are left to the terminal to break.
const NARROWEST: u16 = 60;

/// Only the last column gives way: ids and names are there to be copied.
fn table(header: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    if !header.is_empty() {
        table.set_header(header.iter().map(|title| Cell::new(title.to_uppercase())));
    }
    for row in rows {
        table.add_row(row.iter().map(|text| Cell::new(terminal::sanitize(text))));
    }
    let columns = table.column_count();
    for (index, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, 2));
        if index + 1 < columns {
            column.set_constraint(ColumnConstraint::ContentWidth);
        }
    }
    table
}

fn lines(table: &Table) -> String {
    table.lines().map(|line| format!("{}\n", line.trim_end())).collect()
}

/// A sentence for the person at the terminal. If nobody listens on standard error, nothing is lost.
pub fn note(line: &str) {
    let _ = writeln!(io::stderr().lock(), "{line}");
}

/// A piece of text a skill is still writing, for standard error: whatever comes next goes on where
/// it ends.
pub fn untrusted_piece(text: &str) {
    let _ = io::stderr().lock().write_all(terminal::sanitize(text).as_bytes());
}

/// Text a skill wrote, for standard error.
pub fn untrusted_note(text: &str) {
    let mut text = terminal::sanitize(text);
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    let _ = io::stderr().lock().write_all(text.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows() -> [Vec<String>; 1] {
        [vec![
            "0190c0de-0000-7000-8000-000000000000".into(),
            "a rather long sentence \x1b[2J about it".into(),
        ]]
    }

    #[test]
    fn a_table_has_a_header_and_no_trailing_blanks() {
        let text = lines(&table(&["id", "error"], rows()));
        assert_eq!(
            text,
            "ID                                    ERROR\n0190c0de-0000-7000-8000-000000000000  a rather long sentence \u{fffd}[2J about it\n"
        );
        assert_eq!(lines(&table(&[], [vec!["  a".into(), "b".into()]])), "  a  b\n");
    }

    #[test]
    fn a_narrow_terminal_breaks_the_last_column_only() {
        let mut table = table(&["id", "error"], rows());
        table.set_content_arrangement(ContentArrangement::Dynamic).set_width(60);
        let text = lines(&table);
        assert!(text.contains("0190c0de-0000-7000-8000-000000000000  a rather long\n"), "{text}");
    }
}
