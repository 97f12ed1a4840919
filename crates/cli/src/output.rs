//! Standard output and standard error: results go to the first, messages to the second.
//!
//! A reader that closes the pipe (`skillbox exec list | head -1`) is not a failure, so nothing here
//! panics on a closed pipe.

use std::io::{self, IsTerminal, Write};

use comfy_table::{Cell, ColumnConstraint, ContentArrangement, Table, presets};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::args::Format;
use crate::terminal;

/// How results are printed.
#[derive(Clone, Copy)]
pub(crate) struct Output {
    format: Format,
}

impl Output {
    pub(crate) fn new(format: Format) -> Self {
        Self { format }
    }

    pub(crate) fn is_json(self) -> bool {
        self.format == Format::Json
    }

    /// Writes one line to standard output.
    pub(crate) fn line(self, line: &str) -> io::Result<()> {
        self.bytes(format!("{line}\n").as_bytes())
    }

    /// Writes bytes to standard output unchanged.
    pub(crate) fn bytes(self, bytes: &[u8]) -> io::Result<()> {
        let mut stdout = io::stdout().lock();
        stdout.write_all(bytes)?;
        stdout.flush()
    }

    /// Writes text from a skill to standard output. It is sanitized on a terminal and unchanged in a
    /// pipe.
    pub(crate) fn untrusted(self, text: &str) -> io::Result<()> {
        if io::stdout().is_terminal() {
            return self.bytes(terminal::sanitize(text).as_bytes());
        }
        self.bytes(text.as_bytes())
    }

    /// Writes the server's rows as one compact JSON array.
    pub(crate) fn array(self, rows: &[Box<RawValue>]) -> io::Result<()> {
        let rows: Vec<&str> = rows.iter().map(|row| row.get()).collect();
        self.line(&format!("[{}]", rows.join(",")))
    }

    /// Confirms a call whose response has no body: a message for people, a JSON document for
    /// programs.
    pub(crate) fn confirm(self, message: &str, document: &Value) -> io::Result<()> {
        if self.is_json() {
            return self.line(&document.to_string());
        }
        note(message);
        Ok(())
    }

    /// Writes a table without borders, which is easy to read and easy to process with `cut`.
    pub(crate) fn table(
        self,
        header: &[&str],
        rows: impl IntoIterator<Item = Vec<String>>,
    ) -> io::Result<()> {
        let mut table = table(header, rows);
        // Cells wrap only on a terminal. A very narrow one would show columns of single letters, so
        // there the terminal itself wraps the lines.
        if table.width().is_some_and(|width| width >= MIN_WRAP_WIDTH) {
            table.set_content_arrangement(ContentArrangement::Dynamic);
        }
        self.bytes(lines(&table).as_bytes())
    }
}

/// The narrowest terminal for which cells are wrapped.
const MIN_WRAP_WIDTH: u16 = 60;

/// Only the last column wraps, because ids and names must stay in one piece to be copied.
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

/// Writes a message to standard error. Errors are ignored: a closed standard error loses no result.
pub(crate) fn note(line: &str) {
    let _ = writeln!(io::stderr().lock(), "{line}");
}

/// Writes a piece of a log from a skill to standard error, without ending the line: the next piece
/// continues it.
pub(crate) fn write_untrusted_chunk(text: &str) {
    let _ = io::stderr().lock().write_all(terminal::sanitize(text).as_bytes());
}

/// Writes complete text from a skill to standard error, and ends its last line.
pub(crate) fn write_untrusted_note(text: &str) {
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
    fn a_table_has_a_header_and_no_trailing_spaces() {
        let text = lines(&table(&["id", "error"], rows()));
        assert_eq!(
            text,
            "ID                                    ERROR\n0190c0de-0000-7000-8000-000000000000  a rather long sentence \u{fffd}[2J about it\n"
        );
        assert_eq!(lines(&table(&[], [vec!["  a".into(), "b".into()]])), "  a  b\n");
    }

    #[test]
    fn a_narrow_terminal_wraps_the_last_column_only() {
        let mut table = table(&["id", "error"], rows());
        table.set_content_arrangement(ContentArrangement::Dynamic).set_width(60);
        let text = lines(&table);
        assert!(text.contains("0190c0de-0000-7000-8000-000000000000  a rather long\n"), "{text}");
    }
}
