//! Interpreter options that a skill sets, on the first line of a script or in a command.
//!
//! Only options that change how the file is run are kept. An option that runs something other than
//! the file (`-c`, `-m`, `--eval`) or waits for input (`-i`) is not, because the script that runs
//! must be the one that was scanned and that the record names.

use language::Language;

use super::code_of;

/// The options at the front of `words` that are kept, and the words from the first one that is not.
pub(crate) fn split_options<'w, 'a>(
    language: Language,
    mut words: &'w [&'a str],
) -> (Vec<String>, &'w [&'a str]) {
    let option_words = code_of(language).option_words;
    let mut options = Vec::new();
    while let [first, rest @ ..] = words {
        let count = option_words(first, rest.first().copied());
        if count == 0 {
            break;
        }
        options.extend(words[..count].iter().map(|word| (*word).to_owned()));
        words = &words[count..];
    }
    (options, words)
}

/// A word that is a name or a number, and neither an option itself nor a path nor code.
pub(super) fn is_plain(word: &str) -> bool {
    let allowed = |byte: u8| {
        byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.' | b':' | b'=' | b',')
    };
    word.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric())
        && word.bytes().all(allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_options_that_still_run_the_file_are_kept() {
        for (language, words, kept) in [
            (Language::Bash, "-eu", 1),
            (Language::Bash, "-euo pipefail run.sh", 2),
            (Language::Bash, "-e -u +x -O extglob --posix run.sh", 6),
            (Language::Bash, "-l --norc", 2),
            (Language::Bash, "-c evil", 0),
            (Language::Bash, "-ec evil", 0),
            (Language::Bash, "-s", 0),
            (Language::Bash, "-i", 0),
            (Language::Bash, "-o", 0),
            (Language::Bash, "-o -c", 0),
            (Language::Bash, "--rcfile x", 0),
            (Language::Bash, "--init-file=x", 0),
            (Language::Bash, "- x", 0),
            (Language::Bash, "run.sh -e", 0),
            (Language::Python, "-u -B -OO -W ignore -Xdev main.py", 6),
            (Language::Python, "-W error::UserWarning", 2),
            (Language::Python, "-m http.server", 0),
            (Language::Python, "-c code", 0),
            (Language::Python, "-ic code", 0),
            (Language::Python, "-W -c", 0),
            (Language::Python, "-X /x", 0),
            (Language::Python, "-", 0),
            (Language::Python, "--version", 0),
            (
                Language::Node,
                "--no-warnings --max-old-space-size=64 --experimental-vm-modules main.js",
                3,
            ),
            (Language::Node, "--expose_gc --trace-uncaught", 2),
            (Language::Node, "--eval=1", 0),
            (Language::Node, "-e 1", 0),
            (Language::Node, "-p 1", 0),
            (Language::Node, "--require=./x.js", 0),
            (Language::Node, "--import=./x.mjs", 0),
            (Language::Node, "--experimental-loader=./x.mjs", 0),
            (Language::Node, "--experimental-config-file=x", 0),
            (Language::Node, "--run build", 0),
            (Language::Node, "--title=$(x)", 0),
            (Language::Node, "--", 0),
        ] {
            let words: Vec<&str> = words.split(' ').collect();
            let (options, rest) = split_options(language, &words);
            assert_eq!(
                (options.len(), rest.len()),
                (kept, words.len() - kept),
                "{language} {words:?}"
            );
            assert_eq!(options, words[..kept]);
        }
    }
}
