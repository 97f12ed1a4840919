//! Scripts that were written for other tools, unchanged. Each runs from its directory and through the
//! API, and must have the result in `fixtures/scripts/cases.json` both times.

use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::support::{Server, run_command, skillbox};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    name: String,
    skill: String,
    script: String,
    #[serde(default)]
    args: Vec<String>,
    stdin: Option<String>,
    cwd: Option<String>,
    #[serde(default)]
    code: i64,
    /// Both streams are compared where the table has them.
    stdout: Option<String>,
    stderr: Option<String>,
    stderr_contains: Option<String>,
    #[serde(default)]
    files: Vec<String>,
}

/// The result of a run as the caller receives it.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    code: i64,
    status: String,
    stdout: String,
    stderr: String,
    files: Vec<String>,
}

impl Case {
    fn differs(&self, seen: &Seen) -> bool {
        let told = |expected: &Option<String>, seen: &str| {
            expected.as_ref().is_none_or(|expected| expected == seen)
        };
        let contains =
            self.stderr_contains.as_ref().is_none_or(|words| seen.stderr.contains(words));
        seen.code != self.code
            || (seen.status == "success") != (self.code == 0)
            || !told(&self.stdout, &seen.stdout)
            || !told(&self.stderr, &seen.stderr)
            || !contains
            || seen.files != self.files
    }

    /// Runs the case from its directory, without a server.
    fn run_locally(&self, skills: &Path, home: &Path) -> Seen {
        let mut command = skillbox(home);
        command.args(["run", "-o", "json"]).arg(skills.join(&self.skill)).arg(&self.script);
        for (flag, value) in [("--stdin", &self.stdin), ("--cwd", &self.cwd)] {
            command.args(value.iter().flat_map(|value| [flag, value]));
        }
        let result = run_command({
            command.arg("--").args(&self.args);
            command
        });
        let document = result.json();
        let seen = Seen::of(&document, |file| &file["name"]);
        assert_eq!(
            result.code.map(i64::from),
            Some(seen.code),
            "{}: the code is the script's own",
            self.name
        );
        seen
    }

    /// Runs the case through the API.
    async fn run_on_server(&self, server: &Server, http: &reqwest::Client) -> Seen {
        let mut body = Map::from_iter([
            ("skill".to_owned(), json!(self.skill)),
            ("script".to_owned(), json!(self.script)),
            ("args".to_owned(), json!(self.args)),
        ]);
        for (key, value) in [("stdin", &self.stdin), ("cwd", &self.cwd)] {
            body.extend(value.iter().map(|value| (key.to_owned(), json!(value))));
        }
        let request =
            http.post(format!("{}/v1/executions", server.url)).bearer_auth(&server.key).json(&body);
        let answer: Value = request.send().await.expect("an answer").json().await.expect("JSON");
        Seen::of(&answer, |file| &file["name"])
    }
}

impl Seen {
    fn of(document: &Value, name: impl Fn(&Value) -> &Value) -> Seen {
        let text = |value: &Value| {
            value.as_str().map(str::to_owned).unwrap_or_else(|| format!("not text: {document}"))
        };
        let mut files: Vec<String> = document["files"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|file| text(name(file)))
            .collect();
        files.sort();
        Seen {
            code: document["exit_code"].as_i64().unwrap_or(-1),
            status: text(&document["status"]),
            stdout: text(&document["stdout"]),
            stderr: text(&document["stderr"]),
            files,
        }
    }
}

fn skills() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/scripts")
}

/// The cases, with `{unique}` replaced by an argument that no other process on the machine has.
fn cases(unique: &str) -> Vec<Case> {
    let text = std::fs::read_to_string(skills().join("cases.json")).expect("the table");
    serde_json::from_str(&text.replace("{unique}", unique)).expect("a table")
}

/// The processes with this argument.
fn running(word: &str) -> Vec<String> {
    let entries = std::fs::read_dir("/proc").expect("the processes").flatten();
    let lines =
        entries.filter_map(|entry| std::fs::read_to_string(entry.path().join("cmdline")).ok());
    lines.filter(|line| line.split('\0').any(|argument| argument == word)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_script_has_the_same_result_locally_and_through_the_api() {
    let unique = format!("36000.{}", std::process::id());
    let cases = cases(&unique);
    let scripts: std::collections::BTreeSet<_> =
        cases.iter().map(|case| (&case.skill, &case.script)).collect();
    assert!(scripts.len() >= 20, "{} scripts", scripts.len());

    let (server, http) = (Server::start(), reqwest::Client::new());
    for skill in scripts.iter().map(|(skill, _)| *skill).collect::<std::collections::BTreeSet<_>>()
    {
        server.run(&["skill", "push", &skills().join(skill).display().to_string()]).ok();
    }
    let home = tempfile::tempdir().expect("a directory");
    let mut wrong = Vec::new();
    for case in &cases {
        let here = case.run_locally(&skills(), home.path());
        let there = case.run_on_server(&server, &http).await;
        if case.differs(&here) || here != there {
            wrong.push(format!("{}\n  here:  {here:?}\n  there: {there:?}", case.name));
        }
        assert_eq!(running(&unique), Vec::<String>::new(), "left behind by {}", case.name);
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_difference_is_detected() {
    let case = &cases("1")[0];
    let seen = |stdout: &str, code, files: &[&str]| Seen {
        code,
        status: if code == 0 { "success" } else { "failed" }.to_owned(),
        stdout: stdout.to_owned(),
        stderr: String::new(),
        files: files.iter().map(|file| (*file).to_owned()).collect(),
    };
    let stdout = case.stdout.clone().expect("the first has one");
    assert!(!case.differs(&seen(&stdout, 0, &[])));
    assert!(case.differs(&seen("", 0, &[])) && case.differs(&seen(&stdout, 1, &[])));
    assert!(case.differs(&seen(&stdout, 0, &["more"])));
}
