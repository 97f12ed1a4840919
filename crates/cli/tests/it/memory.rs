//! What a skill can write costs the server no memory to speak of, however much it is.

use serde_json::{Value, json};

use crate::api::{Api, text};
use crate::support::Server;

/// By how much the server's peak may grow over its peak after ordinary work.
const ROOM: u64 = 64 << 20;

/// An ordinary run, with something of everything.
const ORDINARY: &str = r#"
import json, os
print("a line")
json.dump("an output", open(os.environ["SANDBOX_OUTPUT"], "w"))
open(os.environ["SANDBOX_FILES_DIR"] + "file", "w").write("a file")
"#;

/// Writes ten gigabytes to its standard output, and says so if it gets that far.
const FLOOD: &str = r#"
import json, os
block = bytes(range(256)) * 4096
for _ in range(10 << 10):
    os.write(1, block)
json.dump("all of it", open(os.environ["SANDBOX_OUTPUT"], "w"))
"#;

/// Makes an output document of a gigabyte without writing it.
const SPARSE: &str = r#"
import os
with open(os.environ["SANDBOX_OUTPUT"], "w") as file:
    os.ftruncate(file.fileno(), 1 << 30)
print(os.stat(os.environ["SANDBOX_OUTPUT"]).st_size)
"#;

/// Writes files until there is no room for more.
const HOARDER: &str = r#"
import itertools, os
for number in itertools.count():
    with open(f"{os.environ['SANDBOX_FILES_DIR']}{number}", "wb") as file:
        file.write(bytes(4 << 20))
"#;

#[tokio::test(flavor = "multi_thread")]
async fn floods_cost_bounded_memory_and_are_named() {
    // A file may be as long as half of the memory, so the one of a gigabyte needs more than two.
    let server = Server::with(&[
        ("SKILLBOX_MAX_CONCURRENT_EXECS", "4"),
        ("SKILLBOX_DEFAULT_MEMORY", "3Gi"),
        ("SKILLBOX_MAX_MEMORY", "3Gi"),
    ]);
    for (name, script) in
        [("ordinary", ORDINARY), ("flood", FLOOD), ("sparse", SPARSE), ("hoarder", HOARDER)]
    {
        server.push(name, "main.py", script);
    }
    let api = Api::of(&server);
    for _ in 0..5 {
        at_once(&api, &["ordinary"; 3]).await.iter().for_each(|run| judge("ordinary", run));
    }
    let before = peak_memory(server.pid());

    let skills = ["flood", "sparse", "hoarder"];
    for skill in skills {
        judge(skill, &at_once(&api, &[skill]).await[0]);
    }
    for (skill, run) in skills.iter().zip(at_once(&api, &skills).await) {
        judge(skill, &run);
    }
    // The kernel counts in batches, so a peak may seem to sink a little.
    let grown = peak_memory(server.pid()).saturating_sub(before);
    println!("the server's peak of {} KiB grew by {} KiB", before >> 10, grown >> 10);
    assert!(grown < ROOM, "the server's memory grew by {} KiB", grown >> 10);
    judge("ordinary", &at_once(&api, &["ordinary"]).await[0]);
}

/// Runs these skills side by side.
async fn at_once(api: &Api, skills: &[&str]) -> Vec<Value> {
    let runs: Vec<_> = skills
        .iter()
        .map(|skill| {
            let memory = if *skill == "sparse" { "3Gi" } else { "256Mi" };
            let timeout = if *skill == "flood" { "5s" } else { "120s" };
            let body =
                json!({ "skill": skill, "timeout": timeout, "limits": { "memory": memory } });
            let api = api.clone();
            tokio::spawn(async move { api.run(&body, None).await })
        })
        .collect();
    let mut results = Vec::new();
    for run in runs {
        let answer = run.await.expect("no panic").expect("an answer");
        assert_eq!(answer.status, 200, "{}", answer.body);
        results.push(answer.body);
    }
    results
}

/// Every end is named as what it was.
fn judge(skill: &str, run: &Value) {
    let end = (run["status"].as_str(), run["outcome"].as_str());
    let logs = run["logs"].as_str().unwrap_or_default();
    match skill {
        "ordinary" => assert_eq!(end, (Some("success"), Some("exited"))),
        "flood" => {
            // A machine that takes ten gigabytes in five seconds is no reason to fail.
            let finished = run["output"] == "all of it";
            let expected = if finished { ("success", "exited") } else { ("timeout", "timed_out") };
            assert_eq!(end, (Some(expected.0), Some(expected.1)));
            assert!(
                logs.ends_with("\n[logs truncated]\n"),
                "{}",
                &logs[logs.len().saturating_sub(100)..]
            );
            assert!(
                logs.len() > 1 << 20 && logs.len() < (1 << 20) + 100,
                "{} bytes of logs",
                logs.len()
            );
        }
        "sparse" => {
            assert_eq!(text(&run["logs"]), "1073741824\n");
            assert_eq!(end, (Some("failed"), Some("output_too_large")));
            assert_eq!(run["output"], Value::Null);
        }
        "hoarder" => {
            assert_eq!(end, (Some("failed"), Some("disk_full")), "{run}");
            // What fits under the cap is kept, and what does not is told.
            let kept: u64 = run["files"]
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(|f| f["size_bytes"].as_u64())
                .sum();
            assert!(kept > 90 << 20 && kept <= 104_857_600, "{kept} bytes of files");
            assert!(run["skipped"].as_array().is_some_and(|skipped| !skipped.is_empty()), "{run}");
        }
        _ => panic!("{skill} is not judged"),
    }
}

/// The most memory the process ever had, in bytes.
pub fn peak_memory(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("a living process");
    let peak = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB")?.parse().ok());
    peak.map(|kib: u64| kib << 10).expect("a peak")
}
