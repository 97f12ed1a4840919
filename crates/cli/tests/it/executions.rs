//! Running skills with the real binary: results, exit codes, files, cancelling.

use std::io::{BufRead, BufReader, Read};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::support::Server;

const WRITER: &str = r#"
import json, os, sys
request = json.loads(os.environ["SANDBOX_INPUT"])
print("a line of log")
os.makedirs(os.environ["SANDBOX_FILES_DIR"] + "deep", exist_ok=True)
with open(os.environ["SANDBOX_FILES_DIR"] + "deep/report.txt", "w") as file:
    file.write("report")
with open(os.environ["SANDBOX_OUTPUT"], "w") as file:
    json.dump({"got": request, "env": os.environ.get("COLOUR")}, file)
sys.exit(request.get("code", 0))
"#;

const ECHO: &str = r#"
import sys
print(sys.argv[1:], sys.stdin.read())
print("a warning", file=sys.stderr)
"#;

#[test]
fn a_run_returns_output_files_and_logs() {
    let server = Server::start();
    server.push("writer", "main.py", WRITER);
    let ran = server
        .run(&[
            "run", "writer", "--input", r#"{"a": 1}"#, "--env", "COLOUR=blue", "--download", "got",
        ])
        .ok();
    let output: Value = serde_json::from_str(&ran.stdout)
        .expect("the output document alone stands on standard output");
    assert_eq!(output, serde_json::json!({"got": {"a": 1}, "env": "blue"}));
    assert!(
        ran.stderr.contains("a line of log") && ran.stderr.contains("deep/report.txt"),
        "{}",
        ran.stderr
    );
    assert_eq!(
        std::fs::read_to_string(server.home().join("got/deep/report.txt")).expect("the file"),
        "report"
    );

    let listed = server.json(&["exec", "list", "--skill", "writer"]);
    let id = listed[0]["execution_id"].as_str().expect("an id");
    assert_eq!(server.json(&["exec", "get", id])["output"]["got"]["a"], 1);
    assert_eq!(server.run(&["exec", "logs", id]).ok().stdout, "a line of log\n");
    assert_eq!(server.json(&["exec", "files", id]).as_array().map(Vec::len), Some(1));
    server.run(&["exec", "files", id, "--download", "again"]).ok();
    assert!(server.home().join("again/deep/report.txt").is_file());
    assert!(server.run(&["exec", "get", id]).ok().stdout.contains("deep/report.txt"));
    assert!(server.run(&["exec", "list"]).ok().stdout.contains("writer@1.0.0"));
}

#[test]
fn a_run_has_the_exit_code_of_the_script() {
    let server = Server::start();
    server.push("writer", "main.py", WRITER);
    server.push("sleeper", "main.sh", "sleep 60\n");
    let failed = server.run(&["run", "writer", "--input", r#"{"code": 7}"#]).failed(7);
    assert!(
        failed.stdout.contains("\"code\": 7"),
        "output of a failed run is kept: {}",
        failed.stdout
    );
    server.run(&["run", "sleeper", "--timeout", "1s"]).failed(124);
    server.run(&["run", "writer", "--version", "9.9.9"]).failed(1);
    let unknown = server.run(&["run", "nosuchskill"]).failed(2);
    assert!(unknown.stderr.contains("skill list"), "{}", unknown.stderr);
}

#[test]
fn a_script_gets_arguments_and_streams() {
    let server = Server::start();
    server.push("echo", "echo.py", ECHO);
    let mut command = server
        .command(&["run", "echo", "--script", "echo.py", "--stdin", "-", "--", "-x", "two words"]);
    command.write_stdin("from stdin");
    let ran = crate::support::run_command(command).ok();
    assert_eq!(ran.stdout, "['-x', 'two words'] from stdin\n");
    assert!(ran.stderr.starts_with("a warning\n"), "{}", ran.stderr);
}

#[test]
fn an_idempotency_key_returns_the_same_execution() {
    let server = Server::start();
    server.push("writer", "main.py", WRITER);
    let run =
        |input: &str| server.json(&["run", "writer", "--input", input, "--idempotency-key", "k1"]);
    assert_eq!(run("{}")["execution_id"], run("{}")["execution_id"]);
    server.run(&["run", "writer", "--input", "[]", "--idempotency-key", "k1"]).failed(2);
}

#[test]
fn an_async_run_can_be_cancelled() {
    let server = Server::start();
    server.push("sleeper", "main.sh", "sleep 60\n");
    let queued = server.json(&["run", "sleeper", "--async"]);
    let id = queued["execution_id"].as_str().expect("an id");
    server.run(&["exec", "cancel", id]).ok();
    // There is no event to wait for here, so the status is polled until it is final.
    let deadline = Instant::now() + Duration::from_secs(90);
    let status = loop {
        assert!(Instant::now() < deadline, "it was not cancelled");
        let execution = server.json(&["exec", "get", id]);
        let status = execution["status"].as_str().expect("a status").to_owned();
        if !matches!(status.as_str(), "queued" | "running") {
            break status;
        }
        std::thread::sleep(Duration::from_millis(50));
    };
    assert_eq!(status, "cancelled");
}

/// Writes lines with pauses, so that a follower sees them live.
const TALKER: &str = "for n in 1 2 3; do echo \"line $n\"; sleep 0.3; done; echo '{\"n\":3}' > \"$SANDBOX_OUTPUT\"\n";

#[test]
fn a_run_is_followed_live() {
    let server = Server::start();
    server.push("talker", "main.sh", TALKER);
    let ran = server.run(&["run", "talker", "--follow"]).ok();
    assert!(ran.stderr.starts_with("line 1\nline 2\nline 3\nsuccess in "), "{}", ran.stderr);
    let output: Value = serde_json::from_str(&ran.stdout)
        .expect("the output document alone stands on standard output");
    assert_eq!(output, serde_json::json!({"n": 3}));
    let json = server.run(&["run", "talker", "-f", "-o", "json"]).ok().json();
    assert_eq!(
        (&json["status"], &json["logs"]),
        (&"success".into(), &"line 1\nline 2\nline 3\n".into())
    );

    server.push("failing", "main.sh", "echo no; exit 3\n");
    server.run(&["run", "failing", "--follow"]).failed(3);
    // The standard output of a named script is its result, also while it is written.
    let script = server.run(&["run", "talker", "--script", "main.sh", "--follow"]).ok();
    assert!(script.stdout.starts_with("line 1\nline 2\nline 3\n"), "{}", script.stdout);
}

#[test]
fn the_log_of_a_run_can_be_followed_by_another_command() {
    let server = Server::start();
    server.push("talker", "main.sh", TALKER);
    let started = server.run(&["run", "talker", "--async"]).ok();
    let id = started.stdout.trim();
    let log = server.run(&["exec", "logs", "-f", id]).ok();
    assert_eq!(log.stdout, "line 1\nline 2\nline 3\n");
    assert!(log.stderr.contains("success in "), "{}", log.stderr);
    assert_eq!(
        server.run(&["exec", "logs", id, "--follow"]).ok().stdout,
        log.stdout,
        "also afterwards"
    );
    server.run(&["exec", "logs", "-f", "0190c0de-0000-7000-8000-000000000000"]).failed(2);
}

#[test]
fn the_webhook_secret_can_be_read() {
    let server = Server::start();
    let secret = server.run(&["webhook", "secret"]).ok().stdout;
    assert!(secret.starts_with("whsec_"), "{secret}");
    assert_eq!(server.json(&["webhook", "secret"])["secret"], secret.trim());
}

#[test]
fn an_interrupted_follower_gets_the_command_to_continue() {
    let server = Server::start();
    server.push("endless", "main.sh", "echo begun; sleep 600\n");
    let mut watching = server.spawn_command(&["run", "endless", "--follow"]);
    let mut words = BufReader::new(watching.stderr.take().expect("a pipe"));
    let mut line = String::new();
    words.read_line(&mut line).expect("a line");
    assert_eq!(line, "begun\n");
    kill_process(Pid::from_child(&watching), Signal::INT).expect("it is ours to stop");
    assert_eq!(watching.wait().expect("it ends").code(), Some(130));
    let mut rest = String::new();
    words.read_to_string(&mut rest).expect("the rest");
    let listed = server.json(&["exec", "list", "--skill", "endless"]);
    let id = listed[0]["execution_id"].as_str().expect("an id");
    assert!(
        rest.contains(&format!("exec cancel {id}")) && rest.contains(&format!("exec logs -f {id}")),
        "{rest}"
    );
    assert_eq!(listed[0]["status"], "running", "it goes on");
    server.run(&["exec", "cancel", id]).ok();
}
