//! Commands that work without a server.

use std::collections::BTreeSet;
use std::io::Read;
use std::process::{Command, Stdio};

use tempfile::tempdir;

use crate::support::{CommandResult, examples, run_command, skillbox, write_skill};

fn run(args: &[&str]) -> CommandResult {
    let home = tempdir().expect("a directory");
    let mut command = skillbox(home.path());
    command.args(args);
    run_command(command)
}

#[test]
fn help_lists_every_command_and_the_exit_codes() {
    let help = run(&["--help"]).ok().stdout;
    for word in [
        "serve", "run", "skill", "exec", "key", "tenant", "config", "doctor", "health", "version",
        "completions", "bench", "Exit codes",
    ] {
        assert!(help.contains(word), "{word} is missing in\n{help}");
    }
    for flag in [
        "-s, --server", "-k, --api-key", "-t, --tenant", "-o, --output", "SKILLBOX_SERVER_URL",
        "SKILLBOX_API_KEY", "SKILLBOX_TENANT_ID",
    ] {
        assert!(help.contains(flag), "{flag} is missing in\n{help}");
    }
}

#[test]
fn the_key_in_the_environment_is_not_printed_by_help() {
    let home = tempdir().expect("a directory");
    let mut command = skillbox(home.path());
    command.arg("--help").env("SKILLBOX_API_KEY", "sk-secret");
    assert!(!run_command(command).ok().stdout.contains("sk-secret"));
}

#[test]
fn version_is_printed_as_text_and_as_json() {
    assert!(
        run(&["version"]).ok().stdout.starts_with(concat!("skillbox ", env!("CARGO_PKG_VERSION")))
    );
    assert_eq!(run(&["version", "-o", "json"]).ok().json()["version"], env!("CARGO_PKG_VERSION"));
    assert!(run(&["--version"]).ok().stdout.contains(env!("CARGO_PKG_VERSION")));
}

#[test]
fn completions_exist_for_every_shell() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = run(&["completions", shell]).ok().stdout;
        assert!(script.contains("skillbox") && script.contains("completions"), "{shell}");
    }
    run(&["completions", "nosuchshell"]).failed(2);
}

#[test]
fn wrong_usage_exits_with_2() {
    for args in [
        &[][..],
        &["nonsense"],
        &["run"],
        &["run", "x", "--env", "novalue"],
        &["-o", "yaml", "health"],
        &["serve", "--once"],
    ] {
        let result = run(args).failed(2);
        assert!(!result.stderr.is_empty(), "{args:?}");
    }
}

#[test]
fn without_a_server_the_error_says_how_to_start_one() {
    for args in [
        &["health"][..],
        &["run", "word-counter"],
        &["skill", "list"],
        &["exec", "list"],
        &["key", "list"],
        &["tenant", "list"],
    ] {
        // Port 1 is privileged and unused: nothing answers there.
        let result = run(&[args, &["-s", "http://127.0.0.1:1"]].concat()).failed(2);
        assert!(result.stderr.contains("skillbox serve"), "{args:?}: {}", result.stderr);
        assert!(result.stdout.is_empty(), "{args:?}: {}", result.stdout);
    }
}

#[test]
fn bad_input_is_rejected_before_any_request() {
    for (args, words) in [
        (&["run", "s", "--input", "{"][..], "not JSON"),
        (&["run", "s", "--input", "@/nowhere.json"], "/nowhere.json"),
        (&["run", "s", "--input", "-", "--stdin", "-"], "only once"),
        (&["skill", "push", "/nowhere"], "/nowhere"),
        (&["health", "-s", "ftp://x"], "http://localhost:8080"),
    ] {
        let result = run(args).failed(2);
        assert!(result.stderr.contains(words), "{args:?}: {}", result.stderr);
    }
}

#[test]
fn lint_passes_every_example_except_the_malicious_one() {
    for entry in std::fs::read_dir(examples()).expect("the examples") {
        let path = entry.expect("an entry").path();
        let thief = path.ends_with("malicious");
        let result = run(&["skill", "lint", &path.display().to_string(), "-o", "json"]);
        let report = if thief { result.failed(1).json() } else { result.ok().json() };
        assert_eq!(report["valid"], !thief, "{report}");
        assert_eq!(report["findings"][0]["code"] == "credential_theft", thief, "{report}");
        assert_eq!(report["name"], path.file_name().expect("a name").to_str().expect("UTF-8"));
    }
}

#[test]
fn lint_names_what_is_wrong_and_exits_with_1() {
    let home = tempdir().expect("a directory");
    let skill = home.path().join("broken");
    std::fs::create_dir(&skill).expect("a directory");
    std::fs::write(skill.join("SKILL.md"), "---\nname: broken\n---\nno description\n")
        .expect("a file");
    let path = skill.display().to_string();
    let words = run(&["skill", "lint", &path]).failed(1);
    assert!(words.stdout.contains("description"), "{}", words.stdout);
    let report = run(&["skill", "lint", &path, "-o", "json"]).failed(1).json();
    assert_eq!(
        (&report["valid"], &report["error"]),
        (&false.into(), &"invalid_skill".into()),
        "{report}"
    );
    run(&["skill", "lint", "/nowhere"]).failed(2);
}

#[test]
fn strict_lint_fails_on_warnings() {
    let home = tempdir().expect("a directory");
    let skill = home.path().join("Odd_Name");
    write_skill(&skill, "Odd_Name", "main.py", "print()\n");
    let path = skill.display().to_string();
    let relaxed = run(&["skill", "lint", &path]).ok();
    assert!(relaxed.stdout.contains("warning["), "{}", relaxed.stdout);
    run(&["skill", "lint", &path, "--strict"]).failed(1);
}

#[test]
fn packages_are_canonical() {
    let home = tempdir().expect("a directory");
    let skill = examples().join("word-counter").display().to_string();
    let package = |args: &[&str]| {
        let mut command = skillbox(home.path());
        command.args(["skill", "package", "-o", "json"]).args(args);
        run_command(command).ok().json()
    };
    let first = package(&[&skill]);
    assert_eq!(first["path"], "word-counter-1.0.0.zip");
    let second = package(&[&skill, "-O", "again.zip"]);
    assert_eq!(first["digest"], second["digest"]);
    let repacked = package(&["again.zip", "-O", "third.zip"]);
    assert_eq!(first["digest"], repacked["digest"]);
    let bytes = |name: &str| std::fs::read(home.path().join(name)).expect("a zip");
    assert_eq!(bytes("word-counter-1.0.0.zip"), bytes("third.zip"));
}

#[test]
fn a_new_skill_passes_its_own_lint() {
    for lang in ["python", "node", "bash"] {
        let home = tempdir().expect("a directory");
        let at_home = |args: &[&str]| {
            let mut command = skillbox(home.path());
            command.args(args);
            run_command(command)
        };
        at_home(&["skill", "new", "my-skill", "--lang", lang]).ok();
        at_home(&["skill", "lint", "my-skill", "--strict"]).ok();
        at_home(&["skill", "new", "my-skill"]).failed(2);
    }
}

#[test]
fn config_prints_values_with_their_source_and_no_secret() {
    let home = tempdir().expect("a directory");
    let mut command = skillbox(home.path());
    command
        .args(["config", "--api-port", "9999", "-o", "json"])
        .env("SKILLBOX_BOOTSTRAP_KEY", "sk-very-secret");
    let result = run_command(command).ok();
    assert!(!result.stdout.contains("sk-very-secret"));
    let settings = result.json();
    let port = settings
        .as_array()
        .expect("a list")
        .iter()
        .find(|row| row["name"] == "SKILLBOX_API_PORT")
        .expect("the port");
    assert_eq!((&port["value"], &port["source"]), (&"9999".into(), &"flag".into()));
}

#[test]
fn a_misspelt_variable_stops_the_server_and_the_docker_proxy() {
    let home = tempdir().expect("a directory");
    for arguments in [["serve", "--api-port=0"], ["docker-proxy", "--listen=tcp://127.0.0.1:0"]] {
        let mut command = skillbox(home.path());
        command.args(arguments).env("SKILLBOX_MAX_MEMROY", "1Gi");
        let refused = run_command(command).failed(2);
        assert!(
            refused.stderr.contains("SKILLBOX_MAX_MEMROY: is not a setting"),
            "{}",
            refused.stderr
        );
        assert!(refused.stderr.contains("`SKILLBOX_MAX_MEMORY`"), "{}", refused.stderr);
    }
    let mut control = skillbox(home.path());
    control.args(["config"]).env("SKILLBOX_MAX_MEMORY", "1Gi");
    run_command(control).ok();
}

/// A server rejects unknown variables, so it must know those of all commands, or it would not start in
/// the same environment.
#[test]
fn a_server_accepts_the_variables_of_all_commands() {
    let home = tempdir().expect("a directory");
    let help = run(&["docker-proxy", "--help"]).ok().stdout;
    let names: BTreeSet<&str> = help
        .split(|c: char| !c.is_ascii_uppercase() && c != '_')
        .filter(|word| word.starts_with("SKILLBOX_PROXY_"))
        .collect();
    assert!(names.len() >= 6, "{names:?}");
    for name in names.into_iter().chain(["SKILLBOX_API_KEY", "SKILLBOX_TENANT_ID"]) {
        let mut command = skillbox(home.path());
        command.args(["config"]).env(name, "1");
        run_command(command).ok();
    }
}

#[test]
fn doctor_finds_the_interpreters() {
    let report = run(&["doctor", "-o", "json"]).ok().json();
    assert!(report.to_string().contains("python"), "{report}");
    assert!(run(&["doctor"]).ok().stdout.contains("python"));
}

#[test]
fn a_closed_standard_output_is_not_a_failure() {
    let home = tempdir().expect("a directory");
    let mut child = Command::new(env!("CARGO_BIN_EXE_skillbox"))
        .args(["completions", "bash"])
        .current_dir(home.path())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the command starts");
    // Closing our end before anything is read makes the next write fail.
    drop(child.stdout.take());
    let mut stderr = String::new();
    child.stderr.take().expect("a pipe").read_to_string(&mut stderr).expect("UTF-8");
    let status = child.wait().expect("the command ends");
    assert!(status.success() && stderr.is_empty(), "{status}: {stderr}");
}
