//! Options of an interpreter that a skill asks for, on the first line of a script or in a command.
//!
//! Passed on is what changes how the file is run. What would run something else than the file
//! (`-c`, `-m`, `--eval`) or wait for somebody who types (`-i`) is not: what runs is the script
//! that was scanned and that the record names.

use crate::script::Lang;

/// The options at the front of `words` that are passed on, and the words from the first one that is
/// not.
pub(crate) fn split<'w, 'a>(lang: Lang, mut words: &'w [&'a str]) -> (Vec<String>, &'w [&'a str]) {
    let mut flags = Vec::new();
    while let [first, rest @ ..] = words {
        let next = rest.first().copied();
        let count = match lang {
            Lang::Bash => bash(first, next),
            Lang::Python => python(first, next),
            Lang::Node => node(first),
        };
        if count == 0 {
            break;
        }
        flags.extend(words[..count].iter().map(|word| (*word).to_owned()));
        words = &words[count..];
    }
    (flags, words)
}

/// How many words, of one and the one after it, are an option that is passed on.
fn bash(word: &str, next: Option<&str>) -> usize {
    const LETTERS: &str = "abefhklmnprtuvxBCEHPT";
    const LONG: [&str; 6] =
        ["--posix", "--login", "--norc", "--noprofile", "--restricted", "--verbose"];
    let Some(letters) = word.strip_prefix(['-', '+']).filter(|letters| !letters.is_empty()) else {
        return 0;
    };
    let named = letters.strip_suffix(['o', 'O']);
    let known = named.unwrap_or(letters).chars().all(|letter| LETTERS.contains(letter));
    match (named, next) {
        _ if LONG.contains(&word) => 1,
        (None, _) if known => 1,
        (Some(_), Some(name)) if known && is_plain(name) => 2,
        _ => 0,
    }
}

fn python(word: &str, next: Option<&str>) -> usize {
    const LETTERS: &str = "bBdEIOPqRsSuvx";
    let Some(letters) = word.strip_prefix('-').filter(|letters| !letters.is_empty()) else {
        return 0;
    };
    match (letters.strip_prefix(['W', 'X']), next) {
        (Some(""), Some(value)) if is_plain(value) => 2,
        (Some(value), _) if is_plain(value) => 1,
        (None, _) if letters.chars().all(|letter| LETTERS.contains(letter)) => 1,
        _ => 0,
    }
}

fn node(word: &str) -> usize {
    /// There are hundreds, and these words begin those that say how a program is run.
    const STARTS: [&str; 20] = [
        "no-", "max-", "stack-", "harmony", "trace-", "experimental-", "disable-", "enable-",
        "use-strict", "expose-gc", "jitless", "unhandled-rejections", "preserve-symlinks",
        "throw-deprecation", "pending-deprecation", "frozen-intrinsics", "insecure-http-parser",
        "openssl-legacy-provider", "dns-result-order", "title",
    ];
    /// Among them, those that name other code.
    const OTHER_CODE: [&str; 3] = ["loader", "config", "sea"];
    let Some(option) = word.strip_prefix("--") else { return 0 };
    let (name, value) = option.split_once('=').unwrap_or((option, "none"));
    let name = name.replace('_', "-");
    let known =
        STARTS.iter().any(|start| name.starts_with(start)) && is_plain(&name) && is_plain(value);
    usize::from(known && !OTHER_CODE.iter().any(|other| name.contains(other)))
}

/// A word that is a name or an amount, and neither an option itself nor a path nor code.
fn is_plain(word: &str) -> bool {
    let inside = |byte: u8| {
        byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.' | b':' | b'=' | b',')
    };
    word.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric()) && word.bytes().all(inside)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_changes_how_the_file_is_run_is_passed_on_and_nothing_else() {
        for (lang, words, kept) in [
            (Lang::Bash, "-eu", 1),
            (Lang::Bash, "-euo pipefail run.sh", 2),
            (Lang::Bash, "-e -u +x -O extglob --posix run.sh", 6),
            (Lang::Bash, "-l --norc", 2),
            (Lang::Bash, "-c evil", 0),
            (Lang::Bash, "-ec evil", 0),
            (Lang::Bash, "-s", 0),
            (Lang::Bash, "-i", 0),
            (Lang::Bash, "-o", 0),
            (Lang::Bash, "-o -c", 0),
            (Lang::Bash, "--rcfile x", 0),
            (Lang::Bash, "--init-file=x", 0),
            (Lang::Bash, "- x", 0),
            (Lang::Bash, "run.sh -e", 0),
            (Lang::Python, "-u -B -OO -W ignore -Xdev main.py", 6),
            (Lang::Python, "-W error::UserWarning", 2),
            (Lang::Python, "-m http.server", 0),
            (Lang::Python, "-c code", 0),
            (Lang::Python, "-ic code", 0),
            (Lang::Python, "-W -c", 0),
            (Lang::Python, "-X /x", 0),
            (Lang::Python, "-", 0),
            (Lang::Python, "--version", 0),
            (
                Lang::Node,
                "--no-warnings --max-old-space-size=64 --experimental-vm-modules main.js",
                3,
            ),
            (Lang::Node, "--expose_gc --trace-uncaught", 2),
            (Lang::Node, "--eval=1", 0),
            (Lang::Node, "-e 1", 0),
            (Lang::Node, "-p 1", 0),
            (Lang::Node, "--require=./x.js", 0),
            (Lang::Node, "--import=./x.mjs", 0),
            (Lang::Node, "--experimental-loader=./x.mjs", 0),
            (Lang::Node, "--experimental-config-file=x", 0),
            (Lang::Node, "--run build", 0),
            (Lang::Node, "--title=$(x)", 0),
            (Lang::Node, "--", 0),
        ] {
            let words: Vec<&str> = words.split(' ').collect();
            let (flags, rest) = split(lang, &words);
            assert_eq!((flags.len(), rest.len()), (kept, words.len() - kept), "{lang} {words:?}");
            assert_eq!(flags, words[..kept]);
        }
    }
}
