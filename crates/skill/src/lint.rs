//! Remarks about skills that are accepted but could be better.
//!
//! Pure: looks at what was read and never changes it. Every code here is documented for users and stays as it is.

use crate::canonical::SkillFile;
use crate::error::shown;
use crate::finding::{Finding, Severity};
use crate::frontmatter::Frontmatter;
use crate::manifest::Manifest;
use crate::path;
use crate::script::{Lang, Script};

const SKILL_FILE: &str = "SKILL.md";
const LONGEST_NAME: usize = 64;
const LONGEST_DESCRIPTION: usize = 1024;
const LONGEST_COMPATIBILITY: usize = 500;
/// What the format's authors recommend, because a model reads all of it.
const MOST_LINES: usize = 500;

/// What only the text of `SKILL.md` shows.
pub(crate) fn text(frontmatter: &Frontmatter<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    if let Some(line) = frontmatter.repaired_line {
        let message = "the description contains a colon and is not quoted, so it is not YAML; put it in quotes";
        findings.push(Finding::warning("description_unquoted", message).at(SKILL_FILE, line));
    }
    let hidden = |line: &str| line.chars().find(|c| is_invisible(*c));
    let mut lines = frontmatter.text.lines().zip(1u32..);
    if let Some((character, line)) = lines.find_map(|(line, number)| Some((hidden(line)?, number))) {
        let message = format!(
            "the invisible character U+{:04X} can hide text from people that models read; remove it",
            u32::from(character)
        );
        findings.push(Finding::warning("invisible_character", message).at(SKILL_FILE, line));
    }
    if frontmatter.body.is_empty() {
        let message = "there are no instructions below the frontmatter; say when and how to use the skill";
        findings.push(Finding::warning("no_instructions", message).at(SKILL_FILE, None));
    } else if frontmatter.body.lines().count() > MOST_LINES {
        let message = format!("the instructions have more than {MOST_LINES} lines; move detail into files beside them");
        findings.push(Finding::new("instructions_long", Severity::Info, message).at(SKILL_FILE, None));
    }
    findings
}

/// Everything about a package that lint looks at.
pub(crate) struct Subject<'a> {
    pub manifest: &'a Manifest,
    pub files: &'a [SkillFile],
    pub scripts: &'a [Script],
    pub entrypoint: Option<&'a Script>,
    pub directory: Option<&'a str>,
    pub junk: usize,
}

impl Subject<'_> {
    pub(crate) fn findings(&self) -> Vec<Finding> {
        let mut findings = Vec::new();
        findings.extend(self.name());
        findings.extend(self.directory());
        findings.extend(self.lengths());
        findings.extend(self.entrypoint());
        findings.extend(self.paths());
        findings.extend(self.scripts.iter().filter_map(|script| self.line_ends(script)));
        findings
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
        (!portable).then(|| Finding::warning("name_not_portable", message).at(SKILL_FILE, None))
    }

    fn directory(&self) -> Option<Finding> {
        let directory = self.directory.filter(|directory| *directory != self.manifest.name)?;
        let message = format!(
            "the directory is called `{}` and the skill `{}`; the format wants them equal",
            shown(directory),
            self.manifest.name
        );
        Some(Finding::warning("name_not_directory", message).at(SKILL_FILE, None))
    }

    fn lengths(&self) -> Vec<Finding> {
        let compatibility = self.manifest.compatibility.as_deref().unwrap_or_default();
        let long = |code, field, text: &str, most| {
            let length = text.chars().count();
            let message = format!("`{field}` has {length} characters; keep it to {most}");
            (length > most).then(|| Finding::warning(code, message).at(SKILL_FILE, None))
        };
        let description = &self.manifest.description;
        [
            long("description_long", "description", description, LONGEST_DESCRIPTION),
            long("compatibility_long", "compatibility", compatibility, LONGEST_COMPATIBILITY),
        ]
        .into_iter()
        .flatten()
        .collect()
    }

    fn entrypoint(&self) -> Option<Finding> {
        match (self.entrypoint, &self.manifest.entrypoint) {
            (Some(entrypoint), _) => self.language(entrypoint),
            (None, Some(declared)) => {
                let message = format!(
                    "`entrypoint` names `{}`, which is not a file of the skill that can run; correct the path",
                    shown(declared)
                );
                Some(Finding::new("entrypoint_missing", Severity::Error, message).at(SKILL_FILE, None))
            }
            (None, None) if !self.scripts.is_empty() => {
                let message = "no script runs by default, so callers have to name one; add `entrypoint` or a main.py, main.js or main.sh";
                Some(Finding::new("no_entrypoint", Severity::Info, message))
            }
            (None, None) => None,
        }
    }

    /// A declared language that the entrypoint itself contradicts.
    fn language(&self, entrypoint: &Script) -> Option<Finding> {
        let file = self.files.iter().find(|file| file.path == entrypoint.path)?;
        let own = Lang::of(file).filter(|own| *own != entrypoint.lang)?;
        let message = format!("`lang` is {}, but this file looks like {own}; correct one of them", entrypoint.lang);
        Some(Finding::warning("lang_mismatch", message).at(&file.path, None))
    }

    fn paths(&self) -> Vec<Finding> {
        let mut findings = Vec::new();
        let paths = || self.files.iter().map(|file| file.path.as_str());
        if let Some(path) = paths().find(|path| path::is_skill_file(path) && *path != SKILL_FILE) {
            let message = "call this file exactly SKILL.md; other runtimes look for that spelling";
            findings.push(Finding::warning("skill_file_name", message).at(path, None));
        }
        if let Some(path) = paths().find(|path| path.chars().any(is_invisible)) {
            let message = "the file's name contains an invisible character; rename it";
            findings.push(Finding::warning("invisible_character", message).at(&shown(path), None));
        }
        if let Some(path) = paths().find(|path| path.split('/').any(|part| part == ".git")) {
            let message = "the repository's history is part of the skill; leave `.git` out";
            findings.push(Finding::warning("version_control", message).at(path, None));
        }
        if self.junk > 0 {
            let message = format!("{} file(s) that the desktop left behind were dropped", self.junk);
            findings.push(Finding::new("junk_dropped", Severity::Info, message));
        }
        findings
    }

    /// Bash reads the carriage return as part of each command, and the kernel as part of the interpreter's name.
    fn line_ends(&self, script: &Script) -> Option<Finding> {
        let file = self.files.iter().find(|file| file.path == script.path)?;
        let first = file.bytes.split(|byte| *byte == b'\n').next()?;
        let matters = script.lang == Lang::Bash || first.starts_with(b"#!");
        let message = "the script has Windows line ends and may not start; save it with Unix ones";
        (matters && first.ends_with(b"\r")).then(|| Finding::warning("script_line_ends", message).at(&script.path, 1))
    }
}

/// Characters that show nothing but change what is read: zero width, direction marks, tags, odd byte order marks.
///
/// The joiners U+200C and U+200D are not among them: scripts and emoji need them.
fn is_invisible(c: char) -> bool {
    matches!(c,
        '\u{ad}' | '\u{200b}' | '\u{200e}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}'
        | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}
