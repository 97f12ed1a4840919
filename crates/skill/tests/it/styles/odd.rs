//! Skills that break a rule of another tool and work all the same.

use language::Language;

use super::{Case, case};

pub(super) fn cases() -> Vec<Case> {
    vec![
        case("no-body", "nothing below the frontmatter")
            .file(
                "SKILL.md",
                "---
name: no-body
description: Has no instructions.
---
",
            )
            .accepted("no-body", "Has no instructions.")
            .finds(["no_instructions@5", "no_instructions@5", "no_instructions@5", "no_instructions@5"]),
        case("no-newline", "no newline at the end of the file")
            .file(
                "SKILL.md",
                "---
name: no-newline
description: Ends early.
---
Text",
            )
            .accepted("no-newline", "Ends early."),
        case("bom", "a byte order mark")
            .file("SKILL.md", "\u{feff}---\nname: bom\ndescription: Saved by Notepad.\n---\nText\n")
            .accepted("bom", "Saved by Notepad."),
        case("crlf", "Windows line ends throughout")
            .file(
                "SKILL.md",
                "---\r\nname: crlf\r\ndescription: >\r\n  From Windows,\r\n  folded.\r\n---\r\n\r\n# Text\r\n",
            )
            .file("main.py", "print(1)\r\n")
            .accepted("crlf", "From Windows, folded.")
            .runs("main.py", Language::Python),
        case("crlf-script", "Windows line ends in a shell script")
            .file(
                "SKILL.md",
                "---
name: crlf-script
description: From Windows.
---
# Skill

Do it.
",
            )
            .file("main.sh", "#!/bin/bash\r\necho hi\r\n")
            .accepted("crlf-script", "From Windows.")
            .runs("main.sh", Language::Bash)
            .finds(["script_line_ends@1", "script_line_ends@1", "script_line_ends@1", "script_line_ends@1"]),
        case("lower-case", "skill.md in lower case")
            .file(
                "skill.md",
                "---
name: lower-case
description: Is spelled small.
---
# Skill

Do it.
",
            )
            .accepted("lower-case", "Is spelled small.")
            .finds(["skill_file_name@1", "skill_file_name@1", "skill_file_name@1", "skill_file_name@1"]),
        case("mixed-case", "Skill.MD")
            .file(
                "Skill.MD",
                "---
name: mixed-case
description: Is spelled oddly.
---
# Skill

Do it.
",
            )
            .accepted("mixed-case", "Is spelled oddly.")
            .finds(["skill_file_name@1", "skill_file_name@1", "skill_file_name@1", "skill_file_name@1"]),
        case("Upper-Name", "capitals in the name")
            .file(
                "SKILL.md",
                "---
name: Upper-Name
description: Is loud.
---
# Skill

Do it.
",
            )
            .accepted("Upper-Name", "Is loud.")
            .finds(["name_not_portable@2", "name_not_portable@2", "name_not_portable@2", "name_not_portable@2"]),
        case("snake_name", "underscores in the name")
            .file(
                "SKILL.md",
                "---
name: snake_name
description: Is Pythonic.
---
# Skill

Do it.
",
            )
            .accepted("snake_name", "Is Pythonic.")
            .finds(["name_not_portable@2", "name_not_portable@2", "name_not_portable@2", "name_not_portable@2"]),
        case("dotted.name", "dots in the name")
            .file(
                "SKILL.md",
                "---
name: dotted.name
description: Is dotted.
---
# Skill

Do it.
",
            )
            .accepted("dotted.name", "Is dotted.")
            .finds(["name_not_portable@2", "name_not_portable@2", "name_not_portable@2", "name_not_portable@2"]),
        case("double--hyphen", "two hyphens in a row")
            .file(
                "SKILL.md",
                "---
name: double--hyphen
description: Has two.
---
# Skill

Do it.
",
            )
            .accepted("double--hyphen", "Has two.")
            .finds(["name_not_portable@2", "name_not_portable@2", "name_not_portable@2", "name_not_portable@2"]),
        case("edge-", "a hyphen at the end")
            .file(
                "SKILL.md",
                "---
name: edge-
description: Ends oddly.
---
# Skill

Do it.
",
            )
            .accepted("edge-", "Ends oddly.")
            .finds(["name_not_portable@2", "name_not_portable@2", "name_not_portable@2", "name_not_portable@2"]),
        case("long-name", "a name of 65 characters")
            .in_directory(&"n".repeat(65))
            .file(
                "SKILL.md",
                "---
name: nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn
description: Is long.
---
# Skill

Do it.
",
            )
            .accepted(&"n".repeat(65), "Is long.")
            .finds(["name_not_portable@2", "name_not_portable@2", "name_not_portable@2", "name_not_portable@2"]),
        case("number", "a name and a description that look like numbers")
            .in_directory("007")
            .file(
                "SKILL.md",
                "---
name: 007
description: 1.10
---
# Skill

Do it.
",
            )
            .accepted("007", "1.10"),
        case("other-directory", "a directory with another name")
            .in_directory("elsewhere")
            .file(
                "SKILL.md",
                "---
name: the-name
description: Lies elsewhere.
---
# Skill

Do it.
",
            )
            .accepted("the-name", "Lies elsewhere.")
            .finds(["name_not_directory@2", "name_not_directory@2", "name_not_directory@2", "name_not_directory@2"]),
        case("colon", "an unquoted colon in the description")
            .file(
                "SKILL.md",
                "---
name: colon
description: Use when: the user asks. Triggers: report, summary
---
# Skill

Do it.
",
            )
            .accepted("colon", "Use when: the user asks. Triggers: report, summary")
            .finds([
                "description_unquoted@3", "description_unquoted@3", "description_unquoted@3", "description_unquoted@3",
            ]),
        case("colon-lines", "colons in a description over several lines")
            .file(
                "SKILL.md",
                "---
name: colon-lines
description: Use when: asked
  Not when: not asked
license: MIT
---
# Skill

Do it.
",
            )
            .accepted("colon-lines", "Use when: asked Not when: not asked")
            .finds([
                "description_unquoted@3", "description_unquoted@3", "description_unquoted@3", "description_unquoted@3",
            ]),
        case("hash", "a hash that starts a comment")
            .file(
                "SKILL.md",
                "---
name: hash
description: Fixes issue #12
---
# Skill

Do it.
",
            )
            .accepted("hash", "Fixes issue"),
        case("long-description", "more than 1024 characters")
            .file(
                "SKILL.md",
                format!("---\nname: long-description\ndescription:{} \n---\n# Skill\n\nDo it.\n", " word".repeat(300)),
            )
            .accepted("long-description", &format!("{}word", "word ".repeat(299)))
            .finds(["description_long@3", "description_long@3", "description_long@3", "description_long@3"]),
        case("long-compatibility", "more than 500 characters")
            .file(
                "SKILL.md",
                format!(
                    "---\nname: long-compatibility\ndescription: x\ncompatibility: {}\n---\n# Skill\n\nDo it.\n",
                    "y".repeat(501)
                ),
            )
            .accepted("long-compatibility", "x")
            .finds(["compatibility_long@4", "compatibility_long@4", "compatibility_long@4", "compatibility_long@4"]),
        case("tools-list", "allowed-tools as a list")
            .file(
                "SKILL.md",
                "---
name: tools-list
description: Lists tools.
allowed-tools:
  - Read
  - Bash(git:*)
---
# Skill

Do it.
",
            )
            .accepted("tools-list", "Lists tools.")
            .finds(["allowed_tools_list@4", "allowed_tools_list@4", "allowed_tools_list@4", "allowed_tools_list@4"]),
        case("tools-commas", "allowed-tools with commas")
            .file(
                "SKILL.md",
                "---
name: tools-commas
description: Lists tools.
allowed-tools: Read, Write, Bash
---
# Skill

Do it.
",
            )
            .accepted("tools-commas", "Lists tools.")
            .finds(["", "allowed_tools_commas@4", "", ""]),
        case("licence-list", "lists where texts belong")
            .file(
                "SKILL.md",
                "---
name: licence-list
description: Has lists.
license: [MIT, Apache-2.0]
compatibility:
  - claude-code
  - codex
---
# Skill

Do it.
",
            )
            .accepted("licence-list", "Has lists.")
            .finds([
                "text_not_single@4 text_not_single@5", "text_not_single@4 text_not_single@5",
                "text_not_single@4 text_not_single@5", "text_not_single@4 text_not_single@5",
            ]),
        case("compatibility-map", "a mapping where a text belongs")
            .file(
                "SKILL.md",
                "---
name: compatibility-map
description: Has a mapping.
compatibility:
  os: [linux, macos]
---
# Skill

Do it.
",
            )
            .accepted("compatibility-map", "Has a mapping.")
            .finds(["text_not_single@4", "text_not_single@4", "text_not_single@4", "text_not_single@4"]),
        case("nested-metadata", "metadata with lists and mappings")
            .file(
                "SKILL.md",
                "---
name: nested-metadata
description: Nests.
metadata:
  author: {name: someone, url: x}
  tags: [a, b]
  version: 1.10
---
# Skill

Do it.
",
            )
            .accepted("nested-metadata", "Nests.")
            .finds(["", "metadata_not_strings@5 metadata_not_strings@6", "", ""]),
        case("short-version", "a version of two numbers")
            .file(
                "SKILL.md",
                "---
name: short-version
description: Has a short version.
version: 1.0
---
# Skill

Do it.
",
            )
            .accepted("short-version", "Has a short version.")
            .finds([
                "version_adapted@4", "key_not_in_spec@4 version_adapted@4", "key_not_in_spec@4 version_adapted@4",
                "key_not_in_spec@4 version_adapted@4",
            ]),
        case("v-version", "a version with a letter")
            .file(
                "SKILL.md",
                "---
name: v-version
description: Has a tag for a version.
version: v2.1.0
---
# Skill

Do it.
",
            )
            .accepted("v-version", "Has a tag for a version.")
            .finds([
                "version_adapted@4", "key_not_in_spec@4 version_adapted@4", "key_not_in_spec@4 version_adapted@4",
                "key_not_in_spec@4 version_adapted@4",
            ]),
        case("xml", "an XML tag in the description")
            .file(
                "SKILL.md",
                "---
name: xml
description: Fills <name> into templates.
---
# Skill

Do it.
",
            )
            .accepted("xml", "Fills <name> into templates.")
            .finds(["", "", "description_tag@3", "description_tag@3"]),
        case("brackets", "lone angle brackets in the description")
            .file(
                "SKILL.md",
                "---
name: brackets
description: For files < 5 MB.
---
# Skill

Do it.
",
            )
            .accepted("brackets", "For files < 5 MB.")
            .finds(["", "", "description_angle_bracket@3", "description_angle_bracket@3"]),
        case("claude-helper", "a name with a reserved word")
            .file(
                "SKILL.md",
                "---
name: claude-helper
description: Helps.
---
# Skill

Do it.
",
            )
            .accepted("claude-helper", "Helps.")
            .finds(["", "", "name_reserved@2", ""]),
        case("second-skill", "another SKILL.md further down")
            .file(
                "SKILL.md",
                "---
name: second-skill
description: Has a child.
---
# Skill

Do it.
",
            )
            .file(
                "examples/child/SKILL.md", "---
name: child
description: x
---
",
            )
            .accepted("second-skill", "Has a child.")
            .finds(["", "", "", "skill_files_several@1"]),
        case("zero-width", "a zero-width space in the instructions, which the scanner reports")
            .file("SKILL.md", "---\nname: zero-width\ndescription: Hides something.\n---\nDo\u{200b}it.\n")
            .accepted("zero-width", "Hides something.")
            .finds(["", "", "", ""]),
        case("right-to-left", "an override of direction in the description, which the scanner reports")
            .file(
                "SKILL.md",
                "---\nname: right-to-left\ndescription: \"Reads \u{202e}backwards\"\n---\n# Skill\n\nDo it.\n",
            )
            .accepted("right-to-left", "Reads \u{202e}backwards")
            .finds(["", "", "", ""]),
        case("history", "a repository's history")
            .file(
                "SKILL.md",
                "---
name: history
description: Was zipped whole.
---
# Skill

Do it.
",
            )
            .file(".git/HEAD", "ref: refs/heads/main\n")
            .accepted("history", "Was zipped whole.")
            .finds(["version_control", "version_control", "version_control", "version_control"]),
        case("lost-entrypoint", "an entrypoint that is not there")
            .file(
                "SKILL.md",
                "---
name: lost-entrypoint
description: Has lost it.
entrypoint: scripts/go.py
---
# Skill

Do it.
",
            )
            .file("main.py", "print(1)\n")
            .accepted("lost-entrypoint", "Has lost it.")
            .finds([
                "entrypoint_missing@4", "key_not_in_spec@4 entrypoint_missing@4",
                "key_not_in_spec@4 entrypoint_missing@4", "key_not_in_spec@4 entrypoint_missing@4",
            ]),
        case("wrong-lang", "a language that is not the entrypoint's")
            .file(
                "SKILL.md",
                "---
name: wrong-lang
description: Is mistaken.
lang: bash
---
# Skill

Do it.
",
            )
            .file("main.py", "print(1)\n")
            .accepted("wrong-lang", "Is mistaken.")
            .runs("main.py", Language::Bash)
            .finds([
                "lang_mismatch@4", "key_not_in_spec@4 lang_mismatch@4", "key_not_in_spec@4 lang_mismatch@4",
                "key_not_in_spec@4 lang_mismatch@4",
            ]),
        case("lang-narrows", "a language that chooses between entrypoints")
            .file(
                "SKILL.md",
                "---
name: lang-narrows
description: Chooses.
lang: node
---
# Skill

Do it.
",
            )
            .file("run.py", "print(1)\n")
            .file("main.js", "console.log(1)\n")
            .accepted("lang-narrows", "Chooses.")
            .runs("main.js", Language::Node)
            .finds(["", "key_not_in_spec@4", "key_not_in_spec@4", "key_not_in_spec@4"]),
        case("cognitive", "scripts that are not meant to run")
            .file(
                "SKILL.md",
                "---
name: cognitive
description: Is there to be read.
mode: cognitive
---
# Skill

Do it.
",
            )
            .file("examples/demo.py", "print(1)\n")
            .accepted("cognitive", "Is there to be read.")
            .finds(["", "key_not_in_spec@4", "key_not_in_spec@4", "key_not_in_spec@4"]),
        case("long-body", "instructions of more than 500 lines")
            .file("SKILL.md", format!("---\nname: long-body\ndescription: Goes on.\n---{}\n", "\nline".repeat(501)))
            .accepted("long-body", "Goes on.")
            .finds([
                "instructions_long@505", "instructions_long@505", "instructions_long@505", "instructions_long@505",
            ]),
        case("wrapped", "one wrapper directory")
            .in_no_directory()
            .file(
                "wrapped/SKILL.md",
                "---
name: wrapped
description: Lies in a directory.
---
# Skill

Do it.
",
            )
            .file("wrapped/main.py", "print(1)\n")
            .accepted("wrapped", "Lies in a directory.")
            .runs("main.py", Language::Python),
        case("wrapped-junk", "a wrapper directory and what macOS leaves behind")
            .in_no_directory()
            .file(
                "repo-main/SKILL.md",
                "---
name: wrapped-junk
description: Came from a Mac.
---
# Skill

Do it.
",
            )
            .file("__MACOSX/repo-main/._SKILL.md", "junk")
            .file(".DS_Store", "junk")
            .accepted("wrapped-junk", "Came from a Mac.")
            .finds([
                "name_not_directory@2 junk_dropped", "name_not_directory@2 junk_dropped",
                "name_not_directory@2 junk_dropped", "name_not_directory@2 junk_dropped",
            ]),
    ]
}
