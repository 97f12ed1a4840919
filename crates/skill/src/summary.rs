//! The first line of a script's help, as far as its text shows it. Nothing is ever run to learn it.

use crate::script::Lang;

/// Help stands near the top or in the parser's setup; what comes later is not looked for.
const LOOKED_AT: usize = 64 << 10;
const LONGEST: usize = 200;

/// What the script says it does: in its argument parser, its docstring, or the comment it begins
/// with.
pub(crate) fn of(bytes: &[u8], lang: Lang) -> Option<String> {
    let start = &bytes[..bytes.len().min(LOOKED_AT)];
    let text = String::from_utf8_lossy(start);
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    let said = match lang {
        Lang::Python => python(text),
        Lang::Node => node(text),
        Lang::Bash => comment(text, "#"),
    };
    said.and_then(|said| first_line(&said))
}

fn python(text: &str) -> Option<String> {
    let parser = text.find("ArgumentParser(").and_then(|at| keyword(&text[at..], "description"));
    parser.or_else(|| docstring(text)).or_else(|| comment(text, "#"))
}

fn node(text: &str) -> Option<String> {
    let called = |name: &str| text.find(name).and_then(|at| literal(&text[at + name.len()..]));
    [".description(", ".usage("]
        .into_iter()
        .find_map(called)
        .or_else(|| block_comment(text))
        .or_else(|| comment(text, "//"))
}

/// A keyword argument of the call that begins here. Its value may be anything; only a literal is
/// understood.
fn keyword(call: &str, name: &str) -> Option<String> {
    const LONGEST_CALL: usize = 2_000;
    let call = cut(call, LONGEST_CALL);
    let (_, value) = call.split_once(name)?;
    literal(value.trim_start().strip_prefix('=')?)
}

/// The string at the beginning of the text, behind brackets and blanks, joined with those that
/// follow it.
fn literal(text: &str) -> Option<String> {
    let mut rest = text.trim_start_matches(|c: char| c.is_whitespace() || c == '(');
    let mut joined = None::<String>;
    while let Some((piece, after)) = quoted(rest) {
        joined.get_or_insert_default().push_str(&piece);
        rest = after.trim_start();
    }
    joined
}

/// One quoted string and what follows it. A formatted one is not known before it runs.
fn quoted(text: &str) -> Option<(String, &str)> {
    let text = text.trim_start_matches(['r', 'R', 'u', 'U']);
    let mark = ["\"\"\"", "'''", "\"", "'", "`"].into_iter().find(|mark| text.starts_with(mark))?;
    let inside = &text[mark.len()..];
    let mut piece = String::new();
    let mut at = 0;
    while at < inside.len() {
        let here = &inside[at..];
        if let Some(after) = here.strip_prefix(mark) {
            return Some((piece, after));
        }
        let mut characters = here.chars();
        let character = characters.next()?;
        at += character.len_utf8();
        if character != '\\' {
            piece.push(character);
            continue;
        }
        let escaped = characters.next()?;
        at += escaped.len_utf8();
        match escaped {
            'n' => piece.push('\n'),
            // A line that goes on.
            '\n' => {}
            other => piece.push(other),
        }
    }
    None
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

/// The block of comment lines at the top, below the shebang.
fn comment(text: &str, mark: &str) -> Option<String> {
    let lines = text.lines().skip_while(|line| line.starts_with("#!") || line.trim().is_empty());
    let block = lines.map_while(|line| line.trim_start().strip_prefix(mark));
    block
        .map(|line| line.trim_start_matches(['#', '/', '!']).trim())
        .find(|line| says_something(line))
        .map(str::to_owned)
}

/// `/** … */` at the top, below the shebang.
fn block_comment(text: &str) -> Option<String> {
    let body = match text.strip_prefix("#!") {
        Some(rest) => rest.split_once('\n')?.1,
        None => text,
    };
    let (block, _) = body.trim_start().strip_prefix("/*")?.split_once("*/")?;
    let lines = block.lines().map(|line| line.trim().trim_start_matches('*').trim());
    lines.into_iter().find(|line| says_something(line)).map(str::to_owned)
}

/// Not a ruler, a directive of an editor or a linter, or a licence.
fn says_something(line: &str) -> bool {
    const SAY_NOTHING: [&str; 10] =
        ["-*-", "shellcheck", "eslint", "@ts-", "vim:", "SPDX-", "Copyright", "///", "@file", "!"];
    line.chars().any(char::is_alphanumeric)
        && !SAY_NOTHING.iter().any(|start| line.starts_with(start))
}

/// One line for people: the first that says something, without control characters, and not endless.
fn first_line(text: &str) -> Option<String> {
    let line = text.lines().map(str::trim).find(|line| !line.is_empty())?;
    let plain: String = line.chars().filter(|c| !c.is_control()).collect();
    let short = match plain.char_indices().nth(LONGEST) {
        Some((at, _)) => format!("{}…", plain[..at].trim_end()),
        None => plain,
    };
    Some(short).filter(|line| !line.is_empty())
}

/// At most so many bytes of the text, at a boundary of a character.
fn cut(text: &str, bytes: usize) -> &str {
    let end = (0..=bytes.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn python_says_it_in_its_parser_or_its_docstring() {
        for (text, said) in [
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
            assert_eq!(of(text.as_bytes(), Lang::Python).as_deref(), said, "{text}");
        }
    }

    #[test]
    fn scripts_for_node_and_bash_say_it_in_calls_and_comments() {
        for (text, lang, said) in [
            ("program.name('x').description('Adds numbers')\n", Lang::Node, Some("Adds numbers")),
            ("yargs.usage(`Usage: $0`)", Lang::Node, Some("Usage: $0")),
            (
                "#!/usr/bin/env node\n/**\n * Merges files.\n * @module x\n */",
                Lang::Node,
                Some("Merges files."),
            ),
            ("// Splits files.\nimport x from 'x'", Lang::Node, Some("Splits files.")),
            ("program.description(text)", Lang::Node, None),
            (
                "#!/bin/bash\n#\n# ------\n# Deploys things.\nset -e\n",
                Lang::Bash,
                Some("Deploys things."),
            ),
            ("#!/bin/bash\r\n# Windows.\r\n", Lang::Bash, Some("Windows.")),
            ("#!/bin/bash\n# shellcheck disable=SC1\n# Says it.\n", Lang::Bash, Some("Says it.")),
            ("#!/bin/bash\nset -e\n# too late\n", Lang::Bash, None),
        ] {
            assert_eq!(of(text.as_bytes(), lang).as_deref(), said, "{text}");
        }
    }

    #[test]
    fn what_is_said_is_short_and_plain() {
        let long = format!("# {}\n", "é".repeat(100_000));
        assert_eq!(
            of(long.as_bytes(), Lang::Bash).map(|said| said.chars().count()),
            Some(LONGEST + 1)
        );
        assert_eq!(of(b"# a\x1b[31mb\xff\n", Lang::Bash).as_deref(), Some("a[31mb\u{fffd}"));
    }
}
