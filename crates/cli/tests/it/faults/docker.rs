//! The same faults with containers as sandboxes. The engine reports what dead workers left, and is
//! killed too.

use rustix::process::Signal;

use super::{
    CounterCoverage, ECHO, Ends, SLOTS, StoredState, WORKER_FAILPOINTS, assert_nothing_is_active,
    only_lost_or_success, total,
};
use crate::api::{Api, wait_until};
use crate::engine::Engine;
use crate::fleet::{AcceptedRun, Containers, Fleet, submit, wait_for_ends};

/// Runs of each kind per fault. A container takes a hundred times as long as a native sandbox.
const RUNS: usize = 6;

#[tokio::test(flavor = "multi_thread")]
async fn crashes_of_workers_and_engines_lose_no_run_and_leave_no_container() {
    const TEST: &str = "a fleet whose sandboxes are containers";
    if Engine::here(TEST).is_none() || !Fleet::is_available(TEST) {
        return;
    }
    let containers = Containers::start();
    let fleet = Fleet::new().with_containers(&containers);
    let api_server = fleet.api();
    api_server.push("echo", "main.sh", ECHO);
    api_server.push_idempotent("again", "main.sh", ECHO);
    api_server.push_idempotent("nap", "main.sh", &format!("sleep 2\n{ECHO}"));
    let api = Api::for_server(&api_server);
    let mut accepted = kill_workers_at_failpoints(&fleet, &containers, &api).await;
    accepted.extend(kill_worker_with_running_containers(&fleet, &containers, &api).await);
    accepted.extend(kill_engine(&fleet, &containers, &api).await);
    let stored = StoredState::load(&fleet).await;
    stored.assert_stored_once(&accepted);
    stored.assert_objects_match(&fleet).await;
    stored.assert_counters_match(&[&api_server], CounterCoverage::Partial).await;
}

async fn kill_workers_at_failpoints(
    fleet: &Fleet,
    containers: &Containers,
    api: &Api,
) -> Vec<AcceptedRun> {
    let healthy = fleet.worker();
    let mut accepted = Vec::new();
    for (index, point) in WORKER_FAILPOINTS.into_iter().enumerate() {
        let mut failing = fleet.failing_worker(&format!("{point}:abort"));
        let numbers = index * RUNS..(index + 1) * RUNS;
        let non_idempotent = submit(api, "echo", numbers.clone()).await;
        let idempotent = submit(api, "again", numbers).await;
        wait_until("the worker dies", async || failing.has_ended().then_some(())).await;
        let ends = wait_for_ends(api, &non_idempotent).await;
        assert_eq!(wait_for_ends(api, &idempotent).await, succeeded(RUNS), "{point}");
        assert!(total(&ends) == RUNS && only_lost_or_success(&ends), "{point}: {ends:?}");
        assert!(ends.get("failed lost").copied().unwrap_or(0) <= SLOTS, "{point}: {ends:?}");
        containers.wait_until_removed(None).await;
        assert_nothing_is_active(api).await;
        accepted.extend(non_idempotent.into_iter().chain(idempotent));
    }
    StoredState::load(fleet)
        .await
        .assert_counters_match(&[&healthy], CounterCoverage::Partial)
        .await;
    accepted
}

async fn kill_worker_with_running_containers(
    fleet: &Fleet,
    containers: &Containers,
    api: &Api,
) -> Vec<AcceptedRun> {
    let mut failing = fleet.worker();
    let naps = submit(api, "nap", 0..RUNS).await;
    let running = wait_until("containers run", async || {
        Some(containers.list("status=running")).filter(|ids| ids.len() > 1)
    });
    let orphans = running.await;
    failing.signal(Signal::KILL);
    wait_until("it is dead", async || failing.has_ended().then_some(())).await;
    let _other = fleet.worker();
    containers.wait_until_removed(Some(&orphans)).await;
    assert_eq!(wait_for_ends(api, &naps).await, succeeded(RUNS));
    containers.wait_until_removed(None).await;
    assert_nothing_is_active(api).await;
    naps
}

async fn kill_engine(fleet: &Fleet, containers: &Containers, api: &Api) -> Vec<AcceptedRun> {
    let workers = [fleet.worker(), fleet.worker()];
    let naps = submit(api, "nap", RUNS..2 * RUNS).await;
    let non_idempotent = submit(api, "echo", 100..100 + RUNS).await;
    wait_until("containers run", async || {
        (containers.list("status=running").len() > 1).then_some(())
    })
    .await;
    containers.restart();
    assert_eq!(wait_for_ends(api, &naps).await, succeeded(RUNS));
    let ends = wait_for_ends(api, &non_idempotent).await;
    assert!(total(&ends) == RUNS && only_lost_or_success(&ends), "{ends:?}");
    // Runs succeed again without a restart of any other process.
    let again = submit(api, "echo", 200..203).await;
    assert_eq!(wait_for_ends(api, &again).await, succeeded(3));
    containers.wait_until_removed(None).await;
    assert_nothing_is_active(api).await;
    StoredState::load(fleet)
        .await
        .assert_counters_match(&[&workers[0], &workers[1]], CounterCoverage::Partial)
        .await;
    naps.into_iter().chain(non_idempotent).chain(again).collect()
}

fn succeeded(count: usize) -> Ends {
    Ends::from([("success exited".to_owned(), count)])
}
