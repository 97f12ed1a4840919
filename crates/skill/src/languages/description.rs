//! The description of a script, read from its text. The script is never run for it.

use language::Language;

use super::code_of;

/// Help texts are near the top or in the setup of the parser, so the rest is not searched.
const MAX_SEARCHED_BYTES: usize = 64 << 10;
const MAX_DESCRIPTION_CHARS: usize = 200;

/// The first line that the script's help would print: from its argument parser, its docstring or
/// the comment at its top.
pub(crate) fn describe(bytes: &[u8], language: Language) -> Option<String> {
    let start = &bytes[..bytes.len().min(MAX_SEARCHED_BYTES)];
    let text = String::from_utf8_lossy(start);
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    let description = (code_of(language).description)(text)
        .or_else(|| leading_comment(text, language.spec().line_comment));
    description.and_then(|text| first_line(&text))
}

/// The block of comment lines at the top, below the shebang.
fn leading_comment(text: &str, mark: &str) -> Option<String> {
    let lines = text.lines().skip_while(|line| line.starts_with("#!") || line.trim().is_empty());
    let block = lines.map_while(|line| line.trim_start().strip_prefix(mark));
    block
        .map(|line| line.trim_start_matches(['#', '/', '!']).trim())
        .find(|line| is_meaningful(line))
        .map(str::to_owned)
}

/// Whether a comment line may be a description: not a ruler, a directive of an editor or a linter,
/// or a licence.
pub(super) fn is_meaningful(line: &str) -> bool {
    const IGNORED_PREFIXES: [&str; 10] =
        ["-*-", "shellcheck", "eslint", "@ts-", "vim:", "SPDX-", "Copyright", "///", "@file", "!"];
    line.chars().any(char::is_alphanumeric)
        && !IGNORED_PREFIXES.iter().any(|start| line.starts_with(start))
}

/// The first line that is not blank, without control characters and shortened to the maximum.
fn first_line(text: &str) -> Option<String> {
    let line = text.lines().map(str::trim).find(|line| !line.is_empty())?;
    let plain: String = line.chars().filter(|c| !c.is_control()).collect();
    let short = match plain.char_indices().nth(MAX_DESCRIPTION_CHARS) {
        Some((at, _)) => format!("{}…", plain[..at].trim_end()),
        None => plain,
    };
    Some(short).filter(|line| !line.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn python_scripts_are_described_by_parser_docstring_or_comment() {
        for (text, expected) in [
            (
                "import argparse\np = argparse.ArgumentParser(description='Counts words.')",
                Some("Counts words."),
            ),
            (
                "p = ArgumentParser(\n    prog='x', description=(\n    \"Counts \"\n    'words.'))",
                Some("Counts words."),
            ),
            (
                "\"\"\"The docstring.\n\nMore.\"\"\"\nArgumentParser(description=__doc__)",
                Some("The docstring."),
            ),
            ("ArgumentParser(description=f'{name}')\n", None),
            (
                "#!/usr/bin/env python3\n# -*- coding: utf-8 -*-\n\"\"\"\nBelow the quotes.\n\"\"\"",
                Some("Below the quotes."),
            ),
            (
                "#!/usr/bin/env python3\n# A comment says it.\nimport os\n",
                Some("A comment says it."),
            ),
            ("r'''Raw \\d.'''", Some("Raw d.")),
            ("x = 1\n\"\"\"not a docstring\"\"\"", None),
            ("\"\"\"never ends", None),
            ("import os\n", None),
            ("", None),
        ] {
            assert_eq!(describe(text.as_bytes(), Language::Python).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn node_and_bash_scripts_are_described_by_calls_and_comments() {
        for (text, language, expected) in [
            (
                "program.name('x').description('Adds numbers')\n",
                Language::Node,
                Some("Adds numbers"),
            ),
            ("yargs.usage(`Usage: $0`)", Language::Node, Some("Usage: $0")),
            (
                "#!/usr/bin/env node\n/**\n * Merges files.\n * @module x\n */",
                Language::Node,
                Some("Merges files."),
            ),
            ("// Splits files.\nimport x from 'x'", Language::Node, Some("Splits files.")),
            ("program.description(text)", Language::Node, None),
            (
                "#!/bin/bash\n#\n# ------\n# Deploys things.\nset -e\n",
                Language::Bash,
                Some("Deploys things."),
            ),
            ("#!/bin/bash\r\n# Windows.\r\n", Language::Bash, Some("Windows.")),
            (
                "#!/bin/bash\n# shellcheck disable=SC1\n# Says it.\n",
                Language::Bash,
                Some("Says it."),
            ),
            ("#!/bin/bash\nset -e\n# too late\n", Language::Bash, None),
        ] {
            assert_eq!(describe(text.as_bytes(), language).as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn descriptions_are_short_and_without_control_characters() {
        let long = format!("# {}\n", "é".repeat(100_000));
        assert_eq!(
            describe(long.as_bytes(), Language::Bash).map(|text| text.chars().count()),
            Some(MAX_DESCRIPTION_CHARS + 1)
        );
        assert_eq!(
            describe(b"# a\x1b[31mb\xff\n", Language::Bash).as_deref(),
            Some("a[31mb\u{fffd}")
        );
    }
}
