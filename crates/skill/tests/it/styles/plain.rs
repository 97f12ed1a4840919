//! Skills as the specification has them, in every way of writing YAML. Nothing to remark upon but
//! what is said.

use language::Language;

use super::{Case, case};

pub(super) fn cases() -> Vec<Case> {
    vec![
        case("minimal", "name and description, nothing else")
            .file("SKILL.md", "---
name: minimal
description: Says hello. Use for greetings.
---
# Skill

Do it.
")
            .accepted("minimal", "Says hello. Use for greetings."),
        case("full-spec", "every key of the specification")
            .file("SKILL.md", r#"---
name: full-spec
description: Extracts text from PDF files. Use when the user mentions PDFs.
license: Apache-2.0
compatibility: Requires Python 3.11 and uv
metadata:
  author: example-org
  version: "1.0"
allowed-tools: Bash(git:*) Bash(jq:*) Read
---
# Skill

Do it.
"#)
            .accepted("full-spec", "Extracts text from PDF files. Use when the user mentions PDFs."),
        case("several-scripts", "scripts by name only, as most published skills have them")
            .file("SKILL.md", "---
name: several-scripts
description: Converts documents.
---
# Skill

Do it.
")
            .file("scripts/to_pdf.py", "\"\"\"Turns a document into a PDF.\"\"\"\n")
            .file("scripts/to_text.sh", "#!/usr/bin/env bash
# Turns a document into text.
")
            .accepted("several-scripts", "Converts documents.")
            .finds(["no_entrypoint@1", "no_entrypoint@1", "no_entrypoint@1", "no_entrypoint@1"]),
        case("main-at-root", "a Python entrypoint at the root")
            .file("SKILL.md", "---
name: main-at-root
description: Counts words.
---
# Skill

Do it.
")
            .file("main.py", "print(1)\n")
            .accepted("main-at-root", "Counts words.")
            .runs("main.py", Language::Python),
        case("main-in-scripts", "a Node entrypoint in scripts")
            .file("SKILL.md", "---
name: main-in-scripts
description: Adds numbers.
---
# Skill

Do it.
")
            .file("scripts/main.js", "console.log(1)\n")
            .accepted("main-in-scripts", "Adds numbers.")
            .runs("scripts/main.js", Language::Node),
        case("bash-main", "an executable Bash entrypoint")
            .file("SKILL.md", "---
name: bash-main
description: Lists files.
---
# Skill

Do it.
")
            .file("main.sh", "#!/bin/bash
ls
")
            .accepted("bash-main", "Lists files.")
            .runs("main.sh", Language::Bash),
        case("root-wins", "entrypoints at the root and in scripts")
            .file("SKILL.md", "---
name: root-wins
description: Chooses.
---
# Skill

Do it.
")
            .file("main.sh", "ls\n")
            .file("scripts/main.py", "print(1)\n")
            .accepted("root-wins", "Chooses.")
            .runs("main.sh", Language::Bash),
        case("references-only", "a guide with references and assets")
            .file("SKILL.md", "---
name: references-only
description: House style for reports.
---
# Skill

Do it.
")
            .file("references/style.md", "# Style\n")
            .file("assets/logo.svg", "<svg/>")
            .accepted("references-only", "House style for reports."),
        case("double-quoted", "double quotes with escapes and a colon")
            .file("SKILL.md", r#"---
name: "double-quoted"
description: "Use when: the user says \"go\""
---
# Skill

Do it.
"#)
            .accepted("double-quoted", "Use when: the user says \"go\""),
        case("single-quoted", "single quotes with a doubled one")
            .file("SKILL.md", "---
name: 'single-quoted'
description: 'It''s for: quotes'
---
# Skill

Do it.
")
            .accepted("single-quoted", "It's for: quotes"),
        case("folded", "a folded block scalar")
            .file("SKILL.md", "---
name: folded
description: >
  First line
  second line.

  Second paragraph.
---
# Skill

Do it.
")
            .accepted("folded", "First line second line.\nSecond paragraph."),
        case("folded-strip", "a folded block scalar that strips its end")
            .file("SKILL.md", "---
name: folded-strip
description: >-
  Use when: always,
  also: sometimes.
---
# Skill

Do it.
")
            .accepted("folded-strip", "Use when: always, also: sometimes."),
        case("literal", "a literal block scalar with a fence in it")
            .file("SKILL.md", "---
name: literal
description: |
  Line one
  ---
  line two
---
# Skill

Do it.
")
            .accepted("literal", "Line one\n---\nline two"),
        case("plain-lines", "a plain scalar over several lines")
            .file("SKILL.md", "---
name: plain-lines
description: Starts here
  and goes on
  down here.
---
# Skill

Do it.
")
            .accepted("plain-lines", "Starts here and goes on down here."),
        case("emoji", "emoji and joiners")
            .file("SKILL.md", "---\nname: emoji\ndescription: Tracks families 👨\u{200d}👩\u{200d}👧 and flags 🇩🇪.\n---\n# 🎉 Party\n")
            .accepted("emoji", "Tracks families 👨\u{200d}👩\u{200d}👧 and flags 🇩🇪."),
        case("chinese", "a description in another script")
            .file("SKILL.md", "---
name: chinese
description: 用于处理中文文档。当用户提到报告时使用。
---
# 说明
")
            .accepted("chinese", "用于处理中文文档。当用户提到报告时使用。"),
        case("file-names", "names beyond ASCII and with blanks")
            .file("SKILL.md", "---
name: file-names
description: Has odd file names.
---
# Skill

Do it.
")
            .file("references/größe und maß.md", "x\n")
            .file("données/été.csv", "1\n")
            .accepted("file-names", "Has odd file names."),
        case("comments", "comments and blank lines in the frontmatter")
            .file("SKILL.md", "---
# made by hand

name: comments # the name

# what it does
description: Has comments.
---
# Skill

Do it.
")
            .accepted("comments", "Has comments."),
        case("rules-in-body", "horizontal rules and a second frontmatter in the body")
            .file("SKILL.md", "---
name: rules-in-body
description: Has rules.
---
# A

---

name: not-this
---

```
---
name: nor-this
---
```
")
            .accepted("rules-in-body", "Has rules."),
        case("flow-mapping", "metadata in one line")
            .file("SKILL.md", "---
name: flow-mapping
description: Has flow.
metadata: {author: someone, homepage: 'https://example.com'}
---
# Skill

Do it.
")
            .accepted("flow-mapping", "Has flow."),
        case("extensionless", "a tool without an extension")
            .file("SKILL.md", "---
name: extensionless
description: Has a tool.
metadata:
  skillbox.entrypoint: bin/tool
---
# Skill

Do it.
")
            .file("bin/tool", "#!/usr/bin/env python3
print(1)
")
            .accepted("extensionless", "Has a tool.")
            .runs("bin/tool", Language::Python),
        case("esm", "an ES module with a sibling")
            .file("SKILL.md", "---
name: esm
description: Imports a sibling.
---
# Skill

Do it.
")
            .file("scripts/run.mjs", "import './lib.mjs'\n")
            .file("scripts/lib.mjs", "export {}\n")
            .accepted("esm", "Imports a sibling.")
            .finds(["no_entrypoint@1", "no_entrypoint@1", "no_entrypoint@1", "no_entrypoint@1"]),
        case("limits-reached", "a name, a description and a compatibility as long as they may be")
            .in_directory(&"n".repeat(64))
            .file("SKILL.md", format!("---\nname: {}\ndescription: {}\ncompatibility: {}\n---\n# Skill\n\nDo it.\n", "n".repeat(64), "é".repeat(1024), "x".repeat(500)))
            .accepted(&"n".repeat(64), &"é".repeat(1024)),
    ]
}
