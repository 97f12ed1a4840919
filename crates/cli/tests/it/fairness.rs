//! A tenant that floods the queue must not delay another tenant.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::api::{Api, text, wait_until};
use crate::postgres::cluster;
use crate::support::Server;

/// Queued executions that keep every slot busy, and those of the flood.
const BUSY: usize = 80;
const FLOOD: usize = 2000;

/// Measured runs of the other tenant, one after the other.
const MEASURED_RUNS: usize = 12;

/// Executions that run at once.
const SLOTS: usize = 2;

#[tokio::test(flavor = "multi_thread")]
async fn a_flood_does_not_delay_another_tenant() {
    assert_flood_does_not_delay(&[]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flood_does_not_delay_another_tenant_on_postgres() {
    let dsn = tokio::task::spawn_blocking(cluster::database).await.expect("a database");
    assert_flood_does_not_delay(&[("SKILLBOX_DB_DSN", &dsn)]).await;
}

/// Waiting time is measured as the number of runs that started first, which does not depend on the
/// speed of the machine.
async fn assert_flood_does_not_delay(settings: &[(&str, &str)]) {
    let slots = SLOTS.to_string();
    let own = [("SKILLBOX_MAX_CONCURRENT_EXECS", slots.as_str()), ("SKILLBOX_LAUNCHERS", "1")];
    let server = Server::start_with(&[&own, settings].concat());
    server.run(&["tenant", "create", "victim"]).ok();
    let key = text(&server.json(&["key", "create", "-t", "victim"])["key"]);
    server.push("nap", "main.sh", "sleep 0.2\n");
    let directory = server.home().join("nap").display().to_string();
    server.run(&["skill", "push", &directory, "-t", "victim"]).ok();
    let (flooding, victim) = (Api::for_server(&server), Api::for_server(&server).with_key(&key));

    queue(&flooding, BUSY).await;
    let busy = measure_queue_times(&victim).await;
    queue(&flooding, FLOOD).await;
    let flooded = measure_queue_times(&victim).await;
    assert!(flooding.queued_at_least(FLOOD / 2).await, "the flood was over too early");
    let started = start_times(&flooding).await;
    assert!(
        started.len() > 2 * MEASURED_RUNS,
        "the flooding tenant did not run anything: {started:?}"
    );
    let overtaken = |waits: &[QueueTime]| {
        waits.iter().map(|wait| wait.count_starts(&started)).collect::<Vec<_>>()
    };
    let (baseline, flooded) = (overtaken(&busy), overtaken(&flooded));
    println!(
        "runs that overtook each of 12: {baseline:?} on a busy server, {flooded:?} behind a flood of {FLOOD}"
    );
    // The waiting tenant is next in turn. Only runs that were being claimed at that moment overtake
    // it, at most one per slot.
    assert!(flooded.iter().all(|overtaking| *overtaking <= 2 * SLOTS), "{flooded:?}");
    let sum = |counts: &[usize]| counts.iter().sum::<usize>();
    assert!(
        sum(&flooded) <= 2 * sum(&baseline).max(MEASURED_RUNS),
        "{flooded:?} against {baseline:?}"
    );
}

/// Queues so many executions.
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

/// The time from the acceptance of a run to its start, from the server's timestamps.
struct QueueTime {
    created_at: String,
    started_at: String,
}

impl QueueTime {
    /// How many of these starts were in this period.
    fn count_starts(&self, started: &[String]) -> usize {
        started.iter().filter(|at| (&self.created_at..&self.started_at).contains(at)).count()
    }
}

/// Runs the skill several times, and returns the queue time of each run.
async fn measure_queue_times(api: &Api) -> Vec<QueueTime> {
    let mut waits = Vec::new();
    for _ in 0..MEASURED_RUNS {
        let accepted =
            api.run(&json!({ "skill": "nap", "mode": "async" }), None).await.expect("an answer");
        let row = wait_until("it runs", async || {
            let row = api.execution(&accepted.id()).await;
            (row["status"] == "success").then_some(row)
        })
        .await;
        waits.push(QueueTime {
            created_at: text(&row["created_at"]),
            started_at: text(&row["started_at"]),
        });
    }
    waits
}

/// The start times of all started runs of this tenant. Executions that end between two requests move
/// the pages, so that some are returned twice, but none is missed.
async fn start_times(api: &Api) -> Vec<String> {
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
