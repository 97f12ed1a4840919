//! Characters that are invisible or change the order of the text.

/// Whether this character can hide text from people but not from programs and models: zero width,
/// direction marks, tags, misplaced byte order marks.
///
/// The joiners U+200C and U+200D are not among them: scripts and emoji need them.
pub(crate) fn is_invisible(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{200b}' | '\u{200e}'..='\u{200f}' | '\u{2060}'..='\u{2065}' | '\u{206a}'..='\u{206f}'
        | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{1d173}'..='\u{1d17a}')
        || is_tag(c)
        || is_bidi(c)
}

/// Whether this character changes the order in which the text around it is shown.
pub(crate) fn is_bidi(c: char) -> bool {
    matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Whether this is a tag character: an invisible copy of ASCII, which models read.
pub(crate) fn is_tag(c: char) -> bool {
    matches!(c, '\u{e0000}'..='\u{e007f}')
}

/// Whether some file system ignores this character when it compares names.
pub(crate) fn is_ignorable(c: char) -> bool {
    is_invisible(c)
        || matches!(c, '\u{200c}' | '\u{200d}' | '\u{34f}' | '\u{180b}'..='\u{180f}' | '\u{fe00}'..='\u{fe0f}')
}
