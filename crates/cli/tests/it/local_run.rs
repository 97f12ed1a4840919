//! Running, listing and checking skills without a server.

mod network;
mod policy;
mod trust;

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::{TempDir, tempdir};

use crate::engine::Engine;
use crate::support::{CommandResult, clean_command, examples, run_command, skillbox, write_skill};

/// A home directory with one skill in the directory `skill`.
pub(crate) struct Home(TempDir);

impl Home {
    pub(crate) fn with(script: &str, text: &str) -> Home {
        let home = tempdir().expect("a directory");
        write_skill(&home.path().join("skill"), "skill", script, text);
        Home(home)
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        let path = self.path().join(name);
        std::fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
        std::fs::write(path, text).expect("a file");
    }

    pub(crate) fn command(&self, args: &[&str]) -> assert_cmd::Command {
        let mut command = skillbox(self.path());
        // No server listens there, so every call to a server fails.
        command.env("SKILLBOX_SERVER_URL", "http://127.0.0.1:1").args(args);
        command
    }

    pub(crate) fn run(&self, args: &[&str]) -> CommandResult {
        run_command(self.command(args))
    }

    /// Runs `audit` and returns its only record.
    #[track_caller]
    pub(crate) fn audit(&self, args: &[&str]) -> (CommandResult, Value) {
        let result = self.run(&[&["audit"], args].concat());
        let line = result.stderr.strip_suffix('\n').expect("a line");
        assert!(!line.contains('\n'), "one record: {line}");
        let record = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        (result, record)
    }
}

#[test]
fn a_named_script_gets_arguments_streams_and_its_own_exit_code() {
    let script = "import os, sys\nprint(sys.argv[1:], os.getcwd(), os.environ['WHO'], sys.stdin.read())\nprint('why', file=sys.stderr)\nsys.exit(3)\n";
    let home = Home::with("scripts/tell.py", script);
    let run = [
        "run", "./skill", "scripts/tell.py", "--stdin", "in", "--env", "WHO=me", "--cwd",
        "workspace",
    ];
    let result = home.run(&[&run[..], &["--", "-x", "a b"]].concat()).failed(3);
    assert_eq!(result.stdout, "['-x', 'a b'] /workspace me in\n");
    assert!(
        result.stderr.starts_with("why\n") && result.stderr.contains("code 3"),
        "{}",
        result.stderr
    );
}

#[test]
fn an_entrypoint_returns_a_document_and_files() {
    let home = Home::with(
        "main.py",
        "import json, os\nprint('words')\njson.dump({'n': 1}, open(os.environ['SANDBOX_OUTPUT'], 'w'))\nos.makedirs('/sandbox/out/files/d')\nopen('/sandbox/out/files/d/a.txt', 'w').write('hi')\n",
    );
    let result = home.run(&["run", "./skill", "--download", "out"]).ok();
    assert_eq!(result.stdout, "{\n  \"n\": 1\n}\n");
    assert!(
        result.stderr.contains("words\n") && result.stderr.contains("saved 1 file to out"),
        "{}",
        result.stderr
    );
    assert_eq!(std::fs::read_to_string(home.path().join("out/d/a.txt")).expect("a file"), "hi");
    let document = home.run(&["run", "./skill", "-o", "json"]).ok().json();
    assert_eq!(
        (&document["status"], &document["output"]["n"]),
        (&"success".into(), &1.into()),
        "{document}"
    );
    assert_eq!(
        (&document["files"][0]["name"], &document["stdout"]),
        (&"d/a.txt".into(), &"words\n".into())
    );
    assert_eq!(document["isolation"]["backend"], "native");
}

#[test]
fn failures_have_documented_exit_codes() {
    let home = Home::with("main.sh", "sleep 60\n");
    let result = home.run(&["run", "./skill", "--timeout", "300ms"]).failed(124);
    assert!(result.stderr.contains("timed out"), "{}", result.stderr);
    for (args, expected) in [
        (&["run", "./skill", "nope.sh"][..], "main.sh"),
        (&["run", "./nowhere"], "./nowhere"),
        (&["run", "https://example.com/skill.zip"], "https://example.com/skill.zip"),
        (&["run", "./skill", "--async"], "--async"),
        (&["run", "./skill", "--memory", "much"], "much"),
        (&["run", "word-counter", "--allow-network"], "--allow-network"),
        (&["run", "./skill", "--env", "LD_PRELOAD=x"], "LD_PRELOAD"),
    ] {
        let result = home.run(args).failed(2);
        assert!(
            result.stderr.contains(expected) && result.stdout.is_empty(),
            "{args:?}: {}",
            result.stderr
        );
    }
}

#[test]
fn a_directory_is_preferred_unless_a_server_or_version_is_given() {
    let home = Home::with("main.sh", "echo here\n");
    let mut alone = skillbox(home.path());
    alone.args(["run", "skill"]);
    assert!(run_command(alone).ok().stderr.contains("here"));
    // `home.run` configures a server by its variable.
    let named = home.run(&["run", "skill"]).failed(2);
    assert!(named.stderr.contains("127.0.0.1:1"), "{}", named.stderr);
    let latest = home.run(&["run", "skill@latest"]).failed(2);
    assert!(latest.stderr.contains("skillbox serve"), "{}", latest.stderr);
}

/// Starts a command and waits for its first line of output.
fn spawn_and_read_line(home: &Home, args: &[&str]) -> (Child, String) {
    let mut child = clean_command(home.path())
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("the command starts");
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().expect("a pipe")).read_line(&mut line).expect("a line");
    (child, line)
}

#[test]
fn output_is_live_and_an_interrupted_run_is_cancelled() {
    let home = Home::with("wait.sh", "echo ready\nsleep 600\n");
    let (mut child, line) = spawn_and_read_line(&home, &["run", "./skill", "wait.sh"]);
    assert_eq!(line, "ready\n");
    kill_process(Pid::from_child(&child), Signal::INT).expect("a running process");
    assert_eq!(child.wait().expect("an exit status").code(), Some(130));
}

#[test]
fn a_closed_standard_output_ends_the_run() {
    let home = Home::with("flood.sh", "while true; do echo more; done\n");
    let (mut child, line) = spawn_and_read_line(&home, &["run", "./skill", "flood.sh"]);
    assert_eq!(line, "more\n");
    drop(child.stdout.take());
    assert_eq!(child.wait().expect("an exit status").code(), Some(0));
}

#[test]
fn audit_prints_one_record_and_the_output_of_the_script() {
    let home = Home::with("say.sh", "echo one; echo two >&2; echo three; exit 7\n");
    let (result, record) =
        home.audit(&["./skill", "say.sh", "--memory", "64Mi", "--timeout", "20s"]);
    assert_eq!(result.code, Some(7));
    assert_eq!(result.stdout, "one\ntwo\nthree\n");
    for (key, value) in [
        ("skill", "\"skill\""),
        ("script", "\"say.sh\""),
        ("exit_code", "7"),
        ("timed_out", "false"),
        ("network_allowed", "false"),
        ("memory_limit_mb", "64"),
        ("timeout_ms", "20000"),
        ("outcome", "\"exited\""),
        ("sandbox", "\"native\""),
        ("trusted", "false"),
    ] {
        assert_eq!(record[key].to_string(), value, "{key}");
    }
    assert!(
        record["digest"].as_str().is_some_and(|digest| digest.starts_with("sha256:")),
        "{record}"
    );
    assert!(
        record["ts"].as_str().is_some_and(|ts| ts.ends_with('Z')) && record["duration_ms"].is_u64(),
        "{record}"
    );
    assert_eq!(record["isolation"]["controls"]["seccomp"], "filter");
    let (_, again) = home.audit(&["./skill", "say.sh"]);
    assert_ne!(record["request_id"], again["request_id"]);
}

#[test]
fn audit_prints_a_record_for_a_run_that_never_started() {
    let home = Home::with("main.sh", "sleep 60\n");
    let (result, record) = home.audit(&["./skill", "nope.sh"]);
    assert_eq!((result.code, &record["outcome"]), (Some(2), &"refused".into()));
    assert!(record["error"].as_str().is_some_and(|error| error.contains("nope.sh")), "{record}");
    let (result, record) = home.audit(&["./nowhere", "main.sh"]);
    assert_eq!((result.code, &record["skill"]), (Some(2), &Value::Null));
    let (result, record) = home.audit(&["./skill", "main.sh", "--timeout", "200ms"]);
    assert_eq!(
        (result.code, &record["timed_out"], &record["outcome"]),
        (Some(124), &true.into(), &"timed_out".into())
    );
}

#[test]
fn list_prints_every_skill_and_the_errors_of_invalid_ones() {
    let home = Home::with("main.sh", "true\n");
    home.write(
        "more/.claude/skills/inner/SKILL.md",
        "---\nname: inner\ndescription: Inside.\n---\n",
    );
    home.write("more/.claude/skills/inner/sub/SKILL.md", "belongs to inner");
    home.write("more/broken/skill.md", "---\nname: broken\n---\n");
    home.write("more/node_modules/x/SKILL.md", "---\nname: x\ndescription: x\n---\n");
    let rows = home.run(&["list", ".", "-o", "json"]).ok().json();
    let seen: Vec<_> =
        rows.as_array().expect("rows").iter().map(|row| (&row["path"], &row["name"])).collect();
    let expected = [
        ("./more/.claude/skills/inner", "inner".into()),
        ("./more/broken", Value::Null),
        ("./skill", "skill".into()),
    ];
    let expected: Vec<_> = expected.iter().map(|(path, name)| (Value::from(*path), name)).collect();
    assert_eq!(seen, expected.iter().map(|(path, name)| (path, *name)).collect::<Vec<_>>());
    assert_eq!(rows[2]["scripts"][0]["path"], "main.sh");
    let table = home.run(&["list", "."]).ok();
    assert!(
        table.stdout.contains("error[invalid_skill]") && table.stderr.contains("1 of 3 skills"),
        "{}",
        table.stdout
    );
    home.run(&["list", "./nowhere"]).failed(2);
    assert_eq!(home.run(&["list", "skill", "-o", "json"]).ok().json()[0]["path"], "skill");
}

#[test]
fn validate_is_the_same_as_skill_lint() {
    let home = Home::with("main.sh", "true\n");
    home.write("broken/SKILL.md", "---\nname: broken\n---\n");
    for (args, code) in
        [(&["skill"][..], 0), (&["broken"], 1), (&["nowhere"], 2), (&["skill", "-o", "json"], 0)]
    {
        let validate = home.run(&[&["validate"], args].concat());
        let lint = home.run(&[&["skill", "lint"], args].concat());
        assert_eq!((validate.code, validate.code), (Some(code), lint.code), "{args:?}");
        assert_eq!((validate.stdout, validate.stderr), (lint.stdout, lint.stderr), "{args:?}");
    }
}

/// Runs the skill where user namespaces cannot be created, so that the native sandbox does not work.
fn without_namespaces(home: &Home, variables: &[(&str, &str)]) -> CommandResult {
    let mut command = std::process::Command::new("unshare");
    let inside = "echo 0 > /proc/sys/user/max_user_namespaces && exec \"$@\"";
    command.args([
        "--user",
        "--map-root-user",
        "sh",
        "-c",
        inside,
        "sh",
        env!("CARGO_BIN_EXE_skillbox"),
    ]);
    command.args(["run", "./skill", "main.sh"]).current_dir(home.path());
    let clean = clean_command(home.path());
    command.env_clear().envs(clean.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.envs(variables.iter().copied());
    run_command(assert_cmd::Command::from_std(command))
}

#[test]
fn without_the_native_sandbox_docker_is_used_or_the_run_fails() {
    let home = Home::with("main.sh", "echo ran\n");
    let result =
        without_namespaces(&home, &[("SKILLBOX_DOCKER_HOST", "unix:///nowhere.sock")]).failed(2);
    for words in [
        "no sandbox works on this machine", "unprivileged user namespaces", "/nowhere.sock",
        "skillbox doctor",
    ] {
        assert!(result.stderr.contains(words), "{words}: {}", result.stderr);
    }
    assert_eq!(result.stdout, "");
    let chosen = home.run(&["run", "./skill", "main.sh", "--sandbox", "docker"]);
    assert!(chosen.failed(2).stderr.contains("SKILLBOX_DOCKER_HOST"));

    let Some(engine) = Engine::here("a local run falls back to Docker") else { return };
    let images = [
        ("SKILLBOX_DOCKER_HOST", engine.host.as_str()),
        ("SKILLBOX_IMAGE_BASH", "skillbox/bash:test"),
        ("SKILLBOX_IMAGE_PYTHON", "skillbox/python:test"),
        ("SKILLBOX_IMAGE_NODE", "skillbox/node:test"),
        ("SKILLBOX_IMAGE_ALLOWLIST", "skillbox/bash:test,skillbox/python:test,skillbox/node:test"),
    ];
    assert_eq!(without_namespaces(&home, &images).ok().stdout, "ran\n");
    let mut command = home.command(&[
        "run", "./skill", "main.sh", "--sandbox", "docker", "--allow-network", "-o", "json",
    ]);
    let document = crate::support::run_command({
        command.envs(images);
        command
    });
    let document = document.ok().json();
    assert_eq!(
        (&document["sandbox"], &document["isolation"]["network"]),
        (&"docker".into(), &"host".into())
    );
}

#[test]
fn an_example_runs_without_a_server() {
    let home = Home::with("main.sh", "true\n");
    let skill = examples().join("word-counter").display().to_string();
    let result = home.run(&["run", &skill, "--input", r#"{"text": "one two two"}"#]).ok();
    let document: Value = serde_json::from_str(&result.stdout).expect("a document");
    assert_eq!(document["words"], 3);
}
