//! Frontmatter fields: what they become, and what is not accepted in them.

use language::Language;
use serde_json::json;
use skill::{Manifest, Permissions, SkillMode};

use crate::support::*;

const REQUIRED: &str = "name: demo\ndescription: A demonstration.\n";

#[test]
fn full_manifest_is_read() {
    let package = with_frontmatter(
        r#"name: demo
description: >
  Folded
  text.
version: 2.1.0-beta.1
lang: python
image: python:3.12-slim
entrypoint: ./main.py
timeout: 1m30s
resources: {memory: 256Mi, cpu: 0.5}
mode: executable
idempotent: true
license: MIT
compatibility: Needs nothing
metadata:
  author: someone
  version: 1.10
  nested: {deep: [1, true]}
allowed-tools: Read Bash(git:*)
input_schema:
  type: object
  required: [count]
  properties: {count: {type: integer, minimum: 0}}
output_schema: true
permissions: {network: {egress: [{domain: api.example.com, ports: [443]}]}}"#,
    )
    .unwrap();
    let codes: Vec<_> =
        package.findings.iter().map(|finding| (finding.code, finding.line)).collect();
    assert_eq!(codes, [("permission_refused", Some(26))], "nobody grants egress yet");
    assert_eq!(package.lang(), Some(Language::Python));
    let expected = json!({
        "name": "demo", "description": "Folded text.", "version": "2.1.0-beta.1", "lang": "python", "image": "python:3.12-slim",
        "entrypoint": "./main.py", "timeout_ms": 90_000, "resources": {"memory_bytes": 256 << 20, "cpu_millis": 500},
        "mode": "executable", "idempotent": true, "license": "MIT", "compatibility": "Needs nothing",
        "metadata": {"author": "someone", "version": "1.10", "nested": {"deep": ["1", "true"]}},
        "allowed_tools": "Read Bash(git:*)",
        "input_schema": {"type": "object", "required": ["count"], "properties": {"count": {"type": "integer", "minimum": 0}}},
        "output_schema": true,
        "permissions": {"network": {"egress": [{"domain": "api.example.com", "ports": [443]}]}},
        "unknown": {}, "instructions": "Instructions.",
    });
    assert_eq!(serde_json::to_value(&package.manifest).unwrap(), expected);
    let again: Manifest = serde_json::from_value(expected).unwrap();
    assert_eq!(again, package.manifest);
    assert_eq!(package.entrypoint.unwrap().path, "main.py");
}

#[test]
fn omitted_fields_have_defaults() {
    let manifest =
        with_frontmatter(&format!("{REQUIRED}version:\nlicense: ~\nlang: ''\nresources:"))
            .unwrap()
            .manifest;
    assert_eq!(manifest.version, "1.0.0");
    assert_eq!((manifest.lang, manifest.license, manifest.timeout_ms), (None, None, None));
    assert_eq!(manifest.permissions, Permissions::default());
    assert_eq!(manifest.mode, SkillMode::Executable);
    let nothing_to_run = read_parts(&[("SKILL.md", SKILL_MD), ("guide.md", "")]).unwrap();
    assert_eq!(nothing_to_run.manifest.mode, SkillMode::Cognitive);
}

#[test]
fn scalars_are_read_as_the_text_they_were_written_with() {
    for (yaml, name, description) in [
        ("name: 007\ndescription: 1.10", "007", "1.10"),
        ("name: true\ndescription: yes", "true", "yes"),
        ("name: 1e3\ndescription: 0x10", "1e3", "0x10"),
        ("name: \"x\"\ndescription: 2024-01-01", "x", "2024-01-01"),
    ] {
        let manifest = with_frontmatter(yaml).unwrap().manifest;
        assert_eq!((manifest.name.as_str(), manifest.description.as_str()), (name, description));
    }
}

#[test]
fn valid_names_and_versions_are_accepted() {
    let longest = "n".repeat(128);
    for name in ["a", "A.b_c-d", "0", "a--b", "a-", &longest] {
        let yaml = format!("name: {name}\ndescription: x");
        assert_eq!(with_frontmatter(&yaml).unwrap().manifest.name, name);
    }
    for version in ["0.0.1", "1.2.3-rc.1", "10.20.30"] {
        let yaml = format!("{REQUIRED}version: {version}");
        assert_eq!(with_frontmatter(&yaml).unwrap().manifest.version, version);
    }
    for (written, version) in
        [("1", "1.0.0"), ("1.10", "1.10.0"), ("v2.0.1", "2.0.1"), ("v3", "3.0.0")]
    {
        let package = with_frontmatter(&format!("{REQUIRED}version: {written}")).unwrap();
        assert_eq!(
            (package.manifest.version.as_str(), package.findings[0].code),
            (version, "version_adapted")
        );
    }
}

#[test]
fn invalid_fields_are_reported_with_their_line() {
    let long = "n".repeat(129);
    let long = format!("name: {long}\ndescription: x");
    for (yaml, line, words) in [
        ("", Some(1), "`name` is missing"),
        ("name: demo", Some(1), "`description` is missing"),
        ("name: demo\ndescription: '  '", Some(3), "`description` is missing"),
        ("name: demo\ndescription: ~", Some(3), "`description` is missing"),
        ("description: x", Some(1), "`name` is missing"),
        ("- a list", Some(2), "`key: value`"),
        ("just text", Some(2), "`key: value`"),
        ("name: ../x\ndescription: x", Some(2), "cannot be a name"),
        ("name: -x\ndescription: x", Some(2), "cannot be a name"),
        ("name: a b\ndescription: x", Some(2), "cannot be a name"),
        ("name: é\ndescription: x", Some(2), "cannot be a name"),
        (&long, Some(2), "cannot be a name"),
        ("name: [a]\ndescription: x", Some(2), "single value"),
        ("name: a\ndescription: {b: c}", Some(3), "single value"),
        ("name: a\ndescription: x\nversion: 1.2.3+build", Some(4), "not a version"),
        ("name: a\ndescription: x\nversion: latest", Some(4), "`latest` is not a version"),
        ("name: a\ndescription: x\nversion: 1.2.3.4", Some(4), "not a version"),
        ("name: a\ndescription: x\nversion: 1..2", Some(4), "not a version"),
        ("name: a\ndescription: x\nversion: 1.2-beta", Some(4), "not a version"),
        ("name: a\ndescription: x\nlang: ruby", Some(4), "`ruby` is not a supported language"),
        ("name: a\ndescription: x\nmode: fast", Some(4), "`fast` is not a mode"),
        ("name: a\ndescription: x\ntimeout: 60", Some(4), "`60` is not a duration"),
        ("name: a\ndescription: x\ntimeout: 0s", Some(4), "more than zero"),
        ("name: a\ndescription: x\nresources:\n  memory: 256MB", Some(5), "`resources.memory`"),
        ("name: a\ndescription: x\nresources:\n  cpu: lots", Some(5), "`resources.cpu`"),
        ("name: a\ndescription: x\nresources: 1", Some(4), "`resources`"),
        ("name: a\ndescription: x\nmetadata: text", Some(4), "`metadata`"),
        ("name: a\ndescription: x\nallowed-tools: {a: b}", Some(4), "`allowed-tools`"),
        ("name: a\ndescription: x\ninput_schema: object", Some(4), "JSON Schema"),
        ("name: a\ndescription: x\nname: b", Some(4), "twice"),
        ("name: &n a\ndescription: *n", Some(2), "anchors"),
        ("name: !!str a\ndescription: x", Some(2), "tags"),
    ] {
        let error = with_frontmatter(yaml).expect_err(yaml);
        assert_eq!(error.slug(), "invalid_skill", "{yaml}");
        assert!(!error.is_hostile() && !error.is_too_large(), "{yaml}");
        let message = error.to_string();
        let start = format!("SKILL.md line {}: ", line.unwrap());
        assert!(message.starts_with(&start), "{yaml}: {message}");
        assert!(message.contains(words), "{yaml}: {message}");
    }
}

#[test]
fn entrypoint_is_declared_or_found_by_name() {
    let skill = |extra: &str| format!("---\n{REQUIRED}{extra}\n---\nText\n");
    for (extra, paths, expected) in [
        ("", &["scripts/main.py", "run.py"][..], Some(("run.py", Language::Python))),
        ("", &["scripts/main.sh"], Some(("scripts/main.sh", Language::Bash))),
        ("", &["scripts/tool.py"], None),
        (
            "entrypoint: scripts/tool.py",
            &["scripts/tool.py", "main.py"],
            Some(("scripts/tool.py", Language::Python)),
        ),
        ("entrypoint: tool\nlang: node", &["tool"], Some(("tool", Language::Node))),
        ("entrypoint: tool", &["tool", "main.py"], None),
        ("entrypoint: missing.py", &["main.py"], None),
        ("entrypoint: ../main.py", &["main.py"], None),
        ("lang: node", &["main.py", "main.js"], Some(("main.js", Language::Node))),
    ] {
        let text = skill(extra);
        let mut parts = vec![("SKILL.md", text.as_str())];
        parts.extend(paths.iter().map(|path| (*path, "")));
        let package = read_parts(&parts).unwrap();
        let found = package.entrypoint.as_ref().map(|script| (script.path.as_str(), script.lang));
        assert_eq!(found, expected, "{extra} {paths:?}");
    }
}

#[test]
fn interpreter_options_come_from_the_command_or_the_shebang() {
    let skill = format!("---\n{REQUIRED}\n---\nText\n");
    for (command, flags, args) in [
        ("entrypoint: bash -e run.sh -x", &["-e"][..], &["-x"][..]),
        ("entrypoint: bash run.sh -e", &[], &["-e"]),
        (
            "entrypoint: {command: bash, args: [-o, pipefail, /skill/run.sh]}",
            &["-o", "pipefail"],
            &[],
        ),
        ("entrypoint: ./run.sh -x", &["-u"], &["-x"]),
        ("resources: {}", &["-u"], &[]),
    ] {
        let parts = [
            ("SKILL.md", skill.as_str()),
            ("skillsandbox.yaml", command),
            ("run.sh", "#!/bin/bash -u\n"),
        ];
        let more = [("main.sh", "#!/bin/bash -u\n")];
        let package = read_parts(&[&parts[..], &more[..]].concat()).unwrap();
        let entrypoint = package.entrypoint.unwrap();
        assert_eq!(
            (entrypoint.flags, package.manifest.entrypoint_args),
            (owned(flags), owned(args)),
            "{command}"
        );
    }
    // They are of no use to another interpreter.
    let node = format!("---\n{REQUIRED}lang: node\n---\nText\n");
    let parts = [
        ("SKILL.md", node.as_str()),
        ("skillsandbox.yaml", "entrypoint: bash -e run.sh"),
        ("run.sh", "#!/bin/bash -u\n"),
    ];
    assert_eq!(read_parts(&parts).unwrap().entrypoint.unwrap().flags, owned(&[]));
}

fn owned(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

#[test]
fn idempotence_is_declared_in_a_field_or_in_metadata() {
    let idempotent = |more: &str| {
        with_frontmatter(&format!("{REQUIRED}{more}")).map(|package| package.manifest.idempotent)
    };
    assert_eq!(idempotent("").ok(), Some(false));
    for (yes, no) in [
        ("idempotent: true", "idempotent: false"),
        ("metadata: {skillbox.idempotent: true}", "metadata: {skillbox.idempotent: \"false\"}"),
        (
            "idempotent: true\nmetadata: {skillbox.idempotent: false}",
            "idempotent: false\nmetadata: {skillbox.idempotent: true}",
        ),
    ] {
        assert_eq!((idempotent(yes).ok(), idempotent(no).ok()), (Some(true), Some(false)), "{yes}");
    }
    for wrong in [
        "idempotent: yes",
        "idempotent: 1",
        "metadata: {skillbox.idempotent: maybe}",
        "metadata: {skillbox.idempotent: [true]}",
    ] {
        let error = idempotent(wrong).unwrap_err().to_string();
        assert!(error.contains("skillbox.idempotent") || error.contains("`idempotent`"), "{error}");
    }
}
