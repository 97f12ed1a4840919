//! Options of Python, and the description in an argument parser or a docstring.

use super::LanguageCode;
use super::literal::{keyword_argument, quoted};
use super::options::is_plain;

pub(super) const CODE: LanguageCode = LanguageCode { option_words, description };

fn option_words(word: &str, next: Option<&str>) -> usize {
    const LETTERS: &str = "bBdEIOPqRsSuvx";
    let Some(letters) = word.strip_prefix('-').filter(|letters| !letters.is_empty()) else {
        return 0;
    };
    // `-W` and `-X` take a value, attached or as the next word.
    match (letters.strip_prefix(['W', 'X']), next) {
        (Some(""), Some(value)) if is_plain(value) => 2,
        (Some(value), _) if is_plain(value) => 1,
        (None, _) if letters.chars().all(|letter| LETTERS.contains(letter)) => 1,
        _ => 0,
    }
}

fn description(text: &str) -> Option<String> {
    let parser =
        text.find("ArgumentParser(").and_then(|at| keyword_argument(&text[at..], "description"));
    parser.or_else(|| docstring(text))
}

/// The module's docstring: the first statement, if it is a string.
fn docstring(text: &str) -> Option<String> {
    let mut rest = text;
    while let Some(line) = rest.lines().next() {
        let trimmed = line.trim();
        if !trimmed.is_empty() && !trimmed.starts_with('#') {
            break;
        }
        rest = rest.get(line.len()..)?.trim_start_matches(['\r', '\n']);
    }
    quoted(rest.trim_start()).map(|(text, _)| text)
}
