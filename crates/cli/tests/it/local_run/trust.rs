//! `--trust-remote-code`: the only way to run without a sandbox.

use super::Home;
use crate::support::{run_command, skillbox};

#[test]
fn a_run_without_a_sandbox_is_announced_and_has_the_paths_of_the_contract() {
    let script = r#"
import json, os, sys
read = lambda path: open(path).read()
json.dump({"input": os.environ["SANDBOX_INPUT"], "here": os.path.exists(os.environ["SKILL_DIR"] + "/main.py"),
           "variables": sorted(os.environ), "uid": os.getuid(), "cwd": os.getcwd(), "in": sys.stdin.read()},
          open(os.environ["SANDBOX_OUTPUT"], "w"))
open(os.environ["SANDBOX_FILES_DIR"] + "a.txt", "w").write("hi")
"#;
    let home = Home::with("main.py", script);
    let mut command = home.command(&[
        "run", "./skill", "--trust-remote-code", "-o", "json", "--stdin", "x", "--input", "[1]",
    ]);
    command.env("CANARY", "secret");
    let result = run_command(command).ok();
    assert!(result.stderr.starts_with("warning: NO SANDBOX"), "{}", result.stderr);
    let document = result.json();
    let output = &document["output"];
    assert_eq!(
        (&output["input"], &output["here"], &output["in"]),
        (&"[1]".into(), &true.into(), &"x".into())
    );
    assert_eq!(output["uid"], rustix::process::getuid().as_raw());
    assert!(!output["variables"].to_string().contains("CANARY"), "{output}");
    assert_eq!((&document["trusted"], &document["sandbox"]), (&true.into(), &"none".into()));
    let isolation = &document["isolation"];
    assert_eq!((&isolation["backend"], &isolation["network"]), (&"none".into(), &"host".into()));
    assert_eq!(isolation["missing"].as_array().map(Vec::len), Some(sandbox::Control::ALL.len()));
    assert_eq!(document["files"][0]["name"], "a.txt");
    // The temporary directory is removed.
    assert!(!std::path::Path::new(output["cwd"].as_str().expect("a path")).exists());
}

#[test]
fn the_timeout_ends_all_processes_of_the_script() {
    let script = "setsid sleep 600 & setsid sh -c 'sleep 600 & sleep 600' & echo $!; echo out; echo err >&2; sleep 600\n";
    let home = Home::with("main.sh", script);
    let (result, record) =
        home.audit(&["./skill", "main.sh", "--trust-remote-code", "--timeout", "5s"]);
    assert_eq!(
        (result.code, &record["timed_out"], &record["trusted"]),
        (Some(124), &true.into(), &true.into())
    );
    assert_eq!(
        (&record["network_allowed"], &record["memory_limit_mb"]),
        (&true.into(), &serde_json::Value::Null)
    );
    assert!(result.stdout.ends_with("out\nerr\n"), "{}", result.stdout);
    let pid = result.stdout.lines().next().expect("a process id");
    assert!(!std::path::Path::new("/proc").join(pid).exists(), "{pid} is still running");
}

#[test]
fn exit_codes_are_those_of_the_script() {
    let home = Home::with("main.sh", "exit \"$1\"\n");
    assert_eq!(
        home.run(&["run", "./skill", "main.sh", "--trust-remote-code", "--", "9"]).code,
        Some(9)
    );
    assert_eq!(
        home.run(&["run", "./skill", "main.sh", "--trust-remote-code", "--", "0"]).code,
        Some(0)
    );
}

#[test]
fn options_of_the_interpreter_line_apply() {
    let home = Home::with("main.sh", "#!/bin/bash -e\nfalse\nexit 9\n");
    assert_eq!(home.run(&["run", "./skill", "main.sh", "--trust-remote-code"]).code, Some(1));
}

#[test]
fn a_skillware_skill_finds_its_input() {
    let home = Home::with("main.sh", "true\n");
    home.write("ware/manifest.yaml", "name: ware\ndescription: Doubles.\nversion: 1.0.0\n");
    let code =
        "class Doubler:\n    def execute(self, params):\n        return {'n': 2 * params['n']}\n";
    home.write("ware/skill.py", code);
    for flags in [&[][..], &["--trust-remote-code"]] {
        let run = ["run", "./ware", "-o", "json", "--input", r#"{"n": 21}"#];
        let document = home.run(&[&run[..], flags].concat()).ok().json();
        assert_eq!(document["output"]["n"], 42, "{flags:?}: {document}");
    }
}

#[test]
fn a_contradicting_request_for_a_sandbox_is_an_error() {
    let home = Home::with("main.sh", "echo ran\n");
    let run = ["run", "./skill", "main.sh", "--trust-remote-code"];
    for kind in ["native", "docker"] {
        let flags = home.run(&[&run[..], &["--sandbox", kind]].concat()).failed(2);
        assert!(flags.stderr.contains("--sandbox") && flags.stdout.is_empty(), "{}", flags.stderr);
        let variable = run_command({
            let mut command = home.command(&run);
            command.env("SKILLBOX_SANDBOX", kind);
            command
        });
        let variable = variable.failed(2);
        assert!(
            variable.stderr.contains("SKILLBOX_SANDBOX") && variable.stdout.is_empty(),
            "{}",
            variable.stderr
        );
        home.write(".config/skillbox/skillbox.toml", &format!("sandbox = \"{kind}\"\n"));
        let policy = home.run(&run).failed(2);
        assert!(
            policy.stderr.contains("skillbox.toml requests") && policy.stdout.is_empty(),
            "{}",
            policy.stderr
        );
        home.write(".config/skillbox/skillbox.toml", "");
    }
    assert_eq!(home.run(&run).ok().stdout, "ran\n");
}

#[test]
fn only_a_directory_on_this_machine_is_trusted() {
    let home = Home::with("main.sh", "echo ran\n");
    let mut package = skillbox(home.path());
    package.args(["skill", "package", "skill", "-O", "skill.zip"]);
    package.assert().success();
    let archive = home.run(&["run", "./skill.zip", "main.sh", "--trust-remote-code"]).failed(2);
    assert!(
        archive.stderr.contains("is not a directory") && archive.stdout.is_empty(),
        "{}",
        archive.stderr
    );
    // In a sandbox an archive is as good as a directory.
    assert_eq!(home.run(&["run", "./skill.zip", "main.sh"]).ok().stdout, "ran\n");
    let url = home.run(&["run", "https://example.com/skill", "--trust-remote-code"]).failed(2);
    assert!(url.stderr.contains("https://example.com/skill"), "{}", url.stderr);
    let name = home.run(&["run", "word-counter", "--trust-remote-code"]).failed(2);
    assert!(name.stderr.contains("works only for a directory"), "{}", name.stderr);
}
