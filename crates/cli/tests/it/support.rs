//! The binary without the surroundings of the person who runs the tests, and a server of its own
//! for each test.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde::Deserialize;
use serde_json::Value;
use tempfile::TempDir;

/// The search path for interpreters is the only thing taken from outside.
#[expect(
    clippy::disallowed_methods,
    reason = "a test harness has no configuration to take it from"
)]
fn path() -> String {
    std::env::var("PATH").expect("a PATH")
}

pub fn clean(home: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_skillbox"));
    command.env_clear().env("PATH", path()).env("HOME", home).current_dir(home);
    command
}

/// The same in a control group from its first instruction on.
fn clean_within(group: &Path, home: &Path) -> Command {
    let mut command = Command::new("sh");
    command
        .args(["-c", "echo $$ > \"$0/cgroup.procs\" && exec \"$@\""])
        .arg(group)
        .arg(env!("CARGO_BIN_EXE_skillbox"));
    command.env_clear().env("PATH", path()).env("HOME", home).current_dir(home);
    command
}

/// `skillbox` in a directory of its own.
pub fn skillbox(home: &Path) -> assert_cmd::Command {
    assert_cmd::Command::from_std(clean(home))
}

pub fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../examples/skills")
        .canonicalize()
        .expect("the examples")
}

/// What a command printed and how it ended.
#[derive(Debug)]
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
        serde_json::from_str(line)
            .unwrap_or_else(|error| panic!("{error}: {line}\n{}", self.stderr))
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

/// A `skillbox serve` of its own. Dropped, it is told to drain, and must do so.
pub struct Server {
    pub url: String,
    pub key: String,
    home: TempDir,
    settings: Vec<(String, String)>,
    /// The control group that it is started in.
    group: Option<PathBuf>,
    /// None after its end.
    child: Option<Child>,
}

/// The line `serve -o json` prints when it is ready.
#[derive(Deserialize)]
struct Ready {
    url: String,
    first_key: Option<String>,
}

impl Server {
    pub fn start() -> Self {
        Self::with(&[])
    }

    /// A server with these variables in its environment.
    pub fn with(settings: &[(&str, &str)]) -> Self {
        let mut server = Self::prepared(settings);
        server.key = server.start_again().expect("a first key");
        server
    }

    /// One in a control group from its first instruction on, where there is such a group.
    pub fn within(group: Option<&Path>, settings: &[(&str, &str)]) -> Self {
        let mut server = Self::prepared(settings);
        server.group = group.map(Path::to_owned);
        server.key = server.start_again().expect("a first key");
        server
    }

    /// One that was told its first key.
    pub fn with_key(key: &str, settings: &[(&str, &str)]) -> Self {
        let mut server = Self::prepared(settings);
        server.key = key.to_owned();
        assert_eq!(server.start_again(), None, "it needs no other key");
        server
    }

    /// One that was not started yet.
    pub fn prepared(settings: &[(&str, &str)]) -> Self {
        let home = tempfile::tempdir().expect("a directory");
        std::fs::create_dir(home.path().join("tmp")).expect("a directory");
        let settings = settings
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        Self { url: String::new(), key: String::new(), home, settings, group: None, child: None }
    }

    /// Starts it on what its earlier life left, and gives back the key, if this start made one.
    pub fn start_again(&mut self) -> Option<String> {
        self.begin_to_start();
        self.ready()
    }

    /// Waits until it is ready, and gives back the key, if this start made one.
    pub fn ready(&mut self) -> Option<String> {
        let stdout = self.child.as_mut().and_then(|child| child.stdout.take()).expect("a pipe");
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line).expect("a line");
        let Ok(Ready { url, first_key }) = serde_json::from_str(&line) else {
            panic!("the server did not become ready: {line}\n{}", self.log());
        };
        self.url = url;
        first_key
    }

    /// Starts it without waiting until it is ready.
    pub fn begin_to_start(&mut self) {
        assert!(self.child.is_none(), "it runs already");
        let log = File::options()
            .create(true)
            .append(true)
            .open(self.home().join("server.log"))
            .expect("a log");
        let mut command = match &self.group {
            Some(group) => clean_within(group, self.home()),
            None => clean(self.home()),
        };
        command
            .args(["-o", "json", "serve", "--api-port", "0"])
            .envs(self.settings.iter().map(|(name, value)| (name, value)))
            // What it leaves in there can be seen.
            .env("TMPDIR", self.temporary())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log);
        self.child = Some(command.spawn().expect("the server starts"));
    }

    pub fn pid(&self) -> u32 {
        self.child.as_ref().expect("it runs").id()
    }

    /// `kill -9`.
    pub fn kill(&mut self) {
        let mut child = self.child.take().expect("it runs");
        child.kill().expect("it is ours to kill");
        child.wait().expect("it ends");
    }

    /// SIGTERM, which it answers by draining.
    pub fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    pub fn signal(&self, signal: Signal) {
        let pid = Pid::from_child(self.child.as_ref().expect("it runs"));
        kill_process(pid, signal).expect("it is ours");
    }

    /// Whether it ended by itself.
    pub fn has_ended(&mut self) -> bool {
        let ended =
            self.child.as_mut().is_none_or(|child| child.try_wait().expect("it is ours").is_some());
        if ended {
            self.child = None;
        }
        ended
    }

    /// Waits for the end that it was asked for.
    pub fn wait(&mut self) -> ExitStatus {
        self.child.take().expect("it runs").wait().expect("it ends")
    }

    /// Everything it said in all its lives.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.home().join("server.log")).unwrap_or_default()
    }

    pub fn home(&self) -> &Path {
        self.home.path()
    }

    /// Where it keeps its state.
    pub fn data(&self) -> PathBuf {
        self.home().join(".local/share/skillbox")
    }

    /// Where it would put temporary files.
    pub fn temporary(&self) -> PathBuf {
        self.home().join("tmp")
    }

    /// A command against this server. The key comes from the file in the data directory, as for a
    /// person.
    pub fn command(&self, args: &[&str]) -> assert_cmd::Command {
        let mut command = skillbox(self.home());
        command.env("SKILLBOX_SERVER_URL", &self.url).args(args);
        // One that was told its key keeps no file of it.
        if !self.data().join("key").exists() {
            command.env("SKILLBOX_API_KEY", &self.key);
        }
        command
    }

    /// The same, left running, with a pipe for what it says.
    pub fn spawn(&self, args: &[&str]) -> Child {
        let mut command = clean(self.home());
        command.env("SKILLBOX_SERVER_URL", &self.url).args(args);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the command starts")
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
        self.push_with("", name, script, text);
    }

    /// The same, of a skill that may run again.
    #[track_caller]
    pub fn push_idempotent(&self, name: &str, script: &str, text: &str) {
        self.push_with("idempotent: true\n", name, script, text);
    }

    #[track_caller]
    fn push_with(&self, fields: &str, name: &str, script: &str, text: &str) {
        let directory = self.home().join(name);
        write_skill_with(fields, &directory, name, script, text);
        self.run(&["skill", "push", &directory.display().to_string()]).ok();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if self.child.is_none() {
            return;
        }
        // Also after a failed test: a server that drains takes its sandboxes with it.
        self.terminate();
        let status = self.wait();
        if !std::thread::panicking() {
            assert!(status.success(), "the server did not drain: {status}\n{}", self.log());
        }
    }
}

pub fn write_skill(directory: &Path, name: &str, script: &str, text: &str) {
    write_skill_with("", directory, name, script, text);
}

/// The same with further lines of frontmatter.
fn write_skill_with(fields: &str, directory: &Path, name: &str, script: &str, text: &str) {
    std::fs::create_dir_all(directory).expect("a directory");
    let manifest = format!(
        "---\nname: {name}\ndescription: A skill made by a test.\nversion: 1.0.0\n{fields}---\n# {name}\n"
    );
    std::fs::write(directory.join("SKILL.md"), manifest).expect("a manifest");
    let script = directory.join(script);
    std::fs::create_dir_all(script.parent().expect("a parent")).expect("a directory");
    std::fs::write(script, text).expect("a script");
}
