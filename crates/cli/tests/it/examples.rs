//! Runs every example skill through the API, with its own test cases in `tests/*.json`.

use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::support::{Server, examples};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    /// The body of `POST /v1/executions` without `skill`.
    request: Map<String, Value>,
    expect: Expect,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Expect {
    status: String,
    outcome: Option<String>,
    /// A subset of the output; arrays are compared whole.
    output: Option<Value>,
    /// The exact names, sorted.
    files: Option<Vec<String>>,
    logs_contains: Option<String>,
}

#[tokio::test(flavor = "multi_thread")]
async fn every_case_of_every_example_passes() {
    assert_every_case(&Server::start()).await;
}

/// Runs all cases on an existing server.
pub(crate) async fn assert_every_case(server: &Server) {
    let http = reqwest::Client::new();
    let mut wrong = Vec::new();
    for skill in sorted(&examples()).into_iter().filter(|path| path.join("SKILL.md").is_file()) {
        let name = skill.file_name().expect("a name").to_string_lossy().into_owned();
        server.run(&["skill", "push", &skill.display().to_string()]).ok();
        let cases = sorted(&skill.join("tests"));
        assert!(!cases.is_empty(), "{name} has no test case");
        for path in cases {
            let text = std::fs::read_to_string(&path).expect("a case");
            let Case { mut request, expect } = serde_json::from_str(&text)
                .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            request.insert("skill".into(), name.clone().into());
            let answer = http
                .post(format!("{}/v1/executions", server.url))
                .bearer_auth(&server.key)
                .json(&request);
            let answer = answer.send().await.expect("an answer");
            let status = answer.status();
            let answer: Value = answer.json().await.expect("JSON");
            let mut found = differences(&expect, &answer);
            if status != 200 {
                found.push(format!("HTTP {status}"));
            }
            if !found.is_empty() {
                wrong.push(format!(
                    "{name}/{}: {}\n  {answer}",
                    path.file_name().expect("a name").display(),
                    found.join("; ")
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn sorted(directory: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(directory)
        .unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    let mut paths: Vec<_> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    paths
}

/// The differences between a response and the expectation of a case.
fn differences(expect: &Expect, answer: &Value) -> Vec<String> {
    let mut found = Vec::new();
    if answer["status"] != *expect.status {
        found.push(format!("status is {}", answer["status"]));
    }
    if expect.outcome.as_ref().is_some_and(|outcome| answer["outcome"] != **outcome) {
        found.push(format!("outcome is {}", answer["outcome"]));
    }
    if expect.output.as_ref().is_some_and(|output| !contains(&answer["output"], output)) {
        found.push(format!("output is {}", answer["output"]));
    }
    let files: Vec<&str> =
        answer["files_list"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    if expect.files.as_ref().is_some_and(|expected| *expected != files) {
        found.push(format!("files are {files:?}"));
    }
    let logs = answer["logs"].as_str().unwrap_or_default();
    if expect.logs_contains.as_ref().is_some_and(|words| !logs.contains(words)) {
        found.push(format!("logs are {logs:?}"));
    }
    found
}

/// Whether every key of `part` is in `whole` with the same value; arrays and scalars must be equal.
fn contains(whole: &Value, part: &Value) -> bool {
    match (whole, part) {
        (Value::Object(whole), Value::Object(part)) => part
            .iter()
            .all(|(key, value)| whole.get(key).is_some_and(|found| contains(found, value))),
        _ => whole == part,
    }
}

#[test]
fn the_comparison_can_fail() {
    let answer = serde_json::json!({"status": "success", "outcome": "exited", "output": {"a": {"b": 1, "c": 2}, "d": [1]}, "files_list": ["x"], "logs": "hi"});
    let expect = |text: &str| -> Expect { serde_json::from_str(text).expect("an expectation") };
    let right = expect(
        r#"{"status":"success","outcome":"exited","output":{"a":{"b":1},"d":[1]},"files":["x"],"logs_contains":"h"}"#,
    );
    assert_eq!(differences(&right, &answer), Vec::<String>::new());
    let wrong = expect(
        r#"{"status":"failed","outcome":"refused","output":{"a":{"b":2}},"files":[],"logs_contains":"z"}"#,
    );
    assert_eq!(differences(&wrong, &answer).len(), 5);
    assert_eq!(
        differences(&expect(r#"{"status":"success","output":{"d":[1,2]}}"#), &answer).len(),
        1
    );
}
