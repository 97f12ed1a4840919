//! Lint: each remark has its code, its place and its cause.

use skill::{Finding, Package, Severity};

use crate::support::*;

fn codes(package: &Package) -> Vec<(&'static str, Option<u32>)> {
    package.findings.iter().map(|finding| (finding.code, finding.line)).collect()
}

#[test]
fn frontmatter_is_remarked_upon() {
    let long = format!("name: demo\ndescription: {}", "é".repeat(1025));
    let fits = format!("name: demo\ndescription: {}\ncompatibility: {}", "é".repeat(1024), "é".repeat(500));
    let compatibility = format!("name: demo\ndescription: x\ncompatibility: {}", "x".repeat(501));
    for (yaml, expected) in [
        ("name: demo\ndescription: x", &[][..]),
        ("name: Demo\ndescription: x", &[("name_not_portable", None)]),
        ("name: a--b\ndescription: x", &[("name_not_portable", None)]),
        ("name: a-\ndescription: x", &[("name_not_portable", None)]),
        ("name: a.b\ndescription: x", &[("name_not_portable", None)]),
        (&format!("name: {}\ndescription: x", "n".repeat(65)), &[("name_not_portable", None)]),
        (&long, &[("description_long", None)]),
        (&fits, &[]),
        (&compatibility, &[("compatibility_long", None)]),
        ("name: demo\ndescription: Use: it", &[("description_unquoted", Some(3))]),
        ("name: demo\ndescription: x\nmodel: fast\nauthor: me", &[("unknown_key", Some(4)), ("unknown_key", Some(5))]),
        ("name: demo\ndescription: x\nresources:\n  gpu: 1", &[("unknown_key", Some(5))]),
        ("name: demo\ndescription: x\nallowed-tools: [Read, Write]", &[("allowed_tools_list", Some(4))]),
        ("name: demo\ndescription: x\npermissions: {root: true}", &[("unknown_permission", Some(4))]),
        ("name: demo\ndescription: x\nlang: bash", &[("lang_mismatch", None)]),
        ("name: demo\ndescription: x\nentrypoint: nope.py", &[("entrypoint_missing", None)]),
        ("name: demo\ndescription: \"a\u{202e}b\"", &[("invisible_character", Some(3))]),
    ] {
        assert_eq!(codes(&with_frontmatter(yaml).unwrap()), expected, "{yaml}");
    }
    let unknown = with_frontmatter("name: demo\ndescription: x\nmodel: 1.0").unwrap().manifest.unknown;
    assert_eq!(serde_json::to_string(&unknown).unwrap(), r#"{"model":"1.0"}"#);
    let tools = with_frontmatter("name: demo\ndescription: x\nallowed-tools: [Read, Write]").unwrap();
    assert_eq!(tools.manifest.allowed_tools.as_deref(), Some("Read Write"));
}

#[test]
fn files_are_remarked_upon() {
    let long_body = format!("{SKILL_MD}{}", "line\n".repeat(501));
    let family = format!("{SKILL_MD}👨\u{200d}👩\u{200d}👧\n");
    for (parts, expected) in [
        (&[("SKILL.md", SKILL_MD)][..], &[][..]),
        (&[("SKILL.md", family.as_str())], &[]),
        (&[("demo/SKILL.md", SKILL_MD)], &[]),
        (&[("other/SKILL.md", SKILL_MD)], &[("name_not_directory", None)]),
        (&[("skill.md", SKILL_MD)], &[("skill_file_name", None)]),
        (&[("SKILL.md", "---\nname: demo\ndescription: x\n---\n\n")], &[("no_instructions", None)]),
        (&[("SKILL.md", long_body.as_str())], &[("instructions_long", None)]),
        (&[("SKILL.md", SKILL_MD), ("tool.py", "")], &[("no_entrypoint", None)]),
        (&[("SKILL.md", SKILL_MD), (".DS_Store", "")], &[("junk_dropped", None)]),
        (&[("SKILL.md", SKILL_MD), (".git/HEAD", "")], &[("version_control", None)]),
        (&[("SKILL.md", SKILL_MD), ("a\u{200b}.md", "")], &[("invisible_character", None)]),
        (&[("SKILL.md", SKILL_MD), ("main.sh", "echo\r\n")], &[("script_line_ends", Some(1))]),
        (&[("SKILL.md", SKILL_MD), ("main.py", "x = 1\r\n")], &[]),
        (&[("SKILL.md", SKILL_MD), ("main.py", "#!/usr/bin/env python3\r\n")], &[("script_line_ends", Some(1))]),
    ] {
        assert_eq!(codes(&read_parts(parts).unwrap()), expected, "{parts:?}");
    }
}

#[test]
fn an_unreadable_skill_has_one_finding() {
    let error = with_frontmatter("name: demo\ndescription: x\nversion: 1").unwrap_err();
    let finding = Finding::from(&error);
    assert_eq!((finding.code, finding.severity, finding.line), ("invalid_skill", Severity::Error, Some(4)));
    assert_eq!(finding.path.as_deref(), Some("SKILL.md"));
    let json = serde_json::to_value(&finding).unwrap();
    assert_eq!(json["severity"], "error");
}
