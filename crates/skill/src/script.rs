//! Which files of a skill can run, and which one runs by default.

use language::Language;
use serde::{Deserialize, Serialize};

use crate::canonical::SkillFile;
use crate::languages::{describe, split_options};

/// A file that can run, and its language.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SkillScript {
    pub path: String,
    pub lang: Language,
    /// The first line of its help, if it can be read from the text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The shim that runs the file, if it needs one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shim: Option<Shim>,
    /// Options of the interpreter, before the file in the command line. They are read from the
    /// file, so they are not stored.
    #[serde(skip)]
    pub flags: Vec<String>,
}

/// A way to run code that is not a script by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Shim {
    /// Creates an instance of the module's class and passes the input to its `execute`.
    Skillware,
}

impl SkillScript {
    pub(crate) fn new(file: &SkillFile, lang: Language) -> Self {
        let description = describe(&file.bytes, lang);
        let flags =
            Shebang::for_language(file, lang).map(|shebang| shebang.flags).unwrap_or_default();
        Self { path: file.path.clone(), lang, description, shim: None, flags }
    }
}

/// The language that runs this file, if any: its shebang decides, then its extension.
///
/// A shebang counts in a name without an extension even if the file is not executable, because many
/// ways of packing lose that bit. With an extension of something else the bit is required, so that
/// a template of a script is not taken for one.
pub(crate) fn detect_language(file: &SkillFile) -> Option<Language> {
    let from_extension = Language::from_extension(&file.path);
    let may_be_script =
        from_extension.is_some() || file.executable || !base_name(&file.path).contains('.');
    if !may_be_script {
        return None;
    }
    Shebang::read(&file.bytes).map(|shebang| shebang.lang).or(from_extension)
}

/// The `#!` line of a script for a supported language.
pub(crate) struct Shebang {
    lang: Language,
    pub flags: Vec<String>,
    /// The other words of the line, which are not passed to the interpreter.
    pub dropped: Vec<String>,
}

impl Shebang {
    /// The shebang of the file, if it is for this language. Options for another interpreter do not
    /// apply.
    pub(crate) fn for_language(file: &SkillFile, lang: Language) -> Option<Self> {
        Self::read(&file.bytes).filter(|shebang| shebang.lang == lang)
    }

    /// Accepts the interpreter directly or through `env`, with or without its `-S`. The words are
    /// split, although the kernel would pass them as one argument, because that is what authors
    /// expect.
    fn read(bytes: &[u8]) -> Option<Self> {
        const MAX_LINE_BYTES: usize = 256;
        let line = bytes.strip_prefix(b"#!")?;
        let line = &line[..line.len().min(MAX_LINE_BYTES)];
        let line = line.split(|byte| *byte == b'\n').next()?;
        let mut words = std::str::from_utf8(line).ok()?.split_ascii_whitespace();
        let mut program = base_name(words.next()?);
        if program == "env" {
            program = base_name(words.find(|word| !word.starts_with('-') && !word.contains('='))?);
        }
        let lang = Language::from_program(program)?;
        let words: Vec<&str> = words.collect();
        let (flags, rest) = split_options(lang, &words);
        // These only mark the end of the options.
        let dropped = rest
            .iter()
            .filter(|word| !matches!(**word, "-" | "--"))
            .map(|word| (*word).to_owned())
            .collect();
        Some(Self { lang, flags, dropped })
    }
}

/// Every file that can run, in path order.
pub(crate) fn find_scripts(files: &[SkillFile]) -> Vec<SkillScript> {
    files.iter().filter_map(|file| Some(SkillScript::new(file, detect_language(file)?))).collect()
}

/// The script that runs if the caller names none and the manifest has no `entrypoint`.
///
/// A declared language narrows the choice: a Node skill with a helper called `run.py` should run
/// its `main.js`.
pub(crate) fn default_entrypoint(
    scripts: &[SkillScript],
    lang: Option<Language>,
) -> Option<&SkillScript> {
    let names =
        || Language::ALL.into_iter().flat_map(|language| language.spec().default_entrypoints);
    let at_root = names().map(|name| (*name).to_owned());
    let in_scripts = names().map(|name| format!("scripts/{name}"));
    if let Some(shimmed) = scripts.iter().find(|script| script.shim.is_some()) {
        return Some(shimmed);
    }
    let found: Vec<&SkillScript> = at_root
        .chain(in_scripts)
        .filter_map(|path| scripts.iter().find(|script| script.path == path))
        .collect();
    let of_lang = found.iter().find(|script| Some(script.lang) == lang);
    of_lang.or(found.first()).copied()
}

fn base_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &'static str, executable: bool) -> SkillFile {
        SkillFile { path: path.to_owned(), bytes: text.into(), executable }
    }

    #[test]
    fn language_is_detected_by_shebang_then_extension() {
        for (path, text, executable, lang) in [
            ("a.py", "", false, Some(Language::Python)),
            ("a.js", "", false, Some(Language::Node)),
            ("a.mjs", "", false, Some(Language::Node)),
            ("a.cjs", "", false, Some(Language::Node)),
            ("a.sh", "", false, Some(Language::Bash)),
            ("a.bash", "", false, Some(Language::Bash)),
            ("a.PY", "", false, None),
            ("a.rb", "#!/usr/bin/ruby\n", true, None),
            (".py", "", false, None),
            ("dir.py/readme", "", false, None),
            ("tool", "#!/usr/bin/env python3\n", true, Some(Language::Python)),
            ("tool", "#!/usr/bin/env python3\n", false, Some(Language::Python)),
            ("tool", "no shebang", true, None),
            ("notes.txt", "#!/bin/sh\n", false, None),
            ("script.tpl", "#!/bin/sh\n", true, Some(Language::Bash)),
            ("tool", "#!/usr/bin/python3.12\r\n", true, Some(Language::Python)),
            ("tool", "#! /bin/sh -e\n", true, Some(Language::Bash)),
            ("tool", "#!/usr/bin/env -S A=b node --no-warnings\n", true, Some(Language::Node)),
            ("tool", "#!/usr/bin/env\n", true, None),
            ("tool", "#!", true, None),
            ("tool", "#!/usr/bin/pythonista\n", true, None),
            ("a.sh", "#!/usr/bin/env python3\n", false, Some(Language::Python)),
            ("a.py", "#!/usr/bin/env -S uv run\n", false, Some(Language::Python)),
        ] {
            assert_eq!(detect_language(&file(path, text, executable)), lang, "{path} {text:?}");
        }
    }

    #[test]
    fn shebang_options_apply_only_to_their_own_language() {
        for (text, lang, flags, dropped) in [
            ("#!/bin/bash -eu\n", Language::Bash, &["-eu"][..], &[][..]),
            ("#!/bin/sh -\n", Language::Bash, &[], &[]),
            (
                "#! /usr/bin/env -S bash -euo pipefail\r\n",
                Language::Bash,
                &["-euo", "pipefail"],
                &[],
            ),
            ("#!/usr/bin/env -S A=b node --no-warnings\n", Language::Node, &["--no-warnings"], &[]),
            ("#!/usr/bin/python3 -O -m pip\n", Language::Python, &["-O"], &["-m", "pip"]),
            ("#!/bin/bash -c evil\n", Language::Bash, &[], &["-c", "evil"]),
            ("#!/bin/bash -eu\n", Language::Python, &[], &[]),
            ("#!/usr/bin/perl -w\n", Language::Bash, &[], &[]),
            ("echo -e\n", Language::Bash, &[], &[]),
        ] {
            let file = file("main", text, true);
            assert_eq!(SkillScript::new(&file, lang).flags, flags, "{text:?}");
            let seen = Shebang::for_language(&file, lang)
                .map(|shebang| shebang.dropped)
                .unwrap_or_default();
            assert_eq!(seen, dropped, "{text:?}");
        }
    }

    #[test]
    fn default_entrypoint_follows_the_order_of_the_table() {
        for (paths, lang, expected) in [
            (&["main.py", "main.js"][..], None, Some("main.py")),
            (&["main.sh", "scripts/main.py"], None, Some("main.sh")),
            (&["scripts/run.py", "scripts/main.js"], None, Some("scripts/run.py")),
            (&["run.py", "main.js"], Some(Language::Node), Some("main.js")),
            (&["main.sh"], Some(Language::Node), Some("main.sh")),
            (&["other.py", "lib/main.py"], None, None),
            (&[], None, None),
        ] {
            let files: Vec<_> = paths.iter().map(|path| file(path, "", false)).collect();
            let scripts = find_scripts(&files);
            let found = default_entrypoint(&scripts, lang).map(|script| script.path.as_str());
            assert_eq!(found, expected, "{paths:?}");
        }
    }
}
