//! A tenant that floods the queue, and another that must not feel it.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::api::{Api, text, until};
use crate::postgres::cluster;
use crate::support::Server;

/// What one tenant queues to keep every slot busy, and what it queues to flood.
const BUSY: usize = 80;
const FLOOD: usize = 2000;

/// Runs of the other tenant that are watched, one after the other.
const WATCHED: usize = 12;

/// Executions that run at once.
const SLOTS: usize = 2;

#[tokio::test(flavor = "multi_thread")]
async fn a_flood_of_one_tenant_lets_no_more_runs_pass_another() {
    a_flood_passes_nobody(&[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flood_of_one_tenant_lets_no_more_runs_pass_another_on_postgres() {
    let dsn = tokio::task::spawn_blocking(cluster::database).await.expect("a database");
    a_flood_passes_nobody(&[("SKILLBOX_DB_DSN", &dsn)]).await;
}

/// Waits are measured in runs that were let pass, which is the same on a slow machine.
async fn a_flood_passes_nobody(settings: &[(&str, &str)]) {
    let slots = SLOTS.to_string();
    let own = [("SKILLBOX_MAX_CONCURRENT_EXECS", slots.as_str()), ("SKILLBOX_LAUNCHERS", "1")];
    let server = Server::with(&[&own, settings].concat());
    server.run(&["tenant", "create", "victim"]).ok();
    let key = text(&server.json(&["key", "create", "-t", "victim"])["key"]);
    server.push("nap", "main.sh", "sleep 0.2\n");
    let directory = server.home().join("nap").display().to_string();
    server.run(&["skill", "push", &directory, "-t", "victim"]).ok();
    let (hog, victim) = (Api::of(&server), Api::of(&server).with_key(&key));

    queue(&hog, BUSY).await;
    let busy = runs(&victim).await;
    queue(&hog, FLOOD).await;
    let flooded = runs(&victim).await;
    assert!(hog.queued_at_least(FLOOD / 2).await, "the flood was over before it was felt");
    let started = starts(&hog).await;
    assert!(started.len() > 2 * WATCHED, "the other tenant was not at work: {started:?}");
    let passed =
        |waits: &[Wait]| waits.iter().map(|wait| wait.passed_by(&started)).collect::<Vec<_>>();
    let (baseline, flooded) = (passed(&busy), passed(&flooded));
    println!(
        "so many runs passed each of 12: {baseline:?} on a busy server, {flooded:?} behind a flood of {FLOOD}"
    );
    // Whoever comes is next: what passes it was being claimed at that moment, which is at most one
    // run a slot.
    assert!(flooded.iter().all(|passed| *passed <= 2 * SLOTS), "{flooded:?}");
    let sum = |passed: &[usize]| passed.iter().sum::<usize>();
    assert!(sum(&flooded) <= 2 * sum(&baseline).max(WATCHED), "{flooded:?} against {baseline:?}");
}

/// Has so many runs accepted, without waiting for any.
async fn queue(api: &Api, count: usize) {
    let mut senders = JoinSet::new();
    for _ in 0..8 {
        let api = api.clone();
        senders.spawn(async move {
            for _ in 0..count / 8 {
                let answer = api
                    .run(&json!({ "skill": "nap", "mode": "async" }), None)
                    .await
                    .expect("an answer");
                assert_eq!(answer.status, 202, "{}", answer.body);
            }
        });
    }
    senders.join_all().await;
}

/// From a run's acceptance to its start, by the server's own times.
struct Wait {
    created_at: String,
    started_at: String,
}

impl Wait {
    /// How many of these starts fell into it.
    fn passed_by(&self, started: &[String]) -> usize {
        started.iter().filter(|at| (&self.created_at..&self.started_at).contains(at)).count()
    }
}

/// Runs one after the other, and how each of them waited.
async fn runs(api: &Api) -> Vec<Wait> {
    let mut waits = Vec::new();
    for _ in 0..WATCHED {
        let accepted =
            api.run(&json!({ "skill": "nap", "mode": "async" }), None).await.expect("an answer");
        let row = until("it runs", async || {
            let row = api.execution(&accepted.id()).await;
            (row["status"] == "success").then_some(row)
        })
        .await;
        waits.push(Wait {
            created_at: text(&row["created_at"]),
            started_at: text(&row["started_at"]),
        });
    }
    waits
}

/// When each run of this tenant started that has started. What ends meanwhile moves the pages on,
/// so that some are seen twice and none is missed.
async fn starts(api: &Api) -> Vec<String> {
    let mut started = BTreeMap::new();
    for status in ["running", "success"] {
        for offset in (0..).step_by(200) {
            let page =
                api.get(&format!("/v1/executions?status={status}&limit=200&offset={offset}")).await;
            let page: Vec<Value> = page.json().await.expect("JSON");
            if page.is_empty() {
                break;
            }
            started.extend(
                page.iter().map(|row| (text(&row["execution_id"]), text(&row["started_at"]))),
            );
        }
    }
    started.into_values().collect()
}
