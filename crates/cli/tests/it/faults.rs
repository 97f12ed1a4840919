//! Faults in a fleet of real processes: no accepted run is lost, no result is recorded twice, and
//! nothing is left on the machine.

mod consistency;
mod docker;

use std::collections::BTreeMap;

use consistency::{CounterCoverage, StoredState};
use rustix::process::Signal;

use crate::api::{Api, wait_until};
use crate::fleet::{AcceptedRun, Fleet, submit, wait_for_ends};
use crate::leftovers::{ServerLeftovers, descendants, mounts};
use crate::load::{ExecutionEnd, Request, SendMode};
use crate::support::Server;

/// Returns its input, and leaves a file with the number in it.
const ECHO: &str = r#"
echo "$SANDBOX_INPUT" > "$SANDBOX_OUTPUT"
echo "$SANDBOX_INPUT" | tr -dc 0-9 > "${SANDBOX_FILES_DIR}note.txt"
echo >> "${SANDBOX_FILES_DIR}note.txt"
"#;

/// Failpoints at which a worker kills itself, in the order of an execution.
const WORKER_FAILPOINTS: [&str; 6] = ["claim", "launch", "run", "upload", "collect", "record"];

/// Runs per fault.
const RUNS: usize = 60;

/// Concurrent executions of one worker, and so the most that its crash can affect.
const SLOTS: usize = 3;

type Ends = BTreeMap<String, usize>;

/// A fleet with one API server and no worker; `None` without an S3 server to test with.
fn fleet_with_api_server(test: &str) -> Option<(Fleet, Server, Api)> {
    if !Fleet::is_available(test) {
        return None;
    }
    let fleet = Fleet::new();
    let api_server = fleet.api();
    api_server.push("echo", "main.sh", ECHO);
    api_server.push_idempotent("again", "main.sh", ECHO);
    let api = Api::for_server(&api_server);
    Some((fleet, api_server, api))
}

fn total(ends: &Ends) -> usize {
    ends.values().sum()
}

/// Only a run that may have started and is not idempotent may be lost.
fn only_lost_or_success(ends: &Ends) -> bool {
    ends.keys().all(|end| matches!(end.as_str(), "success exited" | "failed lost"))
}

#[tokio::test(flavor = "multi_thread")]
async fn workers_that_crash_at_any_step_lose_no_run() {
    let mounts = mounts();
    let Some((fleet, api_server, api)) = fleet_with_api_server("workers that kill themselves")
    else {
        return;
    };
    let healthy = fleet.worker();
    let mut rounds = Vec::new();
    for (index, point) in WORKER_FAILPOINTS.into_iter().enumerate() {
        let mut failing = fleet.failing_worker(&format!("{point}:abort:3"));
        let leftovers = ServerLeftovers::record(failing.pid(), &mounts);
        let numbers = index * RUNS..(index + 1) * RUNS;
        let non_idempotent = submit(&api, "echo", numbers.clone()).await;
        let idempotent = submit(&api, "again", numbers).await;
        wait_until("the worker dies", async || failing.has_ended().then_some(())).await;
        leftovers.wait_until_removed().await;
        let ends = wait_for_ends(&api, &non_idempotent).await;
        assert!(total(&ends) == RUNS && only_lost_or_success(&ends), "{point}: {ends:?}");
        // Idempotent runs are requeued until they succeed.
        assert_eq!(
            wait_for_ends(&api, &idempotent).await,
            Ends::from([("success exited".to_owned(), RUNS)]),
            "{point}"
        );
        assert_nothing_is_active(&api).await;
        rounds.push((point, non_idempotent.into_iter().chain(idempotent).collect::<Vec<_>>()));
    }
    let stored = StoredState::load(&fleet).await;
    stored.assert_stored_once(rounds.iter().flat_map(|(_, accepted)| accepted));
    // Each crash affects at most the runs of that worker. All others have one attempt.
    for (point, accepted) in &rounds {
        assert!(
            stored.count_affected(accepted) <= SLOTS,
            "{point}: {}",
            stored.count_affected(accepted)
        );
    }
    stored.assert_objects_match(&fleet).await;
    stored.assert_counters_match(&[&api_server, &healthy], CounterCoverage::Partial).await;
}

/// One worker crashes with files stored and no result recorded. The next one crashes while it removes
/// those files.
#[tokio::test(flavor = "multi_thread")]
async fn cleanup_continues_when_a_worker_crashes_during_cleanup() {
    let Some((fleet, api_server, api)) =
        fleet_with_api_server("a worker that dies while it clears up")
    else {
        return;
    };
    let mut first = fleet.failing_worker("collect:abort:3");
    let accepted = submit(&api, "echo", 0..RUNS).await;
    wait_until("the first worker dies", async || first.has_ended().then_some(())).await;
    // Every process cleans up after crashed ones. The API server is stopped so that it is not faster
    // than the second worker.
    api_server.signal(Signal::STOP);
    let mut second = fleet.failing_worker("remove:abort");
    wait_until("the second worker dies", async || second.has_ended().then_some(())).await;
    api_server.signal(Signal::CONT);
    let healthy = fleet.worker();
    let ends = wait_for_ends(&api, &accepted).await;
    assert_eq!(total(&ends), RUNS);
    assert!(only_lost_or_success(&ends), "{ends:?}");
    assert_nothing_is_active(&api).await;
    let stored = StoredState::load(&fleet).await;
    stored.assert_stored_once(&accepted);
    assert!(stored.count_affected(&accepted) <= 2 * SLOTS, "{ends:?}");
    stored.assert_objects_match(&fleet).await;
    stored.assert_counters_match(&[&api_server, &healthy], CounterCoverage::Partial).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crashed_api_server_has_accepted_each_request_at_most_once() {
    let Some((fleet, healthy, api)) = fleet_with_api_server("a front that kills itself") else {
        return;
    };
    let worker = fleet.worker();
    let mut failing = fleet.process("api", &[("SKILLBOX_FAILPOINT", "accept:abort:9")]);
    let at_the_doomed = Api::for_server(&failing);
    let requests: Vec<_> =
        (0..RUNS).map(|number| Request::new("echo", SendMode::Keyed, number)).collect();
    for request in &requests {
        let _ = request.post(&at_the_doomed).await;
    }
    assert!(failing.has_ended(), "it did not die");
    let mut accepted = Vec::new();
    for request in &requests {
        let answer = request.post(&api).await.expect("an answer");
        assert_eq!(
            ExecutionEnd::from_json(&answer.body),
            ExecutionEnd::new("success", "exited"),
            "{}",
            answer.body
        );
        accepted.push(AcceptedRun { id: answer.id(), number: request.number });
    }
    let stored = StoredState::load(&fleet).await;
    stored.assert_stored_once(&accepted);
    assert_eq!(stored.count_affected(&accepted), 0, "no worker died");
    stored.assert_objects_match(&fleet).await;
    stored.assert_counters_match(&[&healthy, &worker], CounterCoverage::Complete).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn database_failures_lose_no_run() {
    let Some((fleet, api_server, api)) = fleet_with_api_server("a database that comes and goes")
    else {
        return;
    };
    let workers = [fleet.worker(), fleet.worker()];
    let mut accepted = submit(&api, "again", 0..RUNS / 2).await;
    fleet.database.disconnect_all();
    accepted.extend(submit(&api, "again", RUNS / 2..RUNS).await);
    fleet.database.crash();
    accepted.extend(submit(&api, "again", RUNS..2 * RUNS).await);
    fleet.database.disconnect_all();
    fleet.database.crash();
    assert_eq!(
        wait_for_ends(&api, &accepted).await,
        Ends::from([("success exited".to_owned(), 2 * RUNS)])
    );
    assert_nothing_is_active(&api).await;
    let stored = StoredState::load(&fleet).await;
    stored.assert_stored_once(&accepted);
    stored.assert_objects_match(&fleet).await;
    stored
        .assert_counters_match(&[&api_server, &workers[0], &workers[1]], CounterCoverage::Partial)
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn object_store_failures_end_every_run_with_its_real_result() {
    let Some((fleet, api_server, api)) =
        fleet_with_api_server("an object store that comes and goes")
    else {
        return;
    };
    let worker = fleet.worker();
    let before = submit(&api, "echo", 0..RUNS).await;
    wait_for_ends(&api, &before[..RUNS / 4]).await;
    let killed_at = store::now();
    fleet.objects.kill();
    let gone = api.get(&format!("/v1/executions/{}/files/note.txt", before[0].id)).await;
    assert_eq!(
        (gone.status().as_u16(), &gone.headers()["retry-after"]),
        (503, &"1".parse().expect("a value"))
    );
    let during = submit(&api, "echo", RUNS..RUNS + RUNS / 2).await;
    fleet.objects.restart();
    let after = submit(&api, "echo", 2 * RUNS..3 * RUNS).await;
    let mut all: Vec<AcceptedRun> = before.into_iter().chain(during).chain(after).collect();
    let ends = wait_for_ends(&api, &all).await;
    assert_eq!(total(&ends), all.len());
    assert!(only_lost_or_success(&ends), "{ends:?}");
    assert_nothing_is_active(&api).await;
    // Runs succeed again without a restart of any process.
    let again = submit(&api, "echo", 3 * RUNS..3 * RUNS + 5).await;
    assert_eq!(wait_for_ends(&api, &again).await, Ends::from([("success exited".to_owned(), 5)]));
    all.extend(again);
    let stored = StoredState::load(&fleet).await;
    stored.assert_stored_once(&all);
    assert!(
        stored.lost_at().all(|ended_at| ended_at >= killed_at),
        "a run was lost before the fault"
    );
    stored.assert_objects_match(&fleet).await;
    stored.assert_counters_match(&[&api_server, &worker], CounterCoverage::Complete).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_stopped_past_its_lease_cannot_record_results() {
    let Some((fleet, api_server, api)) =
        fleet_with_api_server("a worker that sleeps past its lease")
    else {
        return;
    };
    api_server.push("nap", "main.sh", "sleep 4\necho '\"rested\"' > \"$SANDBOX_OUTPUT\"\n");
    let sleeper = fleet.worker();
    let naps = submit(&api, "nap", 0..2).await;
    let napping =
        || descendants(sleeper.pid()).iter().filter(|process| process.name == "sleep").count();
    wait_until("both nap", async || (napping() == 2).then_some(())).await;
    sleeper.signal(Signal::STOP);
    let healthy = fleet.worker();
    let quick = submit(&api, "echo", 0..RUNS).await;
    assert_eq!(
        wait_for_ends(&api, &quick).await,
        Ends::from([("success exited".to_owned(), RUNS)])
    );
    let lost = Ends::from([("failed lost".to_owned(), 2)]);
    assert_eq!(wait_for_ends(&api, &naps).await, lost);
    sleeper.signal(Signal::CONT);
    wait_until("the late results are refused", async || {
        (sleeper.log().matches("a late result was refused").count() == 2).then_some(())
    })
    .await;
    assert_eq!(wait_for_ends(&api, &naps).await, lost, "a late result changed a recorded end");
    let stored = StoredState::load(&fleet).await;
    stored.assert_stored_once(naps.iter().chain(&quick));
    assert_eq!(stored.count_affected(&quick), 0, "a stopped worker must not affect other runs");
    stored.assert_objects_match(&fleet).await;
    stored
        .assert_counters_match(&[&api_server, &healthy, &sleeper], CounterCoverage::Complete)
        .await;
}

/// No execution is queued or running.
async fn assert_nothing_is_active(api: &Api) {
    assert_eq!((api.count("running").await, api.count("queued").await), (0, 0));
}
