//! `serve --demo --once`, which is what `make run ARGS=--once` does; and a port that is taken.

use std::net::TcpListener;
use std::process::Command;

use serde_json::Value;
use tempfile::tempdir;

use crate::support::{Server, ended, examples, skillbox};

#[test]
fn the_demo_pushes_runs_and_shows_how_to_repeat_it() {
    let home = tempdir().expect("a directory");
    let demo = || {
        let mut command = skillbox(home.path());
        command.args(["serve", "--api-port", "0", "--once", "--demo"]).arg(examples());
        ended(command).ok()
    };
    let first = demo();
    let output: Value = serde_json::from_str(&first.stdout).expect("the output document stands on standard output");
    assert_eq!(output["rows"], 6, "{output}");
    for words in [
        "first key: sk-", "word-counter", "published", "report.md", "curl ", "Authorization: Bearer sk-",
        "/v1/executions",
    ] {
        assert!(first.stderr.contains(words), "{words} is missing in\n{}", first.stderr);
    }
    let second = demo();
    assert!(!second.stderr.contains("first key:"), "a key is shown once\n{}", second.stderr);
    assert!(second.stderr.contains("unchanged"), "{}", second.stderr);
}

#[test]
fn the_printed_curl_works() {
    let server = Server::start();
    server.push("hello", "main.sh", "echo '{\"ok\":true}' > \"$SANDBOX_OUTPUT\"\n");
    let line = format!(
        "curl -sS -H 'Authorization: Bearer {}' -H 'Content-Type: application/json' -d '{{\"skill\":\"hello\"}}' {}/v1/executions",
        server.key, server.url
    );
    let output = Command::new("sh").args(["-c", &line]).output().expect("a shell");
    let answer: Value = serde_json::from_slice(&output.stdout).expect("an answer");
    assert_eq!((&answer["status"], &answer["output"]["ok"]), (&"success".into(), &true.into()), "{answer}");
}

#[test]
fn a_taken_port_is_a_clear_error() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = taken.local_addr().expect("an address").port().to_string();
    let home = tempdir().expect("a directory");
    let mut command = skillbox(home.path());
    command.args(["serve", "--api-port", &port]);
    let refused = ended(command).failed(2);
    assert!(refused.stderr.contains(&port) && refused.stderr.contains("SKILLBOX_API_PORT"), "{}", refused.stderr);
}
