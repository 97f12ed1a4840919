//! Skillbox on a real Kubernetes: pods are created with only the permissions of a worker, and with all
//! kinds of failures.
//!
//! `make test-kubernetes` starts the cluster and runs these tests. They take minutes, so `make test` runs
//! the same tests on the stand-in cluster, and lists these as not run.

mod cluster;

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::api::{Api, wait_until};
use crate::examples;
use crate::fleet::{AcceptedRun, submit, wait_for_ends};
use crate::load::ExecutionEnd;
use crate::support::Server;
use cluster::Cluster;

/// Returns its input, and leaves a file with the number in it.
const ECHO: &str = r#"
echo "$SANDBOX_INPUT" > "$SANDBOX_OUTPUT"
echo "$SANDBOX_INPUT" | tr -dc 0-9 > "${SANDBOX_FILES_DIR}note.txt"
echo >> "${SANDBOX_FILES_DIR}note.txt"
"#;

/// Prints a line when it starts, and then runs long enough for a failure to be injected.
fn nap() -> String {
    format!("echo began; sleep 10\n{ECHO}")
}

/// Waits until each script runs. A guest gets its job a little after its pod runs, and before that the
/// run would not be lost.
async fn began(api: &Api, runs: [&[AcceptedRun]; 2]) {
    for run in runs.into_iter().flatten() {
        api.wait_for_log(&run.id, "began").await;
    }
}

fn succeeded(count: usize) -> BTreeMap<String, usize> {
    BTreeMap::from([("success exited".to_owned(), count)])
}

/// Only a run that may have started and is not idempotent may be lost.
fn lost_or_succeeded(ends: &BTreeMap<String, usize>) -> bool {
    ends.keys().all(|end| matches!(end.as_str(), "success exited" | "failed lost"))
}

/// A server with an idempotent and a non-idempotent skill.
fn napping(cluster: &Cluster) -> (Server, Api) {
    let server = cluster.server(&[]);
    server.push_idempotent("again", "main.sh", &nap());
    server.push("once", "main.sh", &nap());
    server.push("echo", "main.sh", ECHO);
    let api = Api::for_server(&server);
    (server, api)
}

async fn it_works_again(cluster: &Cluster, api: &Api) {
    let runs = submit(api, "echo", 900..902).await;
    assert_eq!(wait_for_ends(api, &runs).await, succeeded(2));
    cluster.nothing_is_left().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_case_of_every_example_passes_in_pods() {
    let Some(cluster) = Cluster::here("the examples on a real Kubernetes").await else { return };
    let server = cluster.server(&[]);
    examples::assert_every_case(&server).await;
    let api = Api::for_server(&server);
    server.push("echo", "main.sh", ECHO);
    let run = api
        .run(&json!({ "skill": "echo", "input": { "number": 1 } }), None)
        .await
        .expect("an answer");
    assert_eq!(run.body["isolation"]["backend"], "kubernetes", "{}", run.body);
    cluster.nothing_is_left().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn failures_of_scripts_have_the_right_outcome() {
    let Some(cluster) = Cluster::here("outcomes on a real Kubernetes").await else { return };
    let server = cluster.server(&[]);
    server.push("code", "main.sh", "exit 7\n");
    server.push("memory", "main.py", "x = bytearray(4 << 30)\nprint(len(x))\n");
    server.push("disk", "main.sh", "head -c 3G /dev/zero > /tmp/full\n");
    server.push("forks", "main.sh", "f() { f | f & }; f; sleep 1; f\n");
    let api = Api::for_server(&server);
    for (skill, outcomes) in [
        ("code", &["exited"][..]),
        ("memory", &["out_of_memory"]),
        ("disk", &["disk_full"]),
        ("forks", &["too_many_processes", "exited"]),
    ] {
        let end = ExecutionEnd::from_json(&api.result(skill).await);
        assert!(
            end.status == "failed" && outcomes.contains(&end.outcome.as_deref().unwrap_or("none")),
            "{skill}: {end:?}"
        );
    }
    let slow = json!({ "skill": "sleeper", "timeout": "2s" });
    server.push("sleeper", "main.sh", "sleep 600\n");
    let run = api.run(&slow, None).await.expect("an answer").body;
    assert_eq!(run["outcome"], "timed_out", "{run}");
    let cancelled = submit(&api, "sleeper", 0..1).await;
    wait_until("it runs", async || (cluster.running() == 1).then_some(())).await;
    api.post(&format!("/v1/executions/{}/cancel", cancelled[0].id)).await;
    assert_eq!(
        wait_for_ends(&api, &cancelled).await.into_keys().collect::<Vec<_>>(),
        ["cancelled cancelled"]
    );
    cluster.nothing_is_left().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_of_the_api_server_loses_only_active_runs() {
    let Some(cluster) = Cluster::here("the death of a real API server").await else { return };
    let (_server, api) = napping(&cluster);
    let (idempotent, non_idempotent) =
        (submit(&api, "again", 0..2).await, submit(&api, "once", 0..2).await);
    began(&api, [&non_idempotent[..1], &idempotent[..1]]).await;
    cluster.script(&["restart", "kube-apiserver"]);
    assert_eq!(wait_for_ends(&api, &idempotent).await, succeeded(2));
    let ends = wait_for_ends(&api, &non_idempotent).await;
    assert!(lost_or_succeeded(&ends), "{ends:?}");
    it_works_again(&cluster, &api).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_node_loses_its_runs_and_requeues_idempotent_ones() {
    let Some(cluster) = Cluster::here("the loss of a real node").await else { return };
    let (_server, api) = napping(&cluster);
    let (non_idempotent, idempotent) =
        (submit(&api, "once", 0..1).await, submit(&api, "again", 0..1).await);
    began(&api, [&non_idempotent, &idempotent]).await;
    cluster.script(&["kill", "kubelet"]);
    assert_eq!(
        wait_for_ends(&api, &non_idempotent).await,
        BTreeMap::from([("failed lost".to_owned(), 1)])
    );
    cluster.script(&["start"]);
    assert_eq!(wait_for_ends(&api, &idempotent).await, succeeded(1));
    it_works_again(&cluster, &api).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn evicted_pods_lose_their_runs_and_requeue_idempotent_ones() {
    let Some(cluster) = Cluster::here("an eviction from a real node").await else { return };
    let (_server, api) = napping(&cluster);
    let (non_idempotent, idempotent) =
        (submit(&api, "once", 0..1).await, submit(&api, "again", 0..1).await);
    began(&api, [&non_idempotent, &idempotent]).await;
    cluster
        .kubectl(&["drain", "localhost", "--force", "--delete-emptydir-data", "--timeout", "60s"]);
    let ends = wait_for_ends(&api, &non_idempotent).await;
    let row: Value = api.execution(&non_idempotent[0].id).await;
    cluster.kubectl(&["uncordon", "localhost"]);
    assert_eq!(ends, BTreeMap::from([("failed lost".to_owned(), 1)]));
    assert!(row.to_string().contains("its pod was"), "{row}");
    assert_eq!(wait_for_ends(&api, &idempotent).await, succeeded(1));
    it_works_again(&cluster, &api).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_image_is_named_in_the_error() {
    let Some(cluster) = Cluster::here("a missing image on a real node").await else { return };
    let server = cluster.server(&[
        ("SKILLBOX_IMAGE_NODE", "skillbox/absent:test"),
        ("SKILLBOX_KUBE_SCHEDULE_TIMEOUT", "5s"),
    ]);
    server.push("script", "main.js", "process.exit(0)\n");
    let api = Api::for_server(&server);
    let run = api.run(&json!({ "skill": "script" }), None).await.expect("an answer").body;
    assert_eq!(run["status"], "failed", "{run}");
    assert!(run.to_string().contains("skillbox/absent:test"), "{run}");
    cluster.nothing_is_left().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_wait_for_an_exhausted_quota() {
    let Some(cluster) = Cluster::here("a quota of a real cluster").await else { return };
    let (_server, api) = napping(&cluster);
    cluster.kubectl(&["create", "quota", "none", "--hard", "pods=0"]);
    let runs = submit(&api, "once", 0..2).await;
    // Longer than the start of a run takes with free quota.
    tokio::time::sleep(std::time::Duration::from_secs(8)).await;
    let waiting = cluster.pods();
    let undecided = api.count("queued").await + api.count("running").await;
    cluster.kubectl(&["delete", "quota", "none"]);
    assert_eq!((waiting, undecided), (vec![], 2));
    assert_eq!(wait_for_ends(&api, &runs).await, succeeded(2));
    it_works_again(&cluster, &api).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_worker_leaves_no_pod() {
    let Some(cluster) = Cluster::here("a worker killed over a real cluster").await else { return };
    let (mut server, api) = napping(&cluster);
    let runs = submit(&api, "again", 0..2).await;
    began(&api, [&runs[..1], &[]]).await;
    server.kill();
    server.restart();
    let api = Api::for_server(&server);
    assert_eq!(wait_for_ends(&api, &runs).await, succeeded(2));
    it_works_again(&cluster, &api).await;
}
