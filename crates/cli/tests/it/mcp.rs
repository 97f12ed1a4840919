//! `skillbox mcp` as an agent starts it, with JSON lines on standard input and output.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::{Server, clean_command, write_skill};

/// A unique argument that identifies the processes of this test.
fn process_marker() -> String {
    format!("86420.{}", std::process::id())
}

/// The program with the agent's side of its streams. Dropping it kills the program.
struct Agent {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: BufReader<ChildStdout>,
    /// The id of the last request.
    last_id: u32,
}

impl Agent {
    fn start(mut command: Command) -> Agent {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("the command starts");
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take().expect("a pipe"));
        let mut agent = Agent { child, stdin, stdout: BufReader::new(stdout), last_id: 0 };
        let info = json!({ "name": "test", "version": "1" });
        agent.request(
            "initialize",
            json!({ "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": info }),
        );
        agent.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        agent
    }

    /// Starts it with a directory of skills, and a private directory for temporary files.
    fn start_with_directory(home: &Path, args: &[&str]) -> Agent {
        std::fs::create_dir_all(home.join("tmp")).expect("a directory");
        let mut command = clean_command(home);
        command.env("TMPDIR", home.join("tmp")).args(["mcp", "skills"]).args(args);
        Agent::start(command)
    }

    fn send(&mut self, message: &Value) {
        writeln!(self.stdin.as_mut().expect("an open pipe"), "{message}").expect("an open pipe");
    }

    fn receive(&mut self) -> Value {
        let mut line = String::new();
        self.stdout.read_line(&mut line).expect("a line");
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"))
    }

    fn request(&mut self, method: &str, params: Value) -> Value {
        self.last_id += 1;
        self.send(
            &json!({ "jsonrpc": "2.0", "id": self.last_id, "method": method, "params": params }),
        );
        self.receive()
    }

    /// Calls a tool and returns its result.
    fn call(&mut self, tool: &str, arguments: Value) -> Value {
        self.request("tools/call", json!({ "name": tool, "arguments": arguments }))["result"]
            .clone()
    }

    /// Starts a run with a progress token, and waits for its first output.
    fn start_run(&mut self, skill: &str) {
        let meta = json!({ "progressToken": 1 });
        let params =
            json!({ "name": "run_skill_script", "arguments": { "skill": skill }, "_meta": meta });
        let progress = self.request("tools/call", params);
        assert_eq!(progress["params"]["message"], "began", "{progress}");
    }

    /// Closes the input and waits for the end of the program.
    fn close(mut self) -> ExitStatus {
        drop(self.stdin.take());
        self.child.wait().expect("an exit status")
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Whether any process of this machine was started with the mark.
fn marked() -> bool {
    let processes = std::fs::read_dir("/proc").expect("/proc").flatten();
    let lines = processes.filter_map(|process| std::fs::read(process.path().join("cmdline")).ok());
    lines
        .filter_map(|line| String::from_utf8(line).ok())
        .any(|line| line.contains("sleep\0") && line.contains(&process_marker()))
}

/// Waits for processes with the mark to be there, or to be gone.
fn until_marked(there: bool) -> bool {
    (0..1200).any(|_| {
        let done = marked() == there;
        if !done {
            std::thread::sleep(Duration::from_millis(25));
        }
        done
    })
}

fn endless() -> String {
    let mark = process_marker();
    format!("sleep {mark} & sleep {mark} & echo began; wait\n")
}

#[test]
fn skills_of_a_directory_are_listed_loaded_and_run_and_their_files_read() {
    let home = tempfile::tempdir().expect("a directory");
    let script = "mkdir \"$SANDBOX_FILES_DIR/a\"; printf 'ü' > \"$SANDBOX_FILES_DIR/a/b.txt\"; echo '7' > \"$SANDBOX_OUTPUT\"\n";
    write_skill(&home.path().join("skills/files"), "files", "main.sh", script);
    write_skill(
        &home.path().join("skills/said"),
        "said",
        "scripts/said.sh",
        "echo out; echo err >&2; exit \"$1\"\n",
    );
    let mut agent = Agent::start_with_directory(home.path(), &[]);
    let listed = agent.call("list_skills", json!({}));
    assert_eq!(listed["structuredContent"]["skills"][1]["name"], "said", "{listed}");
    let loaded = agent.call("load_skill", json!({ "skill": "said" }));
    assert_eq!(loaded["structuredContent"]["scripts"][0]["path"], "scripts/said.sh", "{loaded}");

    let run = agent.call("run_skill_script", json!({ "skill": "files" }));
    assert_eq!(run["structuredContent"]["output"], 7, "{run}");
    let uri = run["content"][1]["uri"].as_str().expect("a link").to_owned();
    let read = agent.request("resources/read", json!({ "uri": uri }));
    assert_eq!(read["result"]["contents"][0]["text"], "ü", "{read}");
    let stray = agent
        .request("resources/read", json!({ "uri": format!("{uri}/../../../../../etc/passwd") }));
    assert!(stray["error"]["message"].is_string(), "{stray}");

    let arguments = json!({ "skill": "said", "script": "scripts/said.sh", "args": ["3"] });
    let failed = agent.call("run_skill_script", arguments);
    let told = &failed["structuredContent"];
    assert_eq!((&failed["isError"], &told["exit_code"]), (&json!(true), &json!(3)), "{failed}");
    assert_eq!((&told["stdout"], &told["stderr"]), (&json!("out\n"), &json!("err\n")), "{failed}");
    assert!(agent.close().success());
    let left = std::fs::read_dir(home.path().join("tmp")).expect("a directory").count();
    assert_eq!(left, 0, "the files of runs are gone with the program");
}

#[test]
fn files_stay_in_the_users_directory() {
    let home = tempfile::tempdir().expect("a directory");
    write_skill(
        &home.path().join("skills/files"),
        "files",
        "main.sh",
        "echo kept > \"$SANDBOX_FILES_DIR/k.txt\"\n",
    );
    let mut agent = Agent::start_with_directory(home.path(), &["--files", "kept"]);
    let run = agent.call("run_skill_script", json!({ "skill": "files" }));
    let url = run["structuredContent"]["files"][0]["url"].as_str().expect("a URL").to_owned();
    assert!(agent.close().success());
    let path = url::Url::parse(&url).expect("a URL").to_file_path().expect("a path");
    assert_eq!(std::fs::read_to_string(path).expect("a file"), "kept\n");
}

#[test]
fn cancelled_runs_and_runs_of_a_disconnected_agent_leave_no_process() {
    let home = tempfile::tempdir().expect("a directory");
    write_skill(&home.path().join("skills/endless"), "endless", "main.sh", &endless());
    let mut agent = Agent::start_with_directory(home.path(), &[]);
    agent.start_run("endless");
    // It says so before its children have become what they are to be.
    assert!(until_marked(true), "it runs");
    let params = json!({ "requestId": agent.last_id });
    agent.send(&json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params }));
    assert!(until_marked(false), "it was cancelled");
    agent.start_run("endless");
    assert!(until_marked(true), "it runs again");
    assert!(agent.close().success());
    assert!(!marked(), "it is dead before the program ends");
}

#[test]
fn the_skills_of_a_server_have_the_same_tools() {
    let server = Server::start();
    server.push(
        "files",
        "main.sh",
        "echo hello > \"$SANDBOX_FILES_DIR/h.txt\"; echo '{}' > \"$SANDBOX_OUTPUT\"\n",
    );
    server.push("endless", "main.sh", "echo began; sleep 600\n");
    let connect = |key: &str| {
        let mut command = clean_command(server.home());
        command
            .env("SKILLBOX_SERVER_URL", &server.url)
            .env("SKILLBOX_API_KEY", key)
            .args(["mcp", "--skill-tools"]);
        Agent::start(command)
    };
    let mut agent = connect(&server.key);
    let tools = agent.request("tools/list", json!({}));
    let named = |tool: &Value| tool["name"] == "skillbox_files";
    assert!(tools["result"]["tools"].as_array().expect("tools").iter().any(named), "{tools}");
    let loaded = agent.call("load_skill", json!({ "skill": "files" }));
    assert_eq!(loaded["structuredContent"]["files"][0]["path"], "SKILL.md", "{loaded}");
    let run = agent.call("skillbox_files", json!({}));
    let uri = run["content"][1]["uri"].as_str().unwrap_or_else(|| panic!("{run}")).to_owned();
    let read = agent.request("resources/read", json!({ "uri": uri }));
    assert_eq!(read["result"]["contents"][0]["text"], "hello\n", "{read}");

    agent.start_run("endless");
    assert!(agent.close().success());
    let runs = server.json(&["exec", "list", "--skill", "endless"]);
    assert_eq!(runs[0]["status"], "cancelled", "{runs}");

    let refused = connect("sk-wrong").call("list_skills", json!({}));
    assert!(
        refused["isError"] == true && refused.to_string().contains("SKILLBOX_API_KEY"),
        "{refused}"
    );
}
