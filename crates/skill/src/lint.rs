//! Remarks about skills that are accepted but could be better.
//!
//! Pure: looks at what was read and never changes it. All that any profile could say is said here;
//! which of it is shown, and how much it matters, is in the table of rules.

use language::Language;

use crate::canonical::SkillFile;
use crate::error::shown;
use crate::finding::Finding;
use crate::frontmatter::Frontmatter;
use crate::manifest::{Manifest, Mode, Origin};
use crate::path::{self, SKILL_FILE};
use crate::script::{Script, Shebang, detect_language};

const LONGEST_NAME: usize = 64;
const LONGEST_DESCRIPTION: usize = 1024;
const LONGEST_COMPATIBILITY: usize = 500;
/// What the format's authors recommend, because a model reads all of it.
const MOST_LINES: u32 = 500;
/// Words that Anthropic keeps for itself.
const RESERVED: [&str; 2] = ["anthropic", "claude"];
const MOST_FILES: usize = 500;
const LARGEST_FILE: usize = 25_000_000;
const LARGEST_SKILL: usize = 30_000_000;

/// What only the text of `SKILL.md` shows.
pub(crate) fn text(frontmatter: &Frontmatter<'_>) -> Vec<Finding> {
    let mut remarks = Vec::new();
    let mut remark = |code, message: String, line| {
        remarks.push(Finding::noted(code, message).at(frontmatter.path, line))
    };
    if let Some(line) = frontmatter.repaired_line {
        let message = "the description contains a colon and is not quoted, so it is not YAML; put it in quotes";
        remark("description_unquoted", message.to_owned(), line);
    }
    if frontmatter.body.is_empty() {
        let message =
            "there are no instructions below the frontmatter; say when and how to use the skill";
        remark("no_instructions", message.to_owned(), frontmatter.body_line);
    } else if frontmatter.body.lines().count() > MOST_LINES as usize {
        let message = format!(
            "the instructions have more than {MOST_LINES} lines; move detail into files beside them"
        );
        remark("instructions_long", message, frontmatter.body_line.saturating_add(MOST_LINES));
    }
    remarks
}

/// Everything about a package that lint looks at.
pub(crate) struct Subject<'a> {
    pub manifest: &'a Manifest,
    pub origin: &'a Origin<'a>,
    pub files: &'a [SkillFile],
    pub scripts: &'a [Script],
    pub entrypoint: Option<&'a Script>,
    pub directory: Option<&'a str>,
    pub junk: usize,
}

impl Subject<'_> {
    pub(crate) fn remarks(&self) -> Vec<Finding> {
        let mut remarks = Vec::new();
        remarks.extend(self.name());
        remarks.extend(self.reserved());
        remarks.extend(self.directory());
        remarks.extend(self.lengths());
        remarks.extend(self.markup());
        remarks.extend(self.entrypoint());
        remarks.extend(self.paths());
        remarks.extend(self.sizes());
        remarks.extend(self.scripts.iter().filter_map(|script| self.line_ends(script)));
        remarks.extend(self.scripts.iter().filter_map(|script| self.options(script)));
        remarks
    }

    fn name(&self) -> Option<Finding> {
        let name = &self.manifest.name;
        let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        let portable = name.len() <= LONGEST_NAME
            && name.bytes().all(plain)
            && !name.starts_with('-')
            && !name.ends_with('-')
            && !name.contains("--");
        let message = format!(
            "other runtimes refuse the name `{name}`; use at most {LONGEST_NAME} lower-case letters, digits and single hyphens"
        );
        (!portable).then(|| self.origin.at(Finding::noted("name_not_portable", message), "name"))
    }

    fn reserved(&self) -> Option<Finding> {
        let name = self.manifest.name.to_ascii_lowercase();
        let word = RESERVED.iter().find(|word| name.contains(*word))?;
        let message = format!("the name contains the reserved word `{word}`; choose another");
        Some(self.origin.at(Finding::noted("name_reserved", message), "name"))
    }

    fn directory(&self) -> Option<Finding> {
        let directory = self.directory.filter(|directory| *directory != self.manifest.name)?;
        let message = format!(
            "the directory is called `{}` and the skill `{}`; the format wants them equal",
            shown(directory),
            self.manifest.name
        );
        Some(self.origin.at(Finding::noted("name_not_directory", message), "name"))
    }

    fn lengths(&self) -> Vec<Finding> {
        let manifest = self.manifest;
        let short = manifest.metadata.get("short-description").and_then(|value| value.as_str());
        let texts = [
            (
                "description_long",
                "description",
                Some(manifest.description.as_str()),
                LONGEST_DESCRIPTION,
            ),
            (
                "compatibility_long",
                "compatibility",
                manifest.compatibility.as_deref(),
                LONGEST_COMPATIBILITY,
            ),
            ("short_description_long", "metadata", short, LONGEST_DESCRIPTION),
        ];
        let long = |(code, field, text, most): (_, &str, Option<&str>, usize)| {
            let length = text?.chars().count();
            let message = format!("`{field}` has {length} characters; keep it to {most}");
            (length > most).then(|| self.origin.at(Finding::noted(code, message), field))
        };
        texts.into_iter().filter_map(long).collect()
    }

    /// A tag is refused where a lone bracket may pass.
    fn markup(&self) -> Option<Finding> {
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
                ("description_tag", "the description contains an XML tag; say it in words")
            }
            _ if description.contains(['<', '>']) => (
                "description_angle_bracket",
                "the description contains `<` or `>`; say it in words",
            ),
            _ => return None,
        };
        Some(self.origin.at(Finding::noted(code, message), "description"))
    }

    fn entrypoint(&self) -> Option<Finding> {
        match (self.entrypoint, &self.manifest.entrypoint) {
            (Some(entrypoint), _) => self.language(entrypoint),
            (None, Some(declared)) => {
                let message = format!(
                    "`entrypoint` names `{}`, which is not a file of the skill that can run; correct the path",
                    shown(declared)
                );
                Some(self.origin.at(Finding::noted("entrypoint_missing", message), "entrypoint"))
            }
            (None, None) if !self.scripts.is_empty() && self.manifest.mode == Mode::Executable => {
                let message = "no script runs by default, so callers have to name one; add `entrypoint` or a main.py, main.js or main.sh";
                Some(Finding::noted("no_entrypoint", message).at(self.origin.path, 1))
            }
            (None, None) => None,
        }
    }

    /// A declared language that the entrypoint itself contradicts.
    fn language(&self, entrypoint: &Script) -> Option<Finding> {
        let file = self.files.iter().find(|file| file.path == entrypoint.path)?;
        let own = detect_language(file).filter(|own| *own != entrypoint.lang)?;
        let message = format!(
            "`lang` is {}, but the entrypoint `{}` looks like {own}; correct one of them",
            entrypoint.lang, entrypoint.path
        );
        Some(self.origin.at(Finding::noted("lang_mismatch", message), "lang"))
    }

    fn paths(&self) -> Vec<Finding> {
        let mut remarks = Vec::new();
        let mut remark = |code, message: &str, path: &str, line| {
            remarks.push(Finding::noted(code, message).at(path, line))
        };
        let paths = || self.files.iter().map(|file| file.path.as_str());
        if let Some(path) = paths().find(|path| path::is_skill_file(path) && *path != SKILL_FILE) {
            let message = "call this file exactly SKILL.md; other runtimes look for that spelling";
            remark("skill_file_name", message, path, Some(1));
        }
        let below =
            |path: &&str| path.rsplit_once('/').is_some_and(|(_, name)| path::is_skill_file(name));
        if let Some(path) = paths().find(below) {
            let message = "this is a second SKILL.md in one skill; keep one in each";
            remark("skill_files_several", message, path, Some(1));
        }
        if let Some(path) = paths().find(|path| path.split('/').any(|part| part == ".git")) {
            let message = "the repository's history is part of the skill; leave `.git` out";
            remark("version_control", message, path, None);
        }
        if self.junk > 0 {
            let message = format!(
                "{} file(s) that the desktop left behind were dropped; nothing needs to be done",
                self.junk
            );
            remarks.push(Finding::noted("junk_dropped", message));
        }
        remarks
    }

    /// What an upload elsewhere would be too large for.
    fn sizes(&self) -> Vec<Finding> {
        let mut remarks = Vec::new();
        let (count, total) =
            (self.files.len(), self.files.iter().map(|file| file.bytes.len()).sum::<usize>());
        if count > MOST_FILES {
            let message = format!("the skill has {count} files; keep it to {MOST_FILES}");
            remarks.push(Finding::noted("files_many", message).at(self.origin.path, 1));
        }
        if total > LARGEST_SKILL {
            let message =
                format!("the files have {total} bytes together; keep them to {LARGEST_SKILL}");
            remarks.push(Finding::noted("skill_large", message).at(self.origin.path, 1));
        }
        for file in self.files.iter().filter(|file| file.bytes.len() > LARGEST_FILE) {
            let message =
                format!("the file has {} bytes; keep it to {LARGEST_FILE}", file.bytes.len());
            remarks.push(Finding::noted("file_large", message).at(&file.path, None));
        }
        remarks
    }

    /// Bash reads the carriage return as part of each command, and the kernel as part of the
    /// interpreter's name.
    fn line_ends(&self, script: &Script) -> Option<Finding> {
        let file = self.files.iter().find(|file| file.path == script.path)?;
        let first = file.bytes.split(|byte| *byte == b'\n').next()?;
        let matters = script.lang == Language::Bash || first.starts_with(b"#!");
        let message = "the script has Windows line ends and may not start; save it with Unix ones";
        (matters && first.ends_with(b"\r"))
            .then(|| Finding::noted("script_line_ends", message).at(&script.path, 1))
    }

    fn options(&self, script: &Script) -> Option<Finding> {
        let file = self.files.iter().find(|file| file.path == script.path)?;
        let dropped = Shebang::of(file, script.lang)?.dropped;
        let message = format!(
            "`{}` on the first line is not passed on, because it could run something else than this file; remove it",
            shown(&dropped.join(" "))
        );
        (!dropped.is_empty())
            .then(|| Finding::noted("script_option_dropped", message).at(&script.path, 1))
    }
}
