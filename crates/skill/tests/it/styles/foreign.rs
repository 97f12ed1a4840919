//! Skills with other tools' keys, our own settings in every place, and other dialects.

use language::Language;

use super::{Case, case};

pub(super) fn cases() -> Vec<Case> {
    vec![
        case("claude-code", "keys of Claude Code")
            .in_directory("claude-code-keys")
            .file("SKILL.md", r#"---
name: claude-code-keys
description: Reviews code.
model: opus
context: fork
agent: Explore
argument-hint: "[file]"
disable-model-invocation: true
user-invocable: false
hooks:
  PreToolUse:
    - matcher: Bash
---
# Skill

Do it.
"#)
            .accepted("claude-code-keys", "Reviews code.")
            .finds(["unknown_key@4 unknown_key@5 unknown_key@6 unknown_key@7 unknown_key@8 unknown_key@9 unknown_key@10", "unknown_key@4 unknown_key@5 unknown_key@6 unknown_key@7 unknown_key@8 unknown_key@9 unknown_key@10", "name_reserved@2 unknown_key@4 unknown_key@5 unknown_key@6 unknown_key@7 unknown_key@8 unknown_key@9 unknown_key@10", "unknown_key@4 unknown_key@5 unknown_key@6 unknown_key@7 unknown_key@8 unknown_key@9 unknown_key@10"]),
        case("cursor", "keys of editor rules")
            .file("SKILL.md", r#"---
name: cursor
description: Lints.
globs: ["*.ts", "*.tsx"]
alwaysApply: false
---
# Skill

Do it.
"#)
            .accepted("cursor", "Lints.")
            .finds(["unknown_key@4 unknown_key@5", "unknown_key@4 unknown_key@5", "unknown_key@4 unknown_key@5", "unknown_key@4 unknown_key@5"]),
        case("openclaw", "requirements as nested JSON under metadata")
            .file("SKILL.md", r#"---
name: openclaw
description: Plays music.
homepage: https://example.com
metadata: {"openclaw":{"emoji":"🎵","requires":{"bins":["ffmpeg"]}}}
---
# Skill

Do it.
"#)
            .accepted("openclaw", "Plays music.")
            .finds(["unknown_key@4", "unknown_key@4 metadata_not_strings@5", "unknown_key@4", "unknown_key@4"]),
        case("codex", "interface metadata for Codex")
            .file("SKILL.md", "---
name: codex
description: Writes changelogs.
metadata:
  short-description: Write a changelog
---
# Skill

Do it.
")
            .file("agents/openai.yaml", "interface:
  display_name: Changelog
")
            .accepted("codex", "Writes changelogs."),
        case("registry", "keys of a registry")
            .file("SKILL.md", "---
name: registry
description: Is listed.
author: someone
tags: [a, b]
category: tools
version: 0.1.0
triggers:
  - make a list
dependencies:
  - pandas
---
# Skill

Do it.
")
            .accepted("registry", "Is listed.")
            .finds(["unknown_key@4 unknown_key@5 unknown_key@6 unknown_key@8 unknown_key@10", "unknown_key@4 unknown_key@5 unknown_key@6 key_not_in_spec@7 unknown_key@8 unknown_key@10", "unknown_key@4 unknown_key@5 unknown_key@6 key_not_in_spec@7 unknown_key@8 unknown_key@10", "unknown_key@4 unknown_key@5 unknown_key@6 key_not_in_spec@7 unknown_key@8 unknown_key@10"]),
        case("ours", "every setting of ours")
            .file("SKILL.md", "---
name: ours
description: Uses them all.
version: 2.0.0-rc.1
lang: python
image: python:3.12-slim
entrypoint: ./tools/go.py
timeout: 1m30s
resources: {memory: 128Mi, cpu: 250m}
mode: executable
idempotent: true
input_schema: {type: object}
output_schema: true
permissions: {env_vars: {allow: [TOKEN]}}
---
# Skill

Do it.
")
            .file("tools/go.py", "print(1)\n")
            .accepted("ours", "Uses them all.")
            .runs("tools/go.py", Language::Python)
            .finds(["", "key_not_in_spec@4 key_not_in_spec@5 key_not_in_spec@6 key_not_in_spec@7 key_not_in_spec@8 key_not_in_spec@9 key_not_in_spec@10 key_not_in_spec@11 key_not_in_spec@12 key_not_in_spec@13 key_not_in_spec@14", "key_not_in_spec@4 key_not_in_spec@5 key_not_in_spec@6 key_not_in_spec@7 key_not_in_spec@8 key_not_in_spec@9 key_not_in_spec@10 key_not_in_spec@11 key_not_in_spec@12 key_not_in_spec@13 key_not_in_spec@14", "key_not_in_spec@4 key_not_in_spec@5 key_not_in_spec@6 key_not_in_spec@7 key_not_in_spec@8 key_not_in_spec@9 key_not_in_spec@10 key_not_in_spec@11 key_not_in_spec@12 key_not_in_spec@13 key_not_in_spec@14"]),
        case("flat", "the same as flat keys under metadata")
            .file("SKILL.md", r#"---
name: flat
description: Is strict.
metadata:
  skillbox.version: 2.0.0
  skillbox.lang: bash
  skillbox.image: bash:5
  skillbox.entrypoint: tools/go
  skillbox.timeout: 20s
  skillbox.memory: 64Mi
  skillbox.cpu: "0.5"
  skillbox.idempotent: "true"
  skillbox.mode: executable
  skillbox.input_schema: '{"type": "object", "required": ["n"]}'
  skillbox.permissions: '{"env_vars": {"allow": ["TOKEN"]}}'
---
# Skill

Do it.
"#)
            .file("tools/go", "echo hi\n")
            .accepted("flat", "Is strict.")
            .runs("tools/go", Language::Bash),
        case("flat-conflict", "flat keys that contradict the fields")
            .file("SKILL.md", "---
name: flat-conflict
description: Contradicts itself.
timeout: 30s
lang: python
metadata:
  skillbox.timeout: 10s
  skillbox.lang: node
  skillbox.colour: red
---
# Skill

Do it.
")
            .file("main.py", "print(1)\n")
            .accepted("flat-conflict", "Contradicts itself.")
            .runs("main.py", Language::Python)
            .finds(["setting_conflict@4 setting_conflict@8 unknown_key@9", "key_not_in_spec@4 setting_conflict@4 key_not_in_spec@5 setting_conflict@8 unknown_key@9", "key_not_in_spec@4 setting_conflict@4 key_not_in_spec@5 setting_conflict@8 unknown_key@9", "key_not_in_spec@4 setting_conflict@4 key_not_in_spec@5 setting_conflict@8 unknown_key@9"]),
        case("egress", "permissions that nobody grants")
            .file("SKILL.md", "---
name: egress
description: Fetches the weather.
permissions:
  network:
    egress:
      - domain: api.example.com
        ports: [443]
  filesystem: {read: [/etc/passwd], write: [/tmp/cache]}
---
# Skill

Do it.
")
            .file("main.py", "print(1)\n")
            .accepted("egress", "Fetches the weather.")
            .runs("main.py", Language::Python)
            .finds(["permission_refused@4", "key_not_in_spec@4 permission_refused@4", "key_not_in_spec@4 permission_refused@4", "key_not_in_spec@4 permission_refused@4"]),
        case("permission-list", "permissions in another vocabulary")
            .file("SKILL.md", "---
name: permission-list
description: Asks in its own words.
permissions: [network, shell]
---
# Skill

Do it.
")
            .file("main.py", "print(1)\n")
            .accepted("permission-list", "Asks in its own words.")
            .runs("main.py", Language::Python)
            .finds(["unknown_permission@4", "key_not_in_spec@4 unknown_permission@4", "key_not_in_spec@4 unknown_permission@4", "key_not_in_spec@4 unknown_permission@4"]),
        case("sidecar", "a capability manifest beside SKILL.md")
            .file("SKILL.md", "---
name: sidecar
description: Has a sidecar.
timeout: 60s
---
# Skill

Do it.
")
            .file("main.py", "print(1)\n")
            .file("skillsandbox.yaml", r#"skill:
  name: sidecar
  version: "0.1.0"
permissions:
  network: {egress: []}
  filesystem: {read: [/tmp/x], write: [/tmp/x]}
  env_vars: {allow: [LANG, PATH]}
  syscalls: {profile: default}
resources: {memory_mb: 128, cpu_shares: 256, max_runtime_seconds: 60, max_output_bytes: 1048576}
entrypoint: {command: python3, args: [main.py], workdir: /skill}
"#)
            .accepted("sidecar", "Has a sidecar.")
            .runs("main.py", Language::Python)
            .finds(["", "key_not_in_spec@4", "key_not_in_spec@4", "key_not_in_spec@4"]),
        case("sidecar-conflict", "a sidecar that contradicts SKILL.md")
            .file("SKILL.md", "---
name: sidecar-conflict
description: Disagrees.
version: 1.0.0
timeout: 10s
permissions: {env_vars: {allow: [A]}}
---
# Skill

Do it.
")
            .file("main.py", "print(1)\n")
            .file("other.py", "print(2)\n")
            .file("skillsandbox.yaml", "skill: {name: another, version: 2.0.0, licence: MIT}
permissions: {env_vars: {allow: [A, B]}}
resources: {max_runtime_seconds: 60}
entrypoint: python3 other.py
extra: 1
")
            .accepted("sidecar-conflict", "Disagrees.")
            .runs("other.py", Language::Python)
            .finds(["unknown_key@1 setting_conflict@1 setting_conflict@1 setting_conflict@2 setting_conflict@3 unknown_key@5", "key_not_in_spec@4 key_not_in_spec@5 key_not_in_spec@6 unknown_key@1 setting_conflict@1 setting_conflict@1 setting_conflict@2 setting_conflict@3 unknown_key@5", "key_not_in_spec@4 key_not_in_spec@5 key_not_in_spec@6 unknown_key@1 setting_conflict@1 setting_conflict@1 setting_conflict@2 setting_conflict@3 unknown_key@5", "key_not_in_spec@4 key_not_in_spec@5 key_not_in_spec@6 unknown_key@1 setting_conflict@1 setting_conflict@1 setting_conflict@2 setting_conflict@3 unknown_key@5"]),
        case("sidecar-alone", "nothing but a capability manifest")
            .file("skillsandbox.yaml", "skill: {name: sidecar-alone, version: 0.1.0, description: Looks up the weather., author: someone}
permissions:
  network:
    egress:
      - {domain: api.example.com, ports: [443], protocol: tcp}
resources: {memory_mb: 128}
entrypoint: {command: ./run.sh}
")
            .file("run.sh", "#!/bin/sh
echo hi
")
            .accepted("sidecar-alone", "Looks up the weather.")
            .runs("run.sh", Language::Bash)
            .finds(["permission_refused@2", "skill_file_foreign@1 permission_refused@2", "skill_file_foreign@1 permission_refused@2", "skill_file_foreign@1 permission_refused@2"]),
        case("sidecar-program", "a sidecar that starts what is no file of the skill")
            .file("SKILL.md", "---
name: sidecar-program
description: Starts curl.
---
# Skill

Do it.
")
            .file("skillsandbox.yaml", "entrypoint: {command: curl, args: [https://example.com]}\n")
            .accepted("sidecar-program", "Starts curl.")
            .finds(["entrypoint_missing@1", "entrypoint_missing@1", "entrypoint_missing@1", "entrypoint_missing@1"]),
        case("unit_converter", "a Skillware directory")
            .file("manifest.yaml", "name: utilities/unit_converter
version: 0.1.0
description: Converts units.
short_description: Units.
issuer: {name: someone}
category: utilities
parameters:
  type: object
  properties:
    value: {type: number}
  required: [value]
requirements: []
constitution: |
  1. Be right.
presentation: {icon: ruler}
")
            .file("skill.py", "from skillware.core.base_skill import BaseSkill


class Converter(BaseSkill):
    def execute(self, params):
        return params
")
            .file("instructions.md", "Use it for units.\n")
            .accepted("unit_converter", "Converts units.")
            .runs("skill.py", Language::Python)
            .finds(["name_adapted@1 name_not_portable@1", "name_adapted@1 skill_file_foreign@1 name_not_portable@1", "name_adapted@1 skill_file_foreign@1 name_not_portable@1", "name_adapted@1 skill_file_foreign@1 name_not_portable@1"]),
        case("old-skillware", "a Skillware directory with inputs and without instructions")
            .file("manifest.yaml", r#"name: old-skillware
version: "0.1"
description: Echoes.
inputs:
  text: {type: string, required: true}
  times: {type: integer}
outputs:
  result: {type: string}
mystery: 1
"#)
            .file("skill.py", "from skillware.core.base_skill import BaseSkill


class Converter(BaseSkill):
    def execute(self, params):
        return params
")
            .accepted("old-skillware", "Echoes.")
            .runs("skill.py", Language::Python)
            .finds(["no_instructions@1 version_adapted@2 unknown_key@9", "skill_file_foreign@1 no_instructions@1 version_adapted@2 unknown_key@9", "skill_file_foreign@1 no_instructions@1 version_adapted@2 unknown_key@9", "skill_file_foreign@1 no_instructions@1 version_adapted@2 unknown_key@9"]),
        case("skillware-sidecar", "a Skillware directory with a sidecar")
            .file("manifest.yaml", "name: skillware-sidecar
description: Echoes.
")
            .file("skill.py", "from skillware.core.base_skill import BaseSkill


class Converter(BaseSkill):
    def execute(self, params):
        return params
")
            .file("instructions.md", "Use it.\n")
            .file("skillsandbox.yaml", "resources: {memory_mb: 64}\n")
            .accepted("skillware-sidecar", "Echoes.")
            .runs("skill.py", Language::Python)
            .finds(["", "skill_file_foreign@1", "skill_file_foreign@1", "skill_file_foreign@1"]),
        case("skillware-and-skill", "a SKILL.md beside Skillware's files")
            .file("SKILL.md", "---
name: skillware-and-skill
description: Is an ordinary skill.
---
# Skill

Do it.
")
            .file("manifest.yaml", "name: other\n")
            .file("skill.py", "from skillware.core.base_skill import BaseSkill


class Converter(BaseSkill):
    def execute(self, params):
        return params
")
            .accepted("skillware-and-skill", "Is an ordinary skill.")
            .finds(["no_entrypoint@1", "no_entrypoint@1", "no_entrypoint@1", "no_entrypoint@1"]),
    ]
}
