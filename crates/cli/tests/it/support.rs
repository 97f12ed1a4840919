//! The binary without the surroundings of the person who runs the tests, and a server of its own for each test.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde::Deserialize;
use serde_json::Value;
use tempfile::TempDir;

/// The search path for interpreters is the only thing taken from outside.
#[expect(clippy::disallowed_methods, reason = "a test harness has no configuration to take it from")]
fn path() -> String {
    std::env::var("PATH").expect("a PATH")
}

fn clean(home: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_skillbox"));
    command.env_clear().env("PATH", path()).env("HOME", home).current_dir(home);
    command
}

/// `skillbox` in a directory of its own.
pub fn skillbox(home: &Path) -> assert_cmd::Command {
    assert_cmd::Command::from_std(clean(home))
}

pub fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/skills").canonicalize().expect("the examples")
}

/// What a command printed and how it ended.
pub struct Ended {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Ended {
    /// The one line of JSON on standard output.
    #[track_caller]
    pub fn json(&self) -> Value {
        let line = self.stdout.strip_suffix('\n').unwrap_or(&self.stdout);
        assert!(!line.contains('\n'), "JSON stands on one line: {line}");
        serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}\n{}", self.stderr))
    }

    #[track_caller]
    pub fn ok(self) -> Self {
        assert_eq!(self.code, Some(0), "stdout: {}\nstderr: {}", self.stdout, self.stderr);
        self
    }

    #[track_caller]
    pub fn failed(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "stdout: {}\nstderr: {}", self.stdout, self.stderr);
        self
    }
}

pub fn ended(mut command: assert_cmd::Command) -> Ended {
    let output = command.output().expect("the command runs");
    Ended {
        code: output.status.code(),
        stdout: String::from_utf8(output.stdout).expect("UTF-8"),
        stderr: String::from_utf8(output.stderr).expect("UTF-8"),
    }
}

/// A running `skillbox serve`. Dropped, it is told to drain, and must do so.
pub struct Server {
    pub url: String,
    pub key: String,
    home: TempDir,
    child: Child,
}

/// The line `serve -o json` prints when it is ready.
#[derive(Deserialize)]
struct Ready {
    url: String,
    first_key: Option<String>,
}

impl Server {
    pub fn start() -> Self {
        let home = tempfile::tempdir().expect("a directory");
        let log = File::create(home.path().join("server.log")).expect("a log");
        let mut child = clean(home.path())
            .args(["-o", "json", "serve", "--api-port", "0"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log)
            .spawn()
            .expect("the server starts");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("a pipe")).read_line(&mut line).expect("a line");
        let Ok(Ready { url, first_key: Some(key) }) = serde_json::from_str(&line) else {
            let _ = child.wait();
            let log = std::fs::read_to_string(home.path().join("server.log")).unwrap_or_default();
            panic!("the server did not become ready: {line}\n{log}");
        };
        Self { url, key, home, child }
    }

    pub fn home(&self) -> &Path {
        self.home.path()
    }

    /// A command against this server. The key comes from the file in the data directory, as for a person.
    pub fn command(&self, args: &[&str]) -> assert_cmd::Command {
        let mut command = skillbox(self.home());
        command.env("SKILLBOX_SERVER_URL", &self.url).args(args);
        command
    }

    pub fn run(&self, args: &[&str]) -> Ended {
        ended(self.command(args))
    }

    /// The same with `-o json`, which must succeed.
    #[track_caller]
    pub fn json(&self, args: &[&str]) -> Value {
        ended({
            let mut command = self.command(args);
            command.args(["-o", "json"]);
            command
        })
        .ok()
        .json()
    }

    /// Makes a one-script skill and publishes it.
    #[track_caller]
    pub fn push(&self, name: &str, script: &str, text: &str) {
        let directory = self.home().join(name);
        write_skill(&directory, name, script, text);
        self.run(&["skill", "push", &directory.display().to_string()]).ok();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let pid = Pid::from_child(&self.child);
        let _ = kill_process(pid, Signal::TERM);
        let status = self.child.wait().expect("the server ends");
        if !std::thread::panicking() {
            let log = std::fs::read_to_string(self.home().join("server.log")).unwrap_or_default();
            assert!(status.success(), "the server did not drain: {status}\n{log}");
        }
    }
}

pub fn write_skill(directory: &Path, name: &str, script: &str, text: &str) {
    std::fs::create_dir_all(directory).expect("a directory");
    let manifest = format!("---\nname: {name}\ndescription: A skill made by a test.\nversion: 1.0.0\n---\n# {name}\n");
    std::fs::write(directory.join("SKILL.md"), manifest).expect("a manifest");
    std::fs::write(directory.join(script), text).expect("a script");
}
