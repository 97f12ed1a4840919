//! `serve --demo --once`, which `make run ARGS=--once` uses, and a port that is in use.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};

use serde_json::Value;
use tempfile::tempdir;

use crate::support::{clean_command, examples, run_command, skillbox};

#[test]
fn the_demo_publishes_runs_and_prints_commands_to_repeat_it() {
    let home = tempdir().expect("a directory");
    let demo = || {
        let mut command = skillbox(home.path());
        command.args(["serve", "--api-port", "0", "--once", "--demo"]).arg(examples());
        run_command(command).ok()
    };
    let first = demo();
    let output: Value =
        serde_json::from_str(&first.stdout).expect("the output document stands on standard output");
    assert_eq!(output["rows"], 6, "{output}");
    for words in [
        "first key: sk-", "word-counter", "published", "report.md", "curl ",
        "Authorization: Bearer sk-", "/v1/executions",
    ] {
        assert!(first.stderr.contains(words), "{words} is missing in\n{}", first.stderr);
    }
    let second = demo();
    assert!(!second.stderr.contains("first key:"), "a key is shown once\n{}", second.stderr);
    assert!(second.stderr.contains("unchanged"), "{}", second.stderr);
}

/// Kills the process at the end of the test, also after a failure.
struct Serving(Child);

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn the_printed_curl_works() {
    let home = tempdir().expect("a directory");
    let mut command = clean_command(home.path());
    command
        .args(["serve", "--api-port", "0", "--demo"])
        .arg(examples())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let mut serving = Serving(command.spawn().expect("it starts"));
    let mut lines = BufReader::new(serving.0.stderr.take().expect("a pipe"))
        .lines()
        .map(|line| line.expect("a line"));
    lines.find(|line| line == "repeat it with").expect("it says how");
    let line = lines.next().expect("a command");
    let output = Command::new("sh").args(["-c", line.trim()]).output().expect("a shell");
    let answer: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {line}"));
    assert_eq!(
        (&answer["status"], &answer["output"]["rows"]),
        (&"success".into(), &6.into()),
        "{answer}"
    );
}

#[test]
fn a_taken_port_is_a_clear_error() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = taken.local_addr().expect("an address").port().to_string();
    let home = tempdir().expect("a directory");
    let mut command = skillbox(home.path());
    command.args(["serve", "--api-port", &port]);
    let refused = run_command(command).failed(2);
    assert!(
        refused.stderr.contains(&port) && refused.stderr.contains("SKILLBOX_API_PORT"),
        "{}",
        refused.stderr
    );
}
