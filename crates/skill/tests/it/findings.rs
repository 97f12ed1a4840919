//! Lint: each remark has its code, its place and its cause.

use skill::{Package, PackageLimits, Profile, Severity};

use crate::support::*;

fn codes(package: &Package) -> Vec<(&'static str, Option<u32>)> {
    package.findings.iter().map(|finding| (finding.code, finding.line)).collect()
}

#[test]
fn lints_of_the_frontmatter() {
    let long = format!("name: demo\ndescription: {}", "é".repeat(1025));
    let fits = format!(
        "name: demo\ndescription: {}\ncompatibility: {}",
        "é".repeat(1024),
        "é".repeat(500)
    );
    let compatibility = format!("name: demo\ndescription: x\ncompatibility: {}", "x".repeat(501));
    for (yaml, expected) in [
        ("name: demo\ndescription: x", &[][..]),
        ("name: Demo\ndescription: x", &[("name_not_portable", Some(2))]),
        ("name: a--b\ndescription: x", &[("name_not_portable", Some(2))]),
        ("name: a-\ndescription: x", &[("name_not_portable", Some(2))]),
        ("name: a.b\ndescription: x", &[("name_not_portable", Some(2))]),
        (&format!("name: {}\ndescription: x", "n".repeat(65)), &[("name_not_portable", Some(2))]),
        (&long, &[("description_long", Some(3))]),
        (&fits, &[]),
        (&compatibility, &[("compatibility_long", Some(4))]),
        ("name: demo\ndescription: Use: it", &[("description_unquoted", Some(3))]),
        (
            "name: demo\ndescription: x\nmodel: fast\nauthor: me",
            &[("unknown_key", Some(4)), ("unknown_key", Some(5))],
        ),
        ("name: demo\ndescription: x\nresources:\n  gpu: 1", &[("unknown_key", Some(5))]),
        (
            "name: demo\ndescription: x\nallowed-tools: [Read, Write]",
            &[("allowed_tools_list", Some(4))],
        ),
        (
            "name: demo\ndescription: x\npermissions: {root: true}",
            &[("unknown_permission", Some(4))],
        ),
        ("name: demo\ndescription: x\nlang: bash", &[("lang_mismatch", Some(4))]),
        ("name: demo\ndescription: x\nentrypoint: nope.py", &[("entrypoint_missing", Some(4))]),
    ] {
        assert_eq!(codes(&with_frontmatter(yaml).unwrap()), expected, "{yaml}");
    }
    let unknown =
        with_frontmatter("name: demo\ndescription: x\nmodel: 1.0").unwrap().manifest.unknown;
    assert_eq!(serde_json::to_string(&unknown).unwrap(), r#"{"model":"1.0"}"#);
    let tools =
        with_frontmatter("name: demo\ndescription: x\nallowed-tools: [Read, Write]").unwrap();
    assert_eq!(tools.manifest.allowed_tools.as_deref(), Some("Read Write"));
}

#[test]
fn lints_of_files() {
    let long_body = format!("{SKILL_MD}{}", "line\n".repeat(501));
    let family = format!("{SKILL_MD}👨\u{200d}👩\u{200d}👧\n");
    for (parts, expected) in [
        (&[("SKILL.md", SKILL_MD)][..], &[][..]),
        (&[("SKILL.md", family.as_str())], &[]),
        (&[("demo/SKILL.md", SKILL_MD)], &[]),
        (&[("other/SKILL.md", SKILL_MD)], &[("name_not_directory", Some(2))]),
        (&[("skill.md", SKILL_MD)], &[("skill_file_name", Some(1))]),
        (
            &[("SKILL.md", "---\nname: demo\ndescription: x\n---\n\n")],
            &[("no_instructions", Some(6))],
        ),
        (&[("SKILL.md", long_body.as_str())], &[("instructions_long", Some(505))]),
        (&[("SKILL.md", SKILL_MD), ("tool.py", "")], &[("no_entrypoint", Some(1))]),
        (&[("SKILL.md", SKILL_MD), (".DS_Store", "")], &[("junk_dropped", None)]),
        (&[("SKILL.md", SKILL_MD), (".git/HEAD", "")], &[("version_control", None)]),
        (&[("SKILL.md", SKILL_MD), ("main.sh", "echo\r\n")], &[("script_line_ends", Some(1))]),
        (&[("SKILL.md", SKILL_MD), ("main.py", "x = 1\r\n")], &[]),
        (&[("SKILL.md", SKILL_MD), ("main.sh", "#!/bin/bash -eu\n")], &[]),
        (
            &[("SKILL.md", SKILL_MD), ("main.sh", "#!/bin/bash -c ls\n")],
            &[("script_option_dropped", Some(1))],
        ),
        (
            &[("SKILL.md", SKILL_MD), ("main.py", "#!/usr/bin/env python3\r\n")],
            &[("script_line_ends", Some(1))],
        ),
    ] {
        assert_eq!(codes(&read_parts(parts).unwrap()), expected, "{parts:?}");
    }
}

#[test]
fn the_smaller_of_two_amounts_in_metadata_counts() {
    let metadata = |lines: &str| {
        with_frontmatter(&format!("name: demo\ndescription: x\nmetadata:\n{lines}")).unwrap()
    };
    for (lines, remarked) in [
        ("  skillbox.memory: 1Gi\n  skillbox.resources.memory: 64Mi", 5),
        ("  skillbox.resources.memory: 64Mi\n  skillbox.memory: 1Gi", 6),
        ("  skillbox.memory: 64Mi\n  skillbox.resources.memory: 1Gi", 6),
    ] {
        let package = metadata(lines);
        assert_eq!(package.manifest.resources.memory_bytes, Some(64 << 20), "{lines}");
        assert_eq!(codes(&package), [("setting_conflict", Some(remarked))], "{lines}");
    }
    let package = metadata("  skillbox.cpu: 2\n  skillbox.resources.cpu: 0.5");
    assert_eq!(package.manifest.resources.cpu_millis, Some(500));
    assert_eq!(codes(&package), [("setting_conflict", Some(5))]);
    assert_eq!(codes(&metadata("  skillbox.cpu: 0.5\n  skillbox.resources.cpu: 500m")), []);
}

#[test]
fn unsupported_settings_are_reported() {
    let with_workdir = |workdir: &str| {
        let sidecar =
            format!("entrypoint:\n  command: python3\n  args: [main.py]\n  workdir: {workdir}\n");
        read_parts(&[("SKILL.md", SKILL_MD), ("main.py", ""), ("skillsandbox.yaml", &sidecar)])
            .unwrap()
    };
    for same in [".", "./", "/skill", "/skill/", "/sandbox/scripts", "/skills/demo"] {
        assert_eq!(codes(&with_workdir(same)), [], "{same}");
    }
    for other in ["/workspace", "/", "data", "/skills/", "/skill/data", "/skills/demo/data"] {
        let package = with_workdir(other);
        assert_eq!(codes(&package), [("setting_ignored", Some(4))], "{other}");
        assert!(
            package.findings[0].message.contains(&format!("`{other}`")),
            "{:?}",
            package.findings
        );
    }

    let code = "class A:\n    def execute(self, params):\n        return 1\n";
    let skillware = |lines: &str| {
        let manifest = format!("name: demo\ndescription: x\n{lines}");
        read_parts(&[
            ("manifest.yaml", &manifest),
            ("skill.py", code),
            ("instructions.md", "Do it.\n"),
        ])
        .unwrap()
    };
    for (lines, named) in [
        ("requirements: [requests, pillow>=9]\n", "`requirements` (requests, pillow>=9)"),
        ("requirements:\n  requests: 2.0\n", "`requirements` (requests)"),
        ("env_vars: [{name: API_KEY, required: true}, OTHER]\n", "`env_vars` (API_KEY, OTHER)"),
        ("env_vars: {API_KEY: The key.}\n", "`env_vars` (API_KEY)"),
    ] {
        let package = skillware(lines);
        assert_eq!(codes(&package), [("setting_ignored", Some(3))], "{lines}");
        assert!(package.findings[0].message.starts_with(named), "{:?}", package.findings);
    }
    assert_eq!(codes(&skillware("requirements: []\nenv_vars:\ntags: [a]\n")), []);
}

#[test]
fn invalid_skill_has_a_finding_for_every_error() {
    let error = with_frontmatter(
        "name: a b\ndescription: x\nversion: one\ntimeout: soon\nmetadata:\n  skillbox.cpu: much",
    )
    .unwrap_err();
    let found: Vec<_> =
        error.findings().iter().map(|finding| (finding.code, finding.line)).collect();
    let expected = [
        ("name_invalid", 2),
        ("version_invalid", 4),
        ("timeout_invalid", 5),
        ("resources_invalid", 7),
    ];
    assert_eq!(found, expected.map(|(code, line)| (code, Some(line))));
    let first = &error.findings()[0];
    assert_eq!((first.severity, first.path.as_deref()), (Severity::Error, Some("SKILL.md")));
    assert_eq!(serde_json::to_value(first).unwrap()["severity"], "error");
    assert!(error.to_string().ends_with("(and 3 more problems)"), "{error}");
    assert_eq!(error.slug(), "invalid_skill");
}

#[test]
fn every_read_error_has_its_own_code() {
    let large = format!("---\nname: x\ndescription: x\n---\n{}", "x".repeat(1 << 20));
    let many = format!("---\na: [{}]\n---\n", "1,".repeat(11_000));
    for (text, code, line) in [
        ("# Title\n", "frontmatter_missing", 1),
        ("---\nname: x\n", "frontmatter_unclosed", 1),
        ("---\n- x\n---\n", "frontmatter_not_mapping", 2),
        ("---\nname: x\nb: [\n---\n", "yaml_syntax", 3),
        ("---\nname: x\nname: y\n---\n", "yaml_duplicate_key", 3),
        ("---\nname: &x y\n---\n", "yaml_anchor", 2),
        ("---\nname: x\ny: *x\n---\n", "yaml_anchor", 3),
        ("---\nname: !!str x\n---\n", "yaml_tag", 2),
        ("---\n? [a]\n: 1\n---\n", "yaml_key", 2),
        ("---\nname: \"x\\0\"\n---\n", "control_character", 2),
        ("---\nname: x\n---\n\u{1b}\n", "control_character", 4),
        (&large, "skill_file_large", 1),
        (&many, "yaml_large", 2),
        ("---\ndescription: x\n---\n", "name_missing", 1),
        ("---\nname: x\ndescription:\n---\n", "description_missing", 3),
    ] {
        let found = read_parts(&[("SKILL.md", text)]).unwrap_err().findings();
        let shown = &text[..text.len().min(60)];
        assert_eq!((found[0].code, found[0].line), (code, Some(line)), "{shown}: {found:?}");
    }
    assert_eq!(read(b"no zip").unwrap_err().findings()[0].code, "not_an_archive");
    assert_eq!(read_parts(&[("README.md", "")]).unwrap_err().findings()[0].code, "no_skill_file");
    let hostile = read_parts(&[("SKILL.md", SKILL_MD), ("../x", "")]).unwrap_err().findings();
    assert_eq!((hostile[0].code, hostile[0].path.as_deref()), ("unsafe_path", Some("../x")));
}

/// The rules that a profile has to itself, and what the others make of them.
#[test]
fn severity_depends_on_the_profile() {
    let tagged = "name: demo\ndescription: Writes <b>bold</b> text.";
    let severities = |package: &Package, code: &str| {
        Profile::ALL.map(|profile| {
            let findings = package.findings_for(profile);
            findings
                .iter()
                .find(|finding| finding.code == code)
                .map_or("-", |finding| finding.severity.as_str())
        })
    };
    for (yaml, code, expected) in [
        ("name: Demo\ndescription: x", "name_not_portable", ["warning", "error", "error", "error"]),
        ("name: my-claude-helper\ndescription: x", "name_reserved", ["-", "-", "error", "-"]),
        (tagged, "description_tag", ["-", "-", "error", "warning"]),
        (
            "name: demo\ndescription: For 3 < 4.",
            "description_angle_bracket",
            ["-", "-", "warning", "warning"],
        ),
        (
            "name: demo\ndescription: a: b",
            "description_unquoted",
            ["warning", "error", "error", "error"],
        ),
        (
            "name: demo\ndescription: x\nversion: 1.0.0",
            "key_not_in_spec",
            ["-", "error", "warning", "warning"],
        ),
        (
            "name: demo\ndescription: x\nmodel: y",
            "unknown_key",
            ["warning", "error", "warning", "warning"],
        ),
        (
            "name: demo\ndescription: x\nmetadata: {a: [b]}",
            "metadata_not_strings",
            ["-", "error", "-", "-"],
        ),
        (
            "name: demo\ndescription: x\nallowed-tools: [A]",
            "allowed_tools_list",
            ["info", "error", "info", "info"],
        ),
    ] {
        let package = with_frontmatter(yaml).unwrap();
        assert_eq!(severities(&package, code), expected, "{yaml}");
        assert_eq!(package.findings, package.findings_for(Profile::Default));
    }
    let two = read_parts(&[("SKILL.md", SKILL_MD), ("sub/skill.md", "")]).unwrap();
    assert_eq!(severities(&two, "skill_files_several"), ["-", "-", "-", "error"]);
    let files: Vec<(String, Vec<u8>)> =
        (0..500).map(|number| (format!("f{number}"), Vec::new())).collect();
    let skill = ("SKILL.md".to_owned(), SKILL_MD.as_bytes().to_vec());
    let many = skill::read_parts([files, vec![skill.clone()]].concat(), &PackageLimits::default())
        .unwrap();
    assert_eq!(severities(&many, "files_many"), ["-", "-", "-", "error"]);
    let heavy = vec![skill, ("big".to_owned(), vec![b'x'; 30_000_000])];
    let heavy = skill::read_parts(heavy, &PackageLimits::default()).unwrap();
    assert_eq!(severities(&heavy, "file_large"), ["-", "-", "-", "error"]);
    assert_eq!(severities(&heavy, "skill_large"), ["-", "-", "error", "-"]);
}

/// A skill that the specification's own validator accepts has nothing to fear from the strict
/// profile.
#[test]
fn skill_that_follows_the_specification_has_no_findings_in_any_profile() {
    let text = "---\nname: pdf-tools\ndescription: Extracts text from PDF files. Use when PDFs are mentioned.\nlicense: MIT\n\
        compatibility: Needs Python 3\nmetadata:\n  author: someone\n  version: \"1.0\"\n  skillbox.timeout: 30s\n\
        allowed-tools: Bash(git:*) Read\n---\n# PDF tools\n";
    let package =
        read_parts(&[("pdf-tools/SKILL.md", text), ("pdf-tools/scripts/main.py", "")]).unwrap();
    for profile in Profile::ALL {
        assert_eq!(package.findings_for(profile), [], "{profile}");
    }
    assert_eq!(package.manifest.timeout_ms, Some(30_000));
}

#[test]
fn profiles_are_parsed_by_name() {
    for profile in Profile::ALL {
        assert_eq!(profile.to_string().parse(), Ok(profile));
    }
    assert_eq!(
        "lax".parse::<Profile>(),
        Err("`lax` is not a profile; the profiles are default, strict, anthropic, openai".into())
    );
}

/// The table in the documentation is the table in the code. `UPDATE=1` writes it again.
#[test]
fn documented_rules_match_the_table() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/skill-format.md");
    let page = std::fs::read_to_string(path).unwrap();
    let (start, end) = ("<!-- rules -->\n", "<!-- /rules -->\n");
    let (before, rest) = page.split_once(start).unwrap();
    let (_, after) = rest.split_once(end).unwrap();
    let mut table =
        "| code | default | strict | anthropic | openai | what to do |\n|---|---|---|---|---|---|\n".to_owned();
    for rule in skill::RULES {
        let cells =
            Profile::ALL.map(|profile| rule.severity(profile).map_or("", skill::Severity::as_str));
        table += &format!("| `{}` | {} | {} |\n", rule.code, cells.join(" | "), rule.help)
            .replace("|  ", "| ");
    }
    let expected = format!("{before}{start}{table}{end}{after}");
    #[expect(clippy::disallowed_methods, reason = "the switch that rewrites the committed file")]
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(path, &expected).unwrap();
    }
    assert!(
        std::fs::read_to_string(path).unwrap() == expected,
        "{path} is out of date; run this test with UPDATE=1"
    );
}
