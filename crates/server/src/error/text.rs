//! Text of error messages: leaf messages as sentences, and names that the client sent.

/// Enough to recognise a name; the rest of a longer one is left out of the message.
const MAX_ECHOED_CHARS: usize = 128;

/// A leaf error's message with a full stop. Leaf crates write messages for logs, where they follow
/// a colon.
pub(super) fn with_full_stop(text: &str) -> String {
    let stop = if text.ends_with(['.', '!', '?']) { "" } else { "." };
    format!("{text}{stop}")
}

/// The message with a full stop and a capital letter, for messages that do not begin with the name
/// of a field.
pub(super) fn as_sentence(text: &str) -> String {
    let (first, rest) = text.split_at(text.chars().next().map_or(0, char::len_utf8));
    with_full_stop(&format!("{}{rest}", first.to_uppercase()))
}

/// A name as the client sent it, in quotes: cut to a bounded length and with quotes, control
/// characters and invisible characters escaped, because messages end up in terminals and logs.
pub(crate) fn quoted(name: &str) -> String {
    match name.char_indices().nth(MAX_ECHOED_CHARS) {
        Some((end, _)) => format!("{:?}", format!("{}…", &name[..end])),
        None => format!("{name:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoted_names_are_escaped_and_bounded() {
        assert_eq!(quoted("word-count"), "\"word-count\"");
        assert_eq!(quoted("a\"b\n\u{1b}[2J\u{202e}"), r#""a\"b\n\u{1b}[2J\u{202e}""#);
        assert_eq!(quoted(&"ü".repeat(MAX_ECHOED_CHARS)).chars().count(), MAX_ECHOED_CHARS + 2);
        let long = quoted(&"ü".repeat(1 << 20));
        assert_eq!(long.chars().count(), MAX_ECHOED_CHARS + 3, "the quotes and an ellipsis");
        assert!(long.ends_with("…\""), "{long}");
    }

    #[test]
    fn messages_become_sentences() {
        assert_eq!(as_sentence("this tenant exists"), "This tenant exists.");
        assert_eq!(as_sentence(""), ".");
        assert_eq!(with_full_stop("timeout must be positive."), "timeout must be positive.");
    }
}
