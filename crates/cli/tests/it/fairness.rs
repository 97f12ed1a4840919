//! A tenant that floods the queue, and another that must not feel it.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::api::{Api, text, until};
use crate::support::Server;

/// What one tenant queues to keep every slot busy, and what it queues to flood.
const BUSY: usize = 80;
const FLOOD: usize = 2000;

/// Runs of the other tenant that are watched, one after the other.
const WATCHED: usize = 12;

/// How long every run takes. A slot becomes free within this time, so nobody who is next waits longer.
const RUN: Duration = Duration::from_millis(200);

#[tokio::test(flavor = "multi_thread")]
async fn a_flood_of_one_tenant_at_most_doubles_the_wait_of_another() {
    let server = Server::with(&[("SKILLBOX_MAX_CONCURRENT_EXECS", "2"), ("SKILLBOX_LAUNCHERS", "1")]);
    server.run(&["tenant", "create", "victim"]).ok();
    let key = text(&server.json(&["key", "create", "-t", "victim"])["key"]);
    server.push("nap", "main.sh", "sleep 0.2\n");
    let directory = server.home().join("nap").display().to_string();
    server.run(&["skill", "push", &directory, "-t", "victim"]).ok();
    let (hog, victim) = (Api::of(&server), Api::of(&server).with_key(&key));

    queue(&hog, BUSY).await;
    let baseline = waits(&victim).await;
    queue(&hog, FLOOD).await;
    let flooded = waits(&victim).await;
    println!("12 runs waited {baseline:?} in all on a busy server, {flooded:?} behind a flood of {FLOOD}");
    assert!(hog.queued_at_least(FLOOD / 2).await, "the flood was over before it was felt");
    assert!(flooded <= 2 * baseline.max(RUN * WATCHED as u32), "{flooded:?} against {baseline:?}");
}

/// Has so many runs accepted, without waiting for any.
async fn queue(api: &Api, count: usize) {
    let mut senders = JoinSet::new();
    for _ in 0..8 {
        let api = api.clone();
        senders.spawn(async move {
            for _ in 0..count / 8 {
                let answer = api.run(&json!({ "skill": "nap", "mode": "async" }), None).await.expect("an answer");
                assert_eq!(answer.status, 202, "{}", answer.body);
            }
        });
    }
    senders.join_all().await;
}

/// How long runs waited from their acceptance to their start, by the server's own times.
async fn waits(api: &Api) -> Duration {
    let mut sum = Duration::ZERO;
    for _ in 0..WATCHED {
        let accepted = api.run(&json!({ "skill": "nap", "mode": "async" }), None).await.expect("an answer");
        let row = until("it runs", async || {
            let row = api.execution(&accepted.id()).await;
            (row["status"] == "success").then_some(row)
        })
        .await;
        sum += time(&row["started_at"]).saturating_sub(time(&row["created_at"]));
    }
    sum
}

/// The time of day; no test runs over midnight for long.
fn time(value: &Value) -> Duration {
    let text = text(value);
    let clock = text.split(['T', 'Z']).nth(1).expect("a time");
    let parts: Vec<f64> = clock.split(':').map(|part| part.parse().expect("a number")).collect();
    Duration::from_secs_f64(parts[0] * 3600.0 + parts[1] * 60.0 + parts[2])
}
