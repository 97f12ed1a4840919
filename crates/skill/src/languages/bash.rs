//! Options of Bash. Its scripts are described by their leading comment only.

use super::LanguageCode;
use super::options::is_plain;

pub(super) const CODE: LanguageCode = LanguageCode { option_words, description: |_| None };

fn option_words(word: &str, next: Option<&str>) -> usize {
    const LETTERS: &str = "abefhklmnprtuvxBCEHPT";
    const LONG_OPTIONS: [&str; 6] =
        ["--posix", "--login", "--norc", "--noprofile", "--restricted", "--verbose"];
    let Some(letters) = word.strip_prefix(['-', '+']).filter(|letters| !letters.is_empty()) else {
        return 0;
    };
    // `-o` and `-O`, also at the end of a group such as `-euo`, take the next word as their value.
    let before_value = letters.strip_suffix(['o', 'O']);
    let allowed = before_value.unwrap_or(letters).chars().all(|letter| LETTERS.contains(letter));
    match (before_value, next) {
        _ if LONG_OPTIONS.contains(&word) => 1,
        (None, _) if allowed => 1,
        (Some(_), Some(value)) if allowed && is_plain(value) => 2,
        _ => 0,
    }
}
