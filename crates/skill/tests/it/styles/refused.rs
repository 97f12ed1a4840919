//! Skills that are not accepted, each with its codes.

use super::{Case, case};

pub(super) fn cases() -> Vec<Case> {
    vec![
        case("no-frontmatter", "Markdown and nothing else")
            .file("SKILL.md", "# My skill

Do it.
")
            .refused("frontmatter_missing@1"),
        case("unclosed", "frontmatter that never ends")
            .file("SKILL.md", "---
name: unclosed
description: x

# Text
")
            .refused("frontmatter_unclosed@1"),
        case("blank-first", "a blank line before the frontmatter")
            .file("SKILL.md", "
---
name: blank-first
description: x
---
")
            .refused("frontmatter_missing@1"),
        case("spaced-fence", "a blank after the fence")
            .file("SKILL.md", "--- 
name: spaced-fence
description: x
---
")
            .refused("frontmatter_missing@1"),
        case("toml", "frontmatter in TOML")
            .file("SKILL.md", r#"+++
name = "toml"
+++
"#)
            .refused("frontmatter_missing@1"),
        case("no-name", "no name")
            .file("SKILL.md", "---
description: x
---
# Skill

Do it.
")
            .refused("name_missing@1"),
        case("no-description", "no description")
            .file("SKILL.md", "---
name: no-description
---
# Skill

Do it.
")
            .refused("description_missing@1"),
        case("neither", "neither name nor description")
            .file("SKILL.md", "---
license: MIT
---
# Skill

Do it.
")
            .refused("name_missing@1 description_missing@1"),
        case("empty-description", "an empty description")
            .file("SKILL.md", r#"---
name: empty-description
description: "  "
---
# Skill

Do it.
"#)
            .refused("description_missing@3"),
        case("null-name", "a name that is nothing")
            .file("SKILL.md", "---
name: ~
description: x
---
# Skill

Do it.
")
            .refused("name_missing@2"),
        case("spaces", "a name with spaces")
            .file("SKILL.md", "---
name: My Great Skill
description: x
---
# Skill

Do it.
")
            .refused("name_invalid@2"),
        case("slash", "a name that is a path")
            .file("SKILL.md", "---
name: ../../etc/passwd
description: x
---
# Skill

Do it.
")
            .refused("name_invalid@2"),
        case("umlaut", "a name beyond ASCII")
            .file("SKILL.md", "---
name: größe
description: x
---
# Skill

Do it.
")
            .refused("name_invalid@2"),
        case("list", "a list instead of keys")
            .file("SKILL.md", "---
- name
- description
---
# Skill

Do it.
")
            .refused("frontmatter_not_mapping@2"),
        case("description-list", "a list for a description")
            .file("SKILL.md", "---
name: description-list
description: [a, b]
---
# Skill

Do it.
")
            .refused("field_type@3"),
        case("duplicate", "a key twice")
            .file("SKILL.md", "---
name: duplicate
description: x
name: other
---
# Skill

Do it.
")
            .refused("yaml_duplicate_key@4"),
        case("nested-duplicate", "a key twice further down")
            .file("SKILL.md", r#"---
name: nested-duplicate
description: x
metadata:
  a: 1
  "a": 2
---
# Skill

Do it.
"#)
            .refused("yaml_duplicate_key@6"),
        case("anchor", "an anchor")
            .file("SKILL.md", "---
name: &n anchor
description: x
---
# Skill

Do it.
")
            .refused("yaml_anchor@2"),
        case("alias", "an alias")
            .file("SKILL.md", "---
name: alias
description: *name
---
# Skill

Do it.
")
            .refused("yaml_anchor@3"),
        case("merge", "a merge key with an alias")
            .file("SKILL.md", "---
name: merge
description: x
metadata:
  <<: *base
---
# Skill

Do it.
")
            .refused("yaml_anchor@5"),
        case("tag", "a tag")
            .file("SKILL.md", "---
name: tag
description: !!python/object/apply:os.system [ls]
---
# Skill

Do it.
")
            .refused("yaml_tag@3"),
        case("two-documents", "a second document")
            .file("SKILL.md", "---
name: two-documents
description: x
...
other: 1
---
# Skill

Do it.
")
            .refused("yaml_documents@5"),
        case("directive", "a YAML directive")
            .file("SKILL.md", "---
%YAML 1.2
name: directive
---
# Skill

Do it.
")
            .refused("yaml_syntax@2"),
        case("tab", "a tab for indentation")
            .file("SKILL.md", "---\nname: tab\ndescription: x\nmetadata:\n\ta: b\n---\n# Skill\n\nDo it.\n")
            .refused("yaml_syntax@5"),
        case("open-quote", "a quote that is never closed")
            .file("SKILL.md", r#"---
name: open-quote
description: "x
---
# Skill

Do it.
"#)
            .refused("yaml_syntax@4"),
        case("other-colon", "an unquoted colon elsewhere")
            .file("SKILL.md", "---
name: other-colon
description: x
license: MIT: really
---
# Skill

Do it.
")
            .refused("yaml_syntax@4"),
        case("bracket", "a description that begins with a bracket")
            .file("SKILL.md", "---
name: bracket
description: [Beta] Does things
---
# Skill

Do it.
")
            .refused("yaml_syntax@3"),
        case("nul", "a NUL")
            .file("SKILL.md", "---\nname: nul\ndescription: x\n---\na\0b\n")
            .refused("control_character@5"),
        case("escape", "an escape sequence spelled in YAML")
            .file("SKILL.md", r#"---
name: escape
description: "\e[2J"
---
# Skill

Do it.
"#)
            .refused("control_character@3"),
        case("latin-1", "a file in Latin-1")
            .file("SKILL.md", b"---\nname: latin-1\ndescription: caf\xe9\n---\n")
            .refused("not_utf8@3"),
        case("utf-16", "a file in UTF-16")
            .file("SKILL.md", b"\xff\xfe-\x00-\x00-\x00\n\x00n\x00a\x00m\x00e\x00:\x00 \x00x\x00\n\x00-\x00-\x00-\x00\n\x00")
            .refused("not_utf8@1"),
        case("huge", "frontmatter of more than 64 KiB")
            .file("SKILL.md", format!("---\nname: huge\ndescription: {}\n---\n# Skill\n\nDo it.\n", "x".repeat(71680)))
            .refused("yaml_large@2"),
        case("many", "more values than a person writes")
            .file("SKILL.md", format!("---\nname: many\ndescription: x\nmetadata: [{}]\n---\n# Skill\n\nDo it.\n", "1,".repeat(12000)))
            .refused("yaml_large@4"),
        case("deep", "nesting without end")
            .file("SKILL.md", "---
name: deep
description: x
metadata: [[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]]
---
# Skill

Do it.
")
            .refused("yaml_large@4"),
        case("bad-version", "a version that is none")
            .file("SKILL.md", "---
name: bad-version
description: x
version: latest
---
# Skill

Do it.
")
            .refused("version_invalid@4"),
        case("bad-values", "every value wrong at once")
            .file("SKILL.md", "---
name: bad-values
description: x
lang: ruby
mode: fast
timeout: 60
idempotent: yes
resources: {memory: lots, cpu: many}
input_schema: [a]
metadata: text
---
# Skill

Do it.
")
            .refused("lang_invalid@4 mode_invalid@5 timeout_invalid@6 idempotent_invalid@7 resources_invalid@8 resources_invalid@8 schema_invalid@9 field_type@10"),
        case("bad-flat", "a flat key that is wrong")
            .file("SKILL.md", r#"---
name: bad-flat
description: x
metadata:
  skillbox.timeout: soon
  skillbox.input_schema: '{"type": '
---
# Skill

Do it.
"#)
            .refused("timeout_invalid@5 yaml_syntax@6"),
        case("bad-sidecar", "a sidecar that is not YAML")
            .file("SKILL.md", "---
name: bad-sidecar
description: x
---
# Skill

Do it.
")
            .file("skillsandbox.yaml", "permissions: [\n")
            .refused("yaml_syntax@1"),
        case("bad-skillware", "a Skillware manifest without a name")
            .file("manifest.yaml", "description: x
version: one
")
            .file("skill.py", "from skillware.core.base_skill import BaseSkill


class Converter(BaseSkill):
    def execute(self, params):
        return params
")
            .refused("name_missing@1 version_invalid@2"),
        case("not-skillware", "a manifest and code without a class")
            .file("manifest.yaml", "name: x
description: x
")
            .file("skill.py", "print(1)\n")
            .refused("no_skill_file"),
        case("readme", "no SKILL.md at all")
            .file("README.md", "# Hello\n")
            .file("main.py", "print(1)\n")
            .refused("no_skill_file"),
        case("too-deep", "a SKILL.md two directories down")
            .in_no_directory()
            .file("a/b/SKILL.md", "---
name: x
description: x
---
# Skill

Do it.
")
            .refused("no_skill_file"),
        case("two-skills", "two spellings of SKILL.md")
            .file("SKILL.md", "---
name: two-skills
description: x
---
# Skill

Do it.
")
            .file("skill.md", "---
name: two-skills
description: x
---
# Skill

Do it.
")
            .refused("duplicate_entry"),
    ]
}
