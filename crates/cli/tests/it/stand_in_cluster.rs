//! Skillbox on the stand-in of a Kubernetes cluster: the real program as server, as workers of a fleet,
//! and as the init container of every pod. `real_cluster.rs` has the same tests for a real cluster.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use cluster::{ClusterImage, ClusterSettings, Pod, RbacRule, ResourceQuota, TestCluster};
use serde_json::json;

use crate::api::{Api, text, wait_until};
use crate::fleet::{Fleet, submit, wait_for_ends};
use crate::support::Server;

const NAMESPACE: &str = "skillbox-sandboxes";

/// Returns its input, and leaves a file with the number in it.
const ECHO: &str = r#"
echo "$SANDBOX_INPUT" > "$SANDBOX_OUTPUT"
echo "$SANDBOX_INPUT" | tr -dc 0-9 > "${SANDBOX_FILES_DIR}note.txt"
echo >> "${SANDBOX_FILES_DIR}note.txt"
echo received
"#;

struct StandIn {
    cluster: TestCluster,
    settings: Vec<(String, String)>,
}

impl StandIn {
    /// Starts a cluster for this test. `None` where that is impossible, with a line for the summary of
    /// skipped tests.
    fn start(test: &str) -> Option<StandIn> {
        if let Some(missing) = cluster::missing_requirement() {
            println!("NEEDS ROOT: {test} was not tried, because there is no {missing}");
            return None;
        }
        let guest = ClusterImage::new("skillbox/skillbox:test");
        let guest = guest.with_program("skillbox", PathBuf::from(env!("CARGO_BIN_EXE_skillbox")));
        let names = ["python", "node", "bash"].map(|runtime| format!("skillbox/{runtime}:test"));
        let images = names.iter().map(|name| ClusterImage::new(name)).chain([guest]).collect();
        let cluster =
            TestCluster::start(ClusterSettings { images, ..ClusterSettings::new(NAMESPACE) })
                .expect("a cluster");
        let rules = vec![
            RbacRule::new(NAMESPACE, "pods", &["create", "get", "list", "watch", "delete"]),
            RbacRule::new(NAMESPACE, "pods/attach", &["get", "create"]),
        ];
        let kubeconfig = cluster.kubeconfig("worker", NAMESPACE, rules).expect("a kubeconfig");
        let settings = [
            ("SKILLBOX_SANDBOX", "kubernetes".to_owned()),
            ("KUBECONFIG", kubeconfig.display().to_string()),
            ("SKILLBOX_KUBE_GUEST_IMAGE", "skillbox/skillbox:test".to_owned()),
            ("SKILLBOX_KUBE_SCHEDULE_TIMEOUT", "5s".to_owned()),
            ("SKILLBOX_IMAGE_ALLOWLIST", names.join(",")),
            ("SKILLBOX_IMAGE_PYTHON", names[0].clone()),
            ("SKILLBOX_IMAGE_NODE", names[1].clone()),
            ("SKILLBOX_IMAGE_BASH", names[2].clone()),
        ];
        let settings = settings.map(|(name, value)| (name.to_owned(), value)).to_vec();
        Some(StandIn { cluster, settings })
    }

    fn server(&self) -> (Server, Api) {
        self.server_with(&[])
    }

    fn server_with(&self, extra: &[(&str, &str)]) -> (Server, Api) {
        let settings = self.settings.iter().map(|(name, value)| (&**name, &**value));
        let settings: Vec<_> = settings.chain(extra.iter().copied()).collect();
        let server = Server::start_with(&settings);
        server.push("echo", "main.sh", ECHO);
        server.push("once", "main.sh", &format!("echo began; sleep 6\n{ECHO}"));
        server.push_idempotent("again", "main.sh", &format!("echo began; sleep 6\n{ECHO}"));
        let api = Api::for_server(&server);
        (server, api)
    }

    /// The running pods.
    fn running(&self) -> Vec<Pod> {
        let running = |pod: &Pod| {
            pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Running")
        };
        self.cluster.pods().into_iter().filter(running).collect()
    }

    /// Runs succeed and leave no pod.
    async fn assert_works(&self, api: &Api) {
        let runs = submit(api, "echo", 900..902).await;
        assert_eq!(wait_for_ends(api, &runs).await, succeeded(2));
        assert!(self.cluster.wait_until_empty().await, "{:?}", self.cluster.pods());
    }
}

fn succeeded(count: usize) -> BTreeMap<String, usize> {
    BTreeMap::from([("success exited".to_owned(), count)])
}

fn lost(count: usize) -> BTreeMap<String, usize> {
    BTreeMap::from([("failed lost".to_owned(), count)])
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_in_pods_have_results_files_logs_and_correct_outcomes() {
    let Some(stand_in) = StandIn::start("skills in pods") else { return };
    let (server, api) = stand_in.server();
    let run = api
        .run(&json!({ "skill": "echo", "input": { "number": 7 } }), None)
        .await
        .expect("an answer")
        .body;
    assert_eq!(
        (&run["status"], &run["output"]),
        (&json!("success"), &json!({ "number": 7 })),
        "{run}"
    );
    assert_eq!(
        (&run["isolation"]["backend"], &run["logs"]),
        (&json!("kubernetes"), &json!("received\n")),
        "{run}"
    );
    server.push("sleeper", "main.sh", "echo on; sleep 600\n");
    server.push("memory", "main.py", "x = bytearray(4 << 30)\nprint(len(x))\n");
    assert_eq!(api.result("memory").await["outcome"], "out_of_memory");
    let late = api
        .run(&json!({ "skill": "sleeper", "timeout": "2s" }), None)
        .await
        .expect("an answer")
        .body;
    assert_eq!(late["outcome"], "timed_out", "{late}");
    let cancelled = submit(&api, "sleeper", 0..1).await;
    wait_until("it runs", async || (stand_in.running().len() == 1).then_some(())).await;
    api.post(&format!("/v1/executions/{}/cancel", cancelled[0].id)).await;
    let ends = wait_for_ends(&api, &cancelled).await;
    assert_eq!(ends.into_keys().collect::<Vec<_>>(), ["cancelled cancelled"]);
    stand_in.assert_works(&api).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn cluster_failures_lose_only_active_non_idempotent_runs() {
    let Some(stand_in) = StandIn::start("a cluster in trouble") else { return };
    let (_server, api) = stand_in.server();
    let cluster = &stand_in.cluster;
    // Each failure is applied to both pods when they run.
    type PodFailure = fn(&TestCluster, &Pod);
    let failures: [(&str, PodFailure); 3] = [
        ("evicted", |cluster, pod| cluster.evict(pod, "The node was low on resource: memory.")),
        ("cut", |cluster, _| cluster.drop_attachments()),
        ("lost", |cluster, pod| {
            cluster.lose_node(pod);
            cluster.mark_node_lost(pod);
        }),
    ];
    for (index, (name, fail)) in failures.into_iter().enumerate() {
        let numbers = index * 10..index * 10 + 1;
        let (non_idempotent, idempotent) =
            (submit(&api, "once", numbers.clone()).await, submit(&api, "again", numbers).await);
        // A guest gets its job a little after its pod runs. Before that nothing was started, so the run
        // would not be lost.
        for run in non_idempotent.iter().chain(&idempotent) {
            api.wait_for_log(&run.id, "began").await;
        }
        stand_in.running().iter().for_each(|pod| fail(cluster, pod));
        assert_eq!(wait_for_ends(&api, &non_idempotent).await, lost(1), "{name}");
        assert_eq!(wait_for_ends(&api, &idempotent).await, succeeded(1), "{name}");
    }
    // While the API server is down, accepted runs stay queued.
    cluster.stop_api().await;
    let waiting = submit(&api, "echo", 100..103).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    cluster.resume_api().expect("the same address");
    assert_eq!(wait_for_ends(&api, &waiting).await, succeeded(3));
    cluster.drop_watches();
    cluster.compact();
    stand_in.assert_works(&api).await;
}

/// Waits until each execution was requeued and claimed again.
async fn wait_until_requeued(api: &Api, ids: impl Iterator<Item = &str>) {
    for id in ids {
        wait_until("it has a second attempt", async || {
            (api.execution(id).await["attempt"].as_i64() >= Some(2)).then_some(())
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_cluster_fails_no_worker_and_no_run() {
    let Some(stand_in) = StandIn::start("a full cluster") else { return };
    let cluster = &stand_in.cluster;
    let none = ResourceQuota { name: "compute".into(), hard: [("pods".to_owned(), 0.0)].into() };
    cluster.set_quota(Some(none));
    // A worker that starts with an exhausted quota is ready, and reports that the cluster is full.
    let (_server, api) = stand_in.server_with(&[
        ("SKILLBOX_KUBE_SCHEDULE_TIMEOUT", "3s"),
        ("SKILLBOX_MAX_CONCURRENT_EXECS", "4"),
    ]);
    let ready = api.try_get("/ready").await.expect("an answer");
    assert_eq!(
        (ready.status, &ready.body["checks"]["sandbox"]),
        (200, &json!("full")),
        "{}",
        ready.body
    );
    // No quota, and later no node, for longer than one attempt waits: each run is requeued and succeeds
    // in the end, also one whose caller waits for it.
    let awaited = api.begin("echo");
    let first = wait_until("it is accepted", async || api.executions(None).await.pop()).await;
    let first = text(&first["execution_id"]);
    let waiting = submit(&api, "echo", 0..2).await;
    wait_until_requeued(&api, waiting.iter().map(|run| &*run.id).chain([&*first])).await;
    cluster.set_quota(None);
    assert_eq!(wait_for_ends(&api, &waiting).await, succeeded(2));
    let awaited = awaited.await.expect("no panic");
    assert_eq!(
        (&awaited["status"], &awaited["execution_id"]),
        (&json!("success"), &json!(first)),
        "{awaited}"
    );
    assert!(awaited["attempt"].as_i64() >= Some(2), "{awaited}");
    cluster.set_node_full(true);
    let waiting = submit(&api, "echo", 10..12).await;
    wait_until_requeued(&api, waiting.iter().map(|run| &*run.id)).await;
    cluster.set_node_full(false);
    assert_eq!(wait_for_ends(&api, &waiting).await, succeeded(2));
    let ready = api.try_get("/ready").await.expect("an answer");
    assert_eq!(
        (ready.status, &ready.body["checks"]["sandbox"]),
        (200, &json!("ok")),
        "{}",
        ready.body
    );
    stand_in.assert_works(&api).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_worker_loses_no_run_and_leaves_no_pod() {
    let test = "a fleet on a cluster";
    if !Fleet::is_available(test) {
        return;
    }
    let Some(stand_in) = StandIn::start(test) else { return };
    let fleet = Fleet::new().with(&stand_in.settings);
    let api_server = fleet.api();
    api_server.push_idempotent("again", "main.sh", &format!("echo began; sleep 10\n{ECHO}"));
    api_server.push("once", "main.sh", "echo began; sleep 100\n");
    let api = Api::for_server(&api_server);
    let mut failing = fleet.worker();
    let (idempotent, non_idempotent) =
        (submit(&api, "again", 0..2).await, submit(&api, "once", 0..1).await);
    for run in non_idempotent.iter().chain(&idempotent) {
        api.wait_for_log(&run.id, "began").await;
    }
    failing.kill();
    let _healthy = fleet.worker();
    assert_eq!(wait_for_ends(&api, &idempotent).await, succeeded(2));
    assert_eq!(wait_for_ends(&api, &non_idempotent).await, lost(1));
    // The pods of the killed worker end with its connections, and the other worker removes them.
    assert!(stand_in.cluster.wait_until_empty().await, "{:?}", stand_in.cluster.pods());
}
