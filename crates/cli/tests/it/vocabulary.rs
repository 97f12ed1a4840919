//! Retired words do not come back: names, comments, messages and documents use the standard terms
//! that the glossary in `docs/architecture.md` lists.

use std::path::Path;
use std::process::Command;

/// What is not written any more, and what is written instead. Matched as whole words, also as parts
/// of names: `hear out` is found in `hear_out` and in `HearOut`.
const RETIRED: &[(&str, &str)] = &[
    ("anybody", "the role, such as any caller"),
    ("born", "initial state"),
    ("buried", "reaped"),
    ("bury", "reap"),
    ("by our own hands", "directly"),
    ("crowd", "process limit"),
    ("everybody", "the role, such as every worker"),
    ("funeral", "reap"),
    ("funerals", "reaps"),
    ("give back", "requeue or release"),
    ("given back", "requeued or released"),
    ("hear", "receive"),
    ("hear out", "drain"),
    ("heard", "received"),
    ("hears", "receives"),
    ("heed", "apply"),
    ("let pass", "back off"),
    ("mend", "fix"),
    ("mended", "fixed"),
    ("patience", "timeout or retry"),
    ("patiently", "with retries"),
    ("sheets", "manifest sources"),
    ("somebody", "the role, such as another worker"),
    ("who comes back", "a reconnecting client"),
    ("whoever", "the role, such as the waiter"),
    ("wishes", "options"),
];

/// The endings of files whose words count.
const ENDINGS: &[&str] = &[
    "rs", "md", "py", "ts", "mjs", "go", "sh", "sql", "toml", "yaml", "yml", "json", "tpl", "conf",
    "Makefile", "Dockerfile",
];

/// This list, and migrations: databases have their checksums, so their comments stay as they are.
const EXCEPTIONS: &[&str] = &["crates/cli/tests/it/vocabulary.rs", "migrations/"];

/// The words of a text in lower case. A name is as many words as it has parts.
fn words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    let mut previous_is_lower = false;
    for character in text.chars() {
        let begins_part = character.is_uppercase() && previous_is_lower;
        if (begins_part || !character.is_alphanumeric()) && !word.is_empty() {
            words.push(std::mem::take(&mut word));
        }
        if character.is_alphanumeric() {
            word.extend(character.to_lowercase());
        }
        previous_is_lower = character.is_lowercase();
    }
    if !word.is_empty() {
        words.push(word);
    }
    words
}

/// The retired terms in a text, with what to write instead.
fn retired_terms(text: &str) -> Vec<&'static (&'static str, &'static str)> {
    let words = words(text);
    let is_in_text = |term: &str| {
        let term: Vec<_> = term.split(' ').collect();
        words.windows(term.len()).any(|window| window == term)
    };
    RETIRED.iter().filter(|(term, _)| is_in_text(term)).collect()
}

fn tracked_files(repository: &Path) -> Vec<String> {
    let output = Command::new("git")
        .args(["ls-files", "-z"])
        .current_dir(repository)
        .output()
        .expect("git lists the files");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let names = String::from_utf8(output.stdout).expect("names in UTF-8");
    names.split_terminator('\0').map(str::to_owned).collect()
}

fn is_checked(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    let ending = name.rsplit('.').next().unwrap_or(name);
    ENDINGS.contains(&ending) && !EXCEPTIONS.iter().any(|exception| path.starts_with(exception))
}

#[test]
fn retired_vocabulary_is_not_used() {
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut found = Vec::new();
    let files: Vec<_> =
        tracked_files(&repository).into_iter().filter(|path| is_checked(path)).collect();
    assert!(files.len() > 500, "only {} files were found", files.len());
    for path in files {
        // A file that was removed and is not committed yet is still listed.
        let Ok(text) = std::fs::read_to_string(repository.join(&path)) else { continue };
        for (number, line) in text.lines().enumerate() {
            for (term, instead) in retired_terms(line) {
                found.push(format!("{path}:{}: write {instead} instead of `{term}`", number + 1));
            }
        }
    }
    assert!(found.is_empty(), "{} retired words:\n{}", found.len(), found.join("\n"));
}

#[test]
fn retired_words_are_found_in_sentences_and_in_names() {
    let terms = |text| retired_terms(text).iter().map(|(term, _)| *term).collect::<Vec<_>>();
    assert_eq!(terms("Whoever waits is heard."), ["heard", "whoever"]);
    assert_eq!(terms("fn hear_out(reader: HearOut)"), ["hear", "hear out"]);
    assert_eq!(terms("const FUNERALS: usize = 1;"), ["funerals"]);
    assert_eq!(terms("a header, the background, reborn"), Vec::<&str>::new());
}
