//! The languages that skills are written in, and one table with everything that is data about them.
//!
//! A leaf: it knows no skill, no sandbox and no setting, and every crate may use it. Code that only
//! one language needs, such as reading a Python docstring, is in `crates/skill/src/languages`.
//! docs/architecture.md lists the steps for adding a language.

#![forbid(unsafe_code)]

mod starters;
mod table;

use std::fmt;
use std::str::FromStr;

pub use table::{InstallDirectories, Language, LanguageSpec};

impl Language {
    /// The name in manifests, in JSON and in the names of settings.
    pub const fn as_str(self) -> &'static str {
        self.spec().name
    }

    /// The language of a file, by the extension of its name. A file that is named only `.py` has
    /// no extension.
    pub fn from_extension(path: &str) -> Option<Self> {
        let (stem, extension) = base_name(path).rsplit_once('.')?;
        if stem.is_empty() {
            return None;
        }
        Self::find(|spec| spec.extensions.contains(&extension))
    }

    /// The language of an interpreter, by its name or path.
    pub fn from_program(program: &str) -> Option<Self> {
        let program = base_name(program);
        let is_version = |text: &str| text.chars().all(|c| c == '.' || c.is_ascii_digit());
        Self::find(|spec| {
            let mut versions = spec.program_names.iter().filter_map(|name| {
                program.strip_prefix(name).filter(|rest| spec.versioned_programs || rest.is_empty())
            });
            versions.any(is_version)
        })
    }

    fn find(matches: impl Fn(&LanguageSpec) -> bool) -> Option<Self> {
        Self::ALL.into_iter().find(|language| matches(language.spec()))
    }
}

impl fmt::Display for Language {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Language {
    type Err = UnknownLanguage;

    fn from_str(name: &str) -> Result<Self, UnknownLanguage> {
        Self::find(|spec| spec.name == name).ok_or(UnknownLanguage)
    }
}

/// The name is not one of the table. The message continues a sentence that names the value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UnknownLanguage;

impl fmt::Display for UnknownLanguage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = Language::ALL.map(Language::as_str);
        let (last, others) = names.split_last().unwrap_or((&"", &[]));
        write!(f, "not a supported language; use {} or {last}", others.join(", "))
    }
}

impl std::error::Error for UnknownLanguage {}

/// The part of a path after its last slash.
fn base_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_language_is_found_by_its_own_table_entries() {
        for language in Language::ALL {
            let spec = language.spec();
            assert_eq!(spec.name.parse(), Ok(language));
            assert_eq!(serde_json::to_string(&language).expect("JSON"), format!("{:?}", spec.name));
            assert_eq!(Language::from_program(spec.program), Some(language));
            for extension in spec.extensions {
                assert_eq!(Language::from_extension(&format!("a.{extension}")), Some(language));
            }
            for file in spec.default_entrypoints {
                assert_eq!(Language::from_extension(file), Some(language));
            }
            assert_eq!(spec.image_setting, format!("image_{language}"));
            assert!(!spec.default_entrypoints.is_empty() && !spec.starter_script.is_empty());
        }
    }

    #[test]
    fn an_interpreter_is_recognized_by_name_path_and_version() {
        for (program, expected) in [
            ("python", Some(Language::Python)),
            ("/usr/bin/python3.12", Some(Language::Python)),
            ("pythonista", None),
            ("node", Some(Language::Node)),
            ("nodejs", Some(Language::Node)),
            ("node18", None),
            ("/bin/sh", Some(Language::Bash)),
            ("bash5", None),
            ("zsh", None),
            ("", None),
        ] {
            assert_eq!(Language::from_program(program), expected, "{program}");
        }
    }

    #[test]
    fn an_unknown_name_lists_the_supported_ones() {
        let error = "ruby".parse::<Language>().expect_err("not in the table");
        assert_eq!(error.to_string(), "not a supported language; use python, node or bash");
        assert_eq!("Python".parse::<Language>(), Err(UnknownLanguage));
    }
}
