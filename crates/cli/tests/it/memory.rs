//! The memory of the server does not grow with the amount of data that a skill writes.

use serde_json::{Value, json};

use crate::api::{Api, text};
use crate::support::Server;

/// How much the server's peak may grow over its peak after ordinary runs.
const MAX_GROWTH: u64 = 64 << 20;

/// An ordinary run, with something of everything.
const ORDINARY: &str = r#"
import json, os
print("a line")
json.dump("an output", open(os.environ["SANDBOX_OUTPUT"], "w"))
open(os.environ["SANDBOX_FILES_DIR"] + "file", "w").write("a file")
"#;

/// Writes ten gigabytes to standard output, and an output document if it completes.
const FLOOD: &str = r#"
import json, os
block = bytes(range(256)) * 4096
for _ in range(10 << 10):
    os.write(1, block)
json.dump("all of it", open(os.environ["SANDBOX_OUTPUT"], "w"))
"#;

/// Creates a sparse output document of one gigabyte.
const SPARSE: &str = r#"
import os
with open(os.environ["SANDBOX_OUTPUT"], "w") as file:
    os.ftruncate(file.fileno(), 1 << 30)
print(os.stat(os.environ["SANDBOX_OUTPUT"]).st_size)
"#;

/// Writes files until the disk is full.
const DISK_FILLER: &str = r#"
import itertools, os
for number in itertools.count():
    with open(f"{os.environ['SANDBOX_FILES_DIR']}{number}", "wb") as file:
        file.write(bytes(4 << 20))
"#;

#[tokio::test(flavor = "multi_thread")]
async fn large_output_uses_bounded_memory_and_has_the_right_outcome() {
    // A file may use half of the memory, so the file of one gigabyte needs more than two.
    let server = Server::start_with(&[
        ("SKILLBOX_MAX_CONCURRENT_EXECS", "4"),
        ("SKILLBOX_DEFAULT_MEMORY", "3Gi"),
        ("SKILLBOX_MAX_MEMORY", "3Gi"),
    ]);
    for (name, script) in
        [("ordinary", ORDINARY), ("flood", FLOOD), ("sparse", SPARSE), ("disk-filler", DISK_FILLER)]
    {
        server.push(name, "main.py", script);
    }
    let api = Api::for_server(&server);
    for _ in 0..5 {
        run_concurrently(&api, &["ordinary"; 3])
            .await
            .iter()
            .for_each(|run| assert_outcome("ordinary", run));
    }
    let before = peak_memory(server.pid());

    let skills = ["flood", "sparse", "disk-filler"];
    for skill in skills {
        assert_outcome(skill, &run_concurrently(&api, &[skill]).await[0]);
    }
    for (skill, run) in skills.iter().zip(run_concurrently(&api, &skills).await) {
        assert_outcome(skill, &run);
    }
    // The kernel counts in batches, so a peak may seem to decrease a little.
    let grown = peak_memory(server.pid()).saturating_sub(before);
    println!("the server's peak of {} KiB grew by {} KiB", before >> 10, grown >> 10);
    assert!(grown < MAX_GROWTH, "the server's memory grew by {} KiB", grown >> 10);
    assert_outcome("ordinary", &run_concurrently(&api, &["ordinary"]).await[0]);
}

/// Runs these skills concurrently.
async fn run_concurrently(api: &Api, skills: &[&str]) -> Vec<Value> {
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

/// Checks that the outcome names the limit that was reached.
fn assert_outcome(skill: &str, run: &Value) {
    let end = (run["status"].as_str(), run["outcome"].as_str());
    let logs = run["logs"].as_str().unwrap_or_default();
    match skill {
        "ordinary" => assert_eq!(end, (Some("success"), Some("exited"))),
        "flood" => {
            // A fast machine may write all ten gigabytes within the timeout.
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
        "disk-filler" => {
            assert_eq!(end, (Some("failed"), Some("disk_full")), "{run}");
            // Files within the limit are collected, and the others are reported as skipped.
            let kept: u64 = run["files"]
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(|f| f["size_bytes"].as_u64())
                .sum();
            assert!(kept > 90 << 20 && kept <= 104_857_600, "{kept} bytes of files");
            assert!(run["skipped"].as_array().is_some_and(|skipped| !skipped.is_empty()), "{run}");
        }
        _ => panic!("no expected outcome for {skill}"),
    }
}

/// The peak memory of the process, in bytes.
pub(crate) fn peak_memory(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("a running process");
    let peak = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB")?.parse().ok());
    peak.map(|kib: u64| kib << 10).expect("a peak")
}
