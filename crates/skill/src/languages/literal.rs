//! String literals as Python and JavaScript write them.

/// The value of a keyword argument of the call at the start of the text. The value may be any
/// expression; only a string literal is understood.
pub(super) fn keyword_argument(call: &str, name: &str) -> Option<String> {
    const MAX_CALL_BYTES: usize = 2_000;
    let call = prefix_of(call, MAX_CALL_BYTES);
    let (_, value) = call.split_once(name)?;
    literal(value.trim_start().strip_prefix('=')?)
}

/// The string literal at the start of the text, after parentheses and blanks, joined with the
/// literals that follow it directly.
pub(super) fn literal(text: &str) -> Option<String> {
    let mut rest = text.trim_start_matches(|c: char| c.is_whitespace() || c == '(');
    let mut joined = None::<String>;
    while let Some((piece, after)) = quoted(rest) {
        joined.get_or_insert_default().push_str(&piece);
        rest = after.trim_start();
    }
    joined
}

/// One quoted string and the text after it. A formatted string (`f"…"`) is none, because its value
/// is only known at run time.
pub(super) fn quoted(text: &str) -> Option<(String, &str)> {
    let text = text.trim_start_matches(['r', 'R', 'u', 'U']);
    let mark = ["\"\"\"", "'''", "\"", "'", "`"].into_iter().find(|mark| text.starts_with(mark))?;
    let inside = &text[mark.len()..];
    let mut piece = String::new();
    let mut at = 0;
    while at < inside.len() {
        let remaining = &inside[at..];
        if let Some(after) = remaining.strip_prefix(mark) {
            return Some((piece, after));
        }
        let mut characters = remaining.chars();
        let character = characters.next()?;
        at += character.len_utf8();
        if character != '\\' {
            piece.push(character);
            continue;
        }
        let escaped = characters.next()?;
        at += escaped.len_utf8();
        match escaped {
            'n' => piece.push('\n'),
            // A backslash at the end of a line continues the string on the next one.
            '\n' => {}
            other => piece.push(other),
        }
    }
    None
}

/// At most so many bytes from the start of the text, without splitting a character.
fn prefix_of(text: &str, bytes: usize) -> &str {
    let end = (0..=bytes.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    &text[..end]
}
