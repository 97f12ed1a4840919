use std::time::Duration;

use sandbox::{OutputLimits, paths};
use skill::PackageLimits;

use super::*;

const FRONTMATTER: &str = "---\nname: demo\ndescription: A demonstration.\nversion: 1.2.3\n";

fn skill(frontmatter: &str, files: &[(&str, &str)]) -> LoadedSkill {
    let text = format!("{FRONTMATTER}{frontmatter}---\nDo it.\n");
    let mut parts = vec![("SKILL.md".to_owned(), text.into_bytes())];
    parts.extend(
        files.iter().map(|(path, content)| ((*path).to_owned(), content.as_bytes().to_vec())),
    );
    let package = skill::read_parts(parts, &PackageLimits::default()).expect("a valid skill");
    LoadedSkill::compile(package).expect("good schemas")
}

fn run_policy() -> RunPolicy {
    RunPolicy {
        default_timeout: Duration::from_secs(120),
        max_timeout: Duration::from_secs(600),
        default_memory_bytes: 256 << 20,
        max_memory_bytes: 1 << 30,
        default_cpu_millis: 500,
        max_cpu_millis: 4000,
        pids: RunPolicy::PIDS,
        disk_inodes: RunPolicy::DISK_INODES,
        output_limits: OutputLimits {
            log_bytes: 1 << 20,
            output_bytes: 1 << 20,
            artifact_bytes: 256 << 20,
            artifact_files: 1000,
        },
        image_allowlist: None,
    }
}

fn request(json: &str) -> Request {
    serde_json::from_str(json).expect("a good request")
}

fn planned(skill: &LoadedSkill, json: &str) -> Plan {
    plan(skill, &request(json), &run_policy()).expect("a plan")
}

fn refused(skill: &LoadedSkill, json: &str) -> String {
    let stop = plan(skill, &request(json), &run_policy()).expect_err("a refusal");
    assert_eq!(stop.outcome, sandbox::Outcome::Refused);
    stop.error
}

fn variable<'a>(plan: &'a Plan, name: &str) -> Option<&'a str> {
    let mut found = plan.job.env.iter().filter(|(key, _)| key == name);
    let value = found.next().map(|(_, value)| value.as_str());
    assert!(found.next().is_none(), "{name} is set twice");
    value
}

#[test]
fn a_default_run() {
    let skill = skill("timeout: 30s\n", &[("main.py", "print(1)"), ("lib/x.py", "")]);
    insta::assert_debug_snapshot!(planned(
        &skill,
        r#"{"skill":"demo","input":{"a":1.0},"env":{"TOKEN":"t"}}"#
    ));
}

#[test]
fn a_named_script() {
    let skill = skill("resources:\n  memory: 512Mi\n  cpu: \"2\"\n", &[("tools/go.sh", "ls")]);
    let request = r#"{"skill":"demo","script":"tools/go.sh","args":["-x","a b"],"stdin":"in\n","cwd":"workspace",
        "timeout_ms":900000,"limits":{"memory_bytes":1073741824,"cpu_millis":100}}"#;
    insta::assert_debug_snapshot!(planned(&skill, request));
}

#[test]
fn each_language_has_its_interpreter() {
    let skill = skill("", &[("a.py", ""), ("b.mjs", ""), ("c.bash", "")]);
    let argv = |script: &str| {
        planned(&skill, &format!(r#"{{"skill":"demo","script":"{script}"}}"#)).job.argv
    };
    assert_eq!(argv("a.py"), ["python3", "-u", "/sandbox/scripts/a.py"]);
    assert_eq!(argv("./b.mjs"), ["node", "/sandbox/scripts/b.mjs"]);
    assert_eq!(argv("c.bash"), ["bash", "/sandbox/scripts/c.bash"]);
}

#[test]
fn options_of_the_interpreter_stand_before_the_file() {
    let skill = skill(
        "",
        &[("a.sh", "#!/bin/bash -eu\n"), ("b", "#!/usr/bin/env -S node --no-warnings\n")],
    );
    let argv = |script: &str| {
        planned(&skill, &format!(r#"{{"skill":"demo","script":"{script}","args":["-x"]}}"#))
            .job
            .argv
    };
    assert_eq!(argv("a.sh"), ["bash", "-eu", "/sandbox/scripts/a.sh", "-x"]);
    assert_eq!(argv("b"), ["node", "--no-warnings", "/sandbox/scripts/b", "-x"]);
}

#[test]
fn large_documents_are_left_to_the_files() {
    let skill = skill("", &[("main.py", "")]);
    let sized = |bytes: usize| {
        planned(&skill, &format!(r#"{{"skill":"demo","input":"{}"}}"#, "x".repeat(bytes - 2)))
    };
    assert_eq!(variable(&sized(96 << 10), "SANDBOX_INPUT").map(str::len), Some(96 << 10));
    let large = sized((96 << 10) + 1);
    assert_eq!(variable(&large, "SANDBOX_INPUT"), None);
    let file = large.job.files.iter().find(|file| file.path == paths::INPUT_JSON);
    assert_eq!(file.map(|file| file.bytes.len()), Some((96 << 10) + 1));
}

#[test]
fn long_instructions_are_left_out() {
    let mut skill = skill("", &[("main.py", "")]);
    assert_eq!(
        variable(&planned(&skill, r#"{"skill":"demo"}"#), "SKILL_INSTRUCTIONS").map(str::trim),
        Some("Do it.")
    );
    skill.manifest.instructions = "x".repeat((64 << 10) + 1);
    assert_eq!(variable(&planned(&skill, r#"{"skill":"demo"}"#), "SKILL_INSTRUCTIONS"), None);
}

#[test]
fn input_is_an_empty_object_unless_given_and_null_is_given() {
    let skill = skill("", &[("main.py", "")]);
    assert_eq!(variable(&planned(&skill, r#"{"skill":"demo"}"#), "SANDBOX_INPUT"), Some("{}"));
    assert_eq!(
        variable(&planned(&skill, r#"{"skill":"demo","input":null}"#), "SANDBOX_INPUT"),
        Some("null")
    );
}

#[test]
fn the_callers_variable_replaces_ours() {
    let skill = skill("", &[("main.py", "")]);
    let plan = planned(&skill, r#"{"skill":"demo","env":{"LANG":"de_DE.UTF-8"}}"#);
    assert_eq!(variable(&plan, "LANG"), Some("de_DE.UTF-8"));
}

#[test]
fn limits_only_tighten_and_say_so() {
    let skill = skill("timeout: 10s\nresources:\n  memory: 8Gi\n", &[("main.py", "")]);
    let plan =
        planned(&skill, r#"{"skill":"demo","timeout_ms":20000,"limits":{"memory_bytes":1}}"#);
    assert_eq!(plan.job.timeout.as_millis(), 10_000);
    assert_eq!(plan.shape.memory_bytes, 16 << 20);
    insta::assert_debug_snapshot!(plan.clamped);
    let tighter = planned(&skill, r#"{"skill":"demo","timeout_ms":1500}"#);
    assert_eq!(tighter.job.timeout.as_millis(), 1500);
}

#[test]
fn what_may_not_run_is_refused_by_name() {
    let plain = skill("", &[("main.py", "")]);
    let no_entrypoint = skill("", &[("tools/a.py", ""), ("notes.txt", "")]);
    let cases = [
        refused(&plain, r#"{"skill":"demo","env":{"ok":"1","Ld_Preload":"x"}}"#),
        refused(&plain, r#"{"skill":"demo","script":"../../etc/passwd"}"#),
        refused(&plain, r#"{"skill":"demo","script":"/sandbox/scripts/main.py"}"#),
        refused(&no_entrypoint, r#"{"skill":"demo"}"#),
        refused(&no_entrypoint, r#"{"skill":"demo","script":"notes.txt"}"#),
    ];
    insta::assert_debug_snapshot!(cases);
}

#[test]
fn images_count_only_where_there_is_an_allowlist() {
    let skill = skill("image: evil:1\n", &[("main.py", "")]);
    assert_eq!(planned(&skill, r#"{"skill":"demo"}"#).shape.image, None);
    let allowing =
        |image: &str| RunPolicy { image_allowlist: Some(vec![image.to_owned()]), ..run_policy() };
    let allowed =
        plan(&skill, &request(r#"{"skill":"demo"}"#), &allowing("evil:1")).expect("a plan");
    assert_eq!(allowed.shape.image.as_deref(), Some("evil:1"));
    let policy = allowing("python:3.12-slim");
    let stop = plan(&skill, &request(r#"{"skill":"demo"}"#), &policy).expect_err("a refusal");
    assert!(stop.error.contains("evil:1"), "{}", stop.error);
}

#[test]
fn what_does_not_fit_on_the_disk_is_refused() {
    let big = "x".repeat(9 << 20);
    let skill = skill("", &[("main.py", ""), ("data.txt", &big)]);
    let error = refused(&skill, r#"{"skill":"demo","limits":{"memory_bytes":16777216}}"#);
    assert!(error.contains("8388608"), "{error}");
}
