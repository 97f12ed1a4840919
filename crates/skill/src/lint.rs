//! The linter: findings about skills that are accepted but could be better.
//!
//! Pure: never changes the package. It reports everything that any profile could show; the table of
//! rules decides what a profile shows, and with which severity.

use language::Language;

use crate::canonical::SkillFile;
use crate::error::printable;
use crate::finding::Finding;
use crate::frontmatter::Frontmatter;
use crate::manifest::{Manifest, Origin, SkillMode};
use crate::path::{self, SKILL_FILE};
use crate::script::{Shebang, SkillScript, detect_language};

const MAX_NAME_CHARS: usize = 64;
const MAX_DESCRIPTION_CHARS: usize = 1024;
const MAX_COMPATIBILITY_CHARS: usize = 500;
/// Recommended by the authors of the format, because a model reads all of it.
const MAX_INSTRUCTION_LINES: u32 = 500;
/// Words that Anthropic reserves for itself.
const RESERVED_WORDS: [&str; 2] = ["anthropic", "claude"];
const MAX_FILES: usize = 500;
const MAX_FILE_BYTES: usize = 25_000_000;
const MAX_SKILL_BYTES: usize = 30_000_000;

/// Lints of the text of `SKILL.md`.
pub(crate) fn lint_skill_file(frontmatter: &Frontmatter<'_>) -> Vec<Finding> {
    let mut lints = Vec::new();
    let mut add = |code, message: String, line| {
        lints.push(Finding::from_rule(code, message).at(frontmatter.path, line))
    };
    if let Some(line) = frontmatter.repaired_line {
        let message = "the description contains a colon and is not quoted, so it is not YAML; put it in quotes";
        add("description_unquoted", message.to_owned(), line);
    }
    if frontmatter.body.is_empty() {
        let message =
            "there are no instructions below the frontmatter; say when and how to use the skill";
        add("no_instructions", message.to_owned(), frontmatter.body_line);
    } else if frontmatter.body.lines().count() > MAX_INSTRUCTION_LINES as usize {
        let message = format!(
            "the instructions have more than {MAX_INSTRUCTION_LINES} lines; move detail into files beside them"
        );
        add(
            "instructions_long",
            message,
            frontmatter.body_line.saturating_add(MAX_INSTRUCTION_LINES),
        );
    }
    lints
}

/// The parts of a package that the linter checks.
pub(crate) struct LintInput<'a> {
    pub manifest: &'a Manifest,
    pub origin: &'a Origin<'a>,
    pub files: &'a [SkillFile],
    pub scripts: &'a [SkillScript],
    pub entrypoint: Option<&'a SkillScript>,
    pub directory: Option<&'a str>,
    pub dropped_junk_files: usize,
}

impl LintInput<'_> {
    pub(crate) fn lint(&self) -> Vec<Finding> {
        let mut lints = Vec::new();
        lints.extend(self.check_name());
        lints.extend(self.check_reserved_words());
        lints.extend(self.check_directory_name());
        lints.extend(self.check_lengths());
        lints.extend(self.check_markup());
        lints.extend(self.check_entrypoint());
        lints.extend(self.check_paths());
        lints.extend(self.check_sizes());
        lints.extend(self.scripts.iter().filter_map(|script| self.check_line_ends(script)));
        lints.extend(self.scripts.iter().filter_map(|script| self.check_dropped_options(script)));
        lints
    }

    fn check_name(&self) -> Option<Finding> {
        let name = &self.manifest.name;
        let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        let portable = name.len() <= MAX_NAME_CHARS
            && name.bytes().all(plain)
            && !name.starts_with('-')
            && !name.ends_with('-')
            && !name.contains("--");
        let message = format!(
            "other runtimes refuse the name `{name}`; use at most {MAX_NAME_CHARS} lower-case letters, digits and single hyphens"
        );
        (!portable)
            .then(|| self.origin.at(Finding::from_rule("name_not_portable", message), "name"))
    }

    fn check_reserved_words(&self) -> Option<Finding> {
        let name = self.manifest.name.to_ascii_lowercase();
        let word = RESERVED_WORDS.iter().find(|word| name.contains(*word))?;
        let message = format!("the name contains the reserved word `{word}`; choose another");
        Some(self.origin.at(Finding::from_rule("name_reserved", message), "name"))
    }

    fn check_directory_name(&self) -> Option<Finding> {
        let directory = self.directory.filter(|directory| *directory != self.manifest.name)?;
        let message = format!(
            "the directory is called `{}` and the skill `{}`; make them equal",
            printable(directory),
            self.manifest.name
        );
        Some(self.origin.at(Finding::from_rule("name_not_directory", message), "name"))
    }

    fn check_lengths(&self) -> Vec<Finding> {
        let manifest = self.manifest;
        let short = manifest.metadata.get("short-description").and_then(|value| value.as_str());
        let texts = [
            (
                "description_long",
                "description",
                Some(manifest.description.as_str()),
                MAX_DESCRIPTION_CHARS,
            ),
            (
                "compatibility_long",
                "compatibility",
                manifest.compatibility.as_deref(),
                MAX_COMPATIBILITY_CHARS,
            ),
            ("short_description_long", "metadata", short, MAX_DESCRIPTION_CHARS),
        ];
        let long = |(code, field, text, max): (_, &str, Option<&str>, usize)| {
            let length = text?.chars().count();
            let message = format!("`{field}` has {length} characters; keep it to {max}");
            (length > max).then(|| self.origin.at(Finding::from_rule(code, message), field))
        };
        texts.into_iter().filter_map(long).collect()
    }

    /// A tag is reported under its own code, because some products reject tags but accept a lone
    /// bracket.
    fn check_markup(&self) -> Option<Finding> {
        let description = &self.manifest.description;
        let opened = description.split_once('<').map(|(_, rest)| rest);
        let is_tag = |rest: &str| {
            let inner = rest.split_once('>').map(|(inner, _)| inner.trim_start_matches('/'));
            inner.is_some_and(|inner| {
                inner.starts_with(|c: char| c.is_ascii_alphabetic() || matches!(c, '!' | '?'))
            })
        };
        let (code, message) = match opened {
            Some(rest) if is_tag(rest) => {
                ("description_tag", "the description contains an XML tag; use words instead")
            }
            _ if description.contains(['<', '>']) => (
                "description_angle_bracket",
                "the description contains `<` or `>`; use words instead",
            ),
            _ => return None,
        };
        Some(self.origin.at(Finding::from_rule(code, message), "description"))
    }

    fn check_entrypoint(&self) -> Option<Finding> {
        match (self.entrypoint, &self.manifest.entrypoint) {
            (Some(entrypoint), _) => self.check_language(entrypoint),
            (None, Some(declared)) => {
                let message = format!(
                    "`entrypoint` names `{}`, which is not a file of the skill that can run; correct the path",
                    printable(declared)
                );
                Some(
                    self.origin.at(Finding::from_rule("entrypoint_missing", message), "entrypoint"),
                )
            }
            (None, None)
                if !self.scripts.is_empty() && self.manifest.mode == SkillMode::Executable =>
            {
                let message = "no script runs by default, so callers have to name one; add `entrypoint` or a main.py, main.js or main.sh";
                Some(Finding::from_rule("no_entrypoint", message).at(self.origin.path, 1))
            }
            (None, None) => None,
        }
    }

    /// A declared language that contradicts the language of the entrypoint.
    fn check_language(&self, entrypoint: &SkillScript) -> Option<Finding> {
        let file = self.files.iter().find(|file| file.path == entrypoint.path)?;
        let detected = detect_language(file).filter(|language| *language != entrypoint.lang)?;
        let message = format!(
            "`lang` is {}, but the entrypoint `{}` looks like {detected}; correct one of them",
            entrypoint.lang, entrypoint.path
        );
        Some(self.origin.at(Finding::from_rule("lang_mismatch", message), "lang"))
    }

    fn check_paths(&self) -> Vec<Finding> {
        let mut lints = Vec::new();
        let mut add = |code, message: &str, path: &str, line| {
            lints.push(Finding::from_rule(code, message).at(path, line))
        };
        let paths = || self.files.iter().map(|file| file.path.as_str());
        if let Some(path) = paths().find(|path| path::is_skill_file(path) && *path != SKILL_FILE) {
            let message = "call this file exactly SKILL.md; other runtimes look for that spelling";
            add("skill_file_name", message, path, Some(1));
        }
        let is_nested =
            |path: &&str| path.rsplit_once('/').is_some_and(|(_, name)| path::is_skill_file(name));
        if let Some(path) = paths().find(is_nested) {
            let message = "this is a second SKILL.md in one skill; keep one in each";
            add("skill_files_several", message, path, Some(1));
        }
        if let Some(path) = paths().find(|path| path.split('/').any(|part| part == ".git")) {
            let message = "the repository's history is part of the skill; leave `.git` out";
            add("version_control", message, path, None);
        }
        if self.dropped_junk_files > 0 {
            let message = format!(
                "{} file(s) that the desktop left behind were dropped; nothing needs to be done",
                self.dropped_junk_files
            );
            lints.push(Finding::from_rule("junk_dropped", message));
        }
        lints
    }

    /// Size limits of other products.
    fn check_sizes(&self) -> Vec<Finding> {
        let mut lints = Vec::new();
        let (count, total) =
            (self.files.len(), self.files.iter().map(|file| file.bytes.len()).sum::<usize>());
        if count > MAX_FILES {
            let message = format!("the skill has {count} files; keep it to {MAX_FILES}");
            lints.push(Finding::from_rule("files_many", message).at(self.origin.path, 1));
        }
        if total > MAX_SKILL_BYTES {
            let message =
                format!("the files have {total} bytes together; keep them to {MAX_SKILL_BYTES}");
            lints.push(Finding::from_rule("skill_large", message).at(self.origin.path, 1));
        }
        for file in self.files.iter().filter(|file| file.bytes.len() > MAX_FILE_BYTES) {
            let message =
                format!("the file has {} bytes; keep it to {MAX_FILE_BYTES}", file.bytes.len());
            lints.push(Finding::from_rule("file_large", message).at(&file.path, None));
        }
        lints
    }

    /// Windows line ends. Bash takes the carriage return as part of each command, and the kernel as
    /// part of the interpreter's name.
    fn check_line_ends(&self, script: &SkillScript) -> Option<Finding> {
        let file = self.files.iter().find(|file| file.path == script.path)?;
        let first = file.bytes.split(|byte| *byte == b'\n').next()?;
        let is_harmful = script.lang == Language::Bash || first.starts_with(b"#!");
        let message = "the script has Windows line ends and may not start; save it with Unix ones";
        (is_harmful && first.ends_with(b"\r"))
            .then(|| Finding::from_rule("script_line_ends", message).at(&script.path, 1))
    }

    fn check_dropped_options(&self, script: &SkillScript) -> Option<Finding> {
        let file = self.files.iter().find(|file| file.path == script.path)?;
        let dropped = Shebang::for_language(file, script.lang)?.dropped;
        let message = format!(
            "`{}` on the first line is not passed on, because it could run something other than this file; remove it",
            printable(&dropped.join(" "))
        );
        (!dropped.is_empty())
            .then(|| Finding::from_rule("script_option_dropped", message).at(&script.path, 1))
    }
}
