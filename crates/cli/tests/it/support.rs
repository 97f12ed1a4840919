//! Runs the binary in a clean environment, and a separate server for each test.

mod server;

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

pub(crate) use server::Server;

/// The search path for interpreters, the only value taken from the environment of the tests.
#[expect(clippy::disallowed_methods, reason = "a test harness has no configuration")]
fn path() -> String {
    std::env::var("PATH").expect("a PATH")
}

/// The binary with an empty environment and its own home directory.
pub(crate) fn clean_command(home: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_skillbox"));
    command.env_clear().env("PATH", path()).env("HOME", home).current_dir(home);
    command
}

/// The same binary, in a control group from its first instruction on.
fn clean_command_in_cgroup(group: &Path, home: &Path) -> Command {
    let mut command = Command::new("sh");
    command
        .args(["-c", "echo $$ > \"$0/cgroup.procs\" && exec \"$@\""])
        .arg(group)
        .arg(env!("CARGO_BIN_EXE_skillbox"));
    command.env_clear().env("PATH", path()).env("HOME", home).current_dir(home);
    command
}

/// `skillbox` with its own home directory.
pub(crate) fn skillbox(home: &Path) -> assert_cmd::Command {
    assert_cmd::Command::from_std(clean_command(home))
}

pub(crate) fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../examples/skills")
        .canonicalize()
        .expect("the examples")
}

/// The output and the exit code of a command.
#[derive(Debug)]
pub(crate) struct CommandResult {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl CommandResult {
    /// The one line of JSON on standard output.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        let line = self.stdout.strip_suffix('\n').unwrap_or(&self.stdout);
        assert!(!line.contains('\n'), "JSON must be on one line: {line}");
        serde_json::from_str(line)
            .unwrap_or_else(|error| panic!("{error}: {line}\n{}", self.stderr))
    }

    #[track_caller]
    pub(crate) fn ok(self) -> Self {
        assert_eq!(self.code, Some(0), "stdout: {}\nstderr: {}", self.stdout, self.stderr);
        self
    }

    #[track_caller]
    pub(crate) fn failed(self, code: i32) -> Self {
        assert_eq!(self.code, Some(code), "stdout: {}\nstderr: {}", self.stdout, self.stderr);
        self
    }
}

pub(crate) fn run_command(mut command: assert_cmd::Command) -> CommandResult {
    let output = command.output().expect("the command runs");
    CommandResult {
        code: output.status.code(),
        stdout: String::from_utf8(output.stdout).expect("UTF-8"),
        stderr: String::from_utf8(output.stderr).expect("UTF-8"),
    }
}

pub(crate) fn write_skill(directory: &Path, name: &str, script: &str, text: &str) {
    write_skill_with("", directory, name, script, text);
}

/// Writes a skill with additional lines of frontmatter.
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
