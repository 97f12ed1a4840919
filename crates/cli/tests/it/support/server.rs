//! A `skillbox serve` process with its own home directory.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde::Deserialize;
use serde_json::Value;
use tempfile::TempDir;

use super::{
    CommandResult, clean_command, clean_command_in_cgroup, run_command, skillbox, write_skill_with,
};

/// A running server. Dropping it sends SIGTERM, and it must drain successfully.
pub(crate) struct Server {
    pub url: String,
    pub key: String,
    home: TempDir,
    settings: Vec<(String, String)>,
    /// The control group that it is started in.
    group: Option<PathBuf>,
    /// `None` before the start and after the end.
    child: Option<Child>,
}

/// The line that `serve -o json` prints when it is ready.
#[derive(Deserialize)]
struct ReadyLine {
    url: String,
    first_key: Option<String>,
}

impl Server {
    pub(crate) fn start() -> Self {
        Self::start_with(&[])
    }

    /// Starts a server with these variables in its environment.
    pub(crate) fn start_with(settings: &[(&str, &str)]) -> Self {
        let mut server = Self::stopped(settings);
        server.key = server.restart().expect("a first key");
        server
    }

    /// Starts a server in a control group, if there is one.
    pub(crate) fn start_in_cgroup(group: Option<&Path>, settings: &[(&str, &str)]) -> Self {
        let mut server = Self::stopped(settings);
        server.group = group.map(Path::to_owned);
        server.key = server.restart().expect("a first key");
        server
    }

    /// Starts a server with a configured first key.
    pub(crate) fn start_with_key(key: &str, settings: &[(&str, &str)]) -> Self {
        let mut server = Self::stopped(settings);
        server.key = key.to_owned();
        assert_eq!(server.restart(), None, "a configured key must not be replaced");
        server
    }

    /// A server that was not started yet.
    pub(crate) fn stopped(settings: &[(&str, &str)]) -> Self {
        let home = tempfile::tempdir().expect("a directory");
        std::fs::create_dir(home.path().join("tmp")).expect("a directory");
        let settings = settings
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        Self { url: String::new(), key: String::new(), home, settings, group: None, child: None }
    }

    /// Starts the server with its existing data, and returns the first key if this start created one.
    pub(crate) fn restart(&mut self) -> Option<String> {
        self.spawn_process();
        self.wait_until_ready()
    }

    /// Waits until the server is ready, and returns the first key if this start created one.
    pub(crate) fn wait_until_ready(&mut self) -> Option<String> {
        let stdout = self.child.as_mut().and_then(|child| child.stdout.take()).expect("a pipe");
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line).expect("a line");
        let Ok(ReadyLine { url, first_key }) = serde_json::from_str(&line) else {
            panic!("the server did not become ready: {line}\n{}", self.log());
        };
        self.url = url;
        first_key
    }

    /// Starts the process without waiting for its readiness.
    pub(crate) fn spawn_process(&mut self) {
        assert!(self.child.is_none(), "the server is already running");
        let log = File::options()
            .create(true)
            .append(true)
            .open(self.home().join("server.log"))
            .expect("a log");
        let mut command = match &self.group {
            Some(group) => clean_command_in_cgroup(group, self.home()),
            None => clean_command(self.home()),
        };
        command
            .args(["-o", "json", "serve", "--api-port", "0"])
            .envs(self.settings.iter().map(|(name, value)| (name, value)))
            // A private directory, so that a test can check that nothing is left in it.
            .env("TMPDIR", self.temp_dir())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log);
        self.child = Some(command.spawn().expect("the server starts"));
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.as_ref().expect("a running server").id()
    }

    /// `kill -9`.
    pub(crate) fn kill(&mut self) {
        let mut child = self.child.take().expect("a running server");
        child.kill().expect("a process of this test");
        child.wait().expect("an exit status");
    }

    /// Sends SIGTERM, which makes the server drain.
    pub(crate) fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = Pid::from_child(self.child.as_ref().expect("a running server"));
        kill_process(pid, signal).expect("a process of this test");
    }

    /// Whether the process has ended.
    pub(crate) fn has_ended(&mut self) -> bool {
        let ended = self
            .child
            .as_mut()
            .is_none_or(|child| child.try_wait().expect("a process of this test").is_some());
        if ended {
            self.child = None;
        }
        ended
    }

    /// Waits until the process ends.
    pub(crate) fn wait(&mut self) -> ExitStatus {
        self.child.take().expect("a running server").wait().expect("an exit status")
    }

    /// The log of all starts of this server.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.home().join("server.log")).unwrap_or_default()
    }

    pub(crate) fn home(&self) -> &Path {
        self.home.path()
    }

    /// The data directory.
    pub(crate) fn data_dir(&self) -> PathBuf {
        self.home().join(".local/share/skillbox")
    }

    /// The directory for temporary files.
    pub(crate) fn temp_dir(&self) -> PathBuf {
        self.home().join("tmp")
    }

    /// A command against this server. The key comes from the file in the data directory, as for a user.
    pub(crate) fn command(&self, args: &[&str]) -> assert_cmd::Command {
        let mut command = skillbox(self.home());
        command.env("SKILLBOX_SERVER_URL", &self.url).args(args);
        // A server with a configured key does not store it in a file.
        if !self.data_dir().join("key").exists() {
            command.env("SKILLBOX_API_KEY", &self.key);
        }
        command
    }

    /// Starts a command against this server in the background, with a pipe for standard error.
    pub(crate) fn spawn_command(&self, args: &[&str]) -> Child {
        let mut command = clean_command(self.home());
        command.env("SKILLBOX_SERVER_URL", &self.url).args(args);
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the command starts")
    }

    pub(crate) fn run(&self, args: &[&str]) -> CommandResult {
        run_command(self.command(args))
    }

    /// Runs a command with `-o json`, which must succeed.
    #[track_caller]
    pub(crate) fn json(&self, args: &[&str]) -> Value {
        run_command({
            let mut command = self.command(args);
            command.args(["-o", "json"]);
            command
        })
        .ok()
        .json()
    }

    /// Creates a skill with one script and publishes it.
    #[track_caller]
    pub(crate) fn push(&self, name: &str, script: &str, text: &str) {
        self.push_with("", name, script, text);
    }

    /// Creates and publishes an idempotent skill.
    #[track_caller]
    pub(crate) fn push_idempotent(&self, name: &str, script: &str, text: &str) {
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
        // Also after a failed test, because a drained server leaves no sandboxes.
        self.terminate();
        let status = self.wait();
        if !std::thread::panicking() {
            assert!(status.success(), "the server did not drain: {status}\n{}", self.log());
        }
    }
}
