//! Text that is not shown, or shown in another order than it is read.

use super::source::{ScannedFile, TextKind};
use crate::error::printable;
use crate::invisible::{is_bidi, is_invisible, is_tag};
use crate::{Finding, Severity};

/// This many zero-width characters in a row are a message; scripts and emoji need one or two.
const MIN_HIDDEN_RUN: usize = 8;

pub(super) fn check_file_name(path: &str) -> Option<Finding> {
    if path.chars().any(is_bidi) {
        let message = "the file's name contains a character that reverses the direction of text, so it is not what it looks like; rename it";
        return Some(
            Finding::new("bidirectional_text", Severity::Error, message).at(&printable(path), None),
        );
    }
    let message = "the file's name contains an invisible character; rename it";
    path.chars().any(is_invisible).then(|| {
        Finding::new("invisible_character", Severity::Warning, message).at(&printable(path), None)
    })
}

pub(super) fn check_text(source: &ScannedFile<'_>) -> Vec<Finding> {
    if source.text.is_ascii() {
        return Vec::new();
    }
    let mut findings = Vec::new();
    for (number, line) in source.lines() {
        // A byte order mark is legitimate only at the start of a file.
        let line = if number == 1 { line.strip_prefix('\u{feff}').unwrap_or(line) } else { line };
        if !line.is_ascii() {
            findings
                .extend(check_line(source, line).map(|finding| finding.at(source.path, number)));
        }
    }
    findings
}

/// The most severe finding of one line.
fn check_line(source: &ScannedFile<'_>, line: &str) -> Option<Finding> {
    if let Some(message) = hidden_message(line) {
        let message = format!(
            "the line contains text that is invisible to people and read by models (`{}`); remove it",
            printable(&message)
        );
        return Some(Finding::new("hidden_text", Severity::Error, message));
    }
    if line.contains(is_bidi) && !(source.kind != TextKind::Code && is_right_to_left(line)) {
        let severity =
            if source.kind == TextKind::Code { Severity::Error } else { Severity::Warning };
        let message = "a character reverses the direction of the text, so it is not read as it is shown; remove it";
        return Some(Finding::new("bidirectional_text", severity, message));
    }
    // Data often contains pasted text, which neither people nor models follow.
    let character = line.chars().find(|c| is_invisible(*c) && !is_bidi(*c) && !is_tag(*c))?;
    let matters =
        source.kind != TextKind::Data && !(is_direction_mark(character) && is_right_to_left(line));
    let message = format!(
        "the invisible character U+{:04X} can hide text from people that models read; remove it",
        u32::from(character)
    );
    matters.then(|| Finding::new("invisible_character", Severity::Warning, message))
}

/// The message that is written in invisible characters, if there is one.
fn hidden_message(line: &str) -> Option<String> {
    let tags = decode_tag_text(line);
    if !tags.is_empty() {
        return Some(tags);
    }
    let mut run = 0;
    for c in line.chars() {
        let silent = matches!(c, '\u{200b}'..='\u{200f}' | '\u{2060}'..='\u{2064}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{e0100}'..='\u{e01ef}');
        run = if silent { run + 1 } else { 0 };
        if run == MIN_HIDDEN_RUN {
            return Some("characters without width".to_owned());
        }
    }
    None
}

/// The decoded text in tag characters, without the flags of regions such as Scotland, which are
/// encoded in them.
fn decode_tag_text(line: &str) -> String {
    const FLAG: char = '\u{1f3f4}';
    const MAX_REGION_CHARS: usize = 6;
    let mut text = String::new();
    let mut of_flag = 0;
    for c in line.chars() {
        if c == FLAG {
            of_flag = MAX_REGION_CHARS + 1;
        } else if !is_tag(c) {
            of_flag = 0;
        } else if of_flag > 0 {
            of_flag -= 1;
        } else {
            text.extend(char::from_u32(u32::from(c) - 0xe0000).filter(|c| !c.is_control()));
        }
    }
    text
}

fn is_direction_mark(c: char) -> bool {
    matches!(c, '\u{200e}' | '\u{200f}')
}

/// Whether the line has letters of right-to-left scripts such as Hebrew and Arabic, which sometimes
/// need direction marks.
fn is_right_to_left(line: &str) -> bool {
    line.chars().any(
        |c| matches!(c, '\u{590}'..='\u{8ff}' | '\u{fb1d}'..='\u{fdff}' | '\u{fe70}'..='\u{fefc}'),
    )
}
