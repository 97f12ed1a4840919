//! The same where sandboxes are containers: the engine itself is asked what is left of dead
//! workers, and dies too.

use rustix::process::Signal;

use super::{
    Books, Counted, ECHO, Ends, SLOTS, WORKER_FAILPOINTS, nothing_is_running, only_lost_or_success,
    total,
};
use crate::api::{Api, until};
use crate::engine::Engine;
use crate::fleet::{Accepted, Containers, Fleet, settle, submit};

/// Runs of each kind for each fault; a container costs a hundred times a native sandbox.
const RUNS: usize = 6;

#[tokio::test(flavor = "multi_thread")]
async fn workers_and_engines_that_die_under_containers_lose_nothing_and_leave_none() {
    const TEST: &str = "a fleet whose sandboxes are containers";
    if Engine::here(TEST).is_none() || !Fleet::can_be_had(TEST) {
        return;
    }
    let containers = Containers::start();
    let fleet = Fleet::new().on(&containers);
    let front = fleet.api();
    front.push("echo", "main.sh", ECHO);
    front.push_idempotent("again", "main.sh", ECHO);
    front.push_idempotent("nap", "main.sh", &format!("sleep 2\n{ECHO}"));
    let api = Api::of(&front);
    let mut accepted = workers_kill_themselves(&fleet, &containers, &api).await;
    accepted.extend(a_worker_is_killed_with_containers_running(&fleet, &containers, &api).await);
    accepted.extend(the_engine_is_killed(&fleet, &containers, &api).await);
    let books = Books::of(&fleet).await;
    books.hold(&accepted);
    books.match_objects(&fleet).await;
    books.match_counters(&[&front], Counted::Some).await;
}

async fn workers_kill_themselves(
    fleet: &Fleet,
    containers: &Containers,
    api: &Api,
) -> Vec<Accepted> {
    let steady = fleet.worker();
    let mut accepted = Vec::new();
    for (index, point) in WORKER_FAILPOINTS.into_iter().enumerate() {
        let mut doomed = fleet.doomed_worker(&format!("{point}:abort"));
        let numbers = index * RUNS..(index + 1) * RUNS;
        let fragile = submit(api, "echo", numbers.clone()).await;
        let sturdy = submit(api, "again", numbers).await;
        until("the worker dies", async || doomed.has_ended().then_some(())).await;
        let ends = settle(api, &fragile).await;
        assert_eq!(settle(api, &sturdy).await, succeeded(RUNS), "{point}");
        assert!(total(&ends) == RUNS && only_lost_or_success(&ends), "{point}: {ends:?}");
        assert!(ends.get("failed lost").copied().unwrap_or(0) <= SLOTS, "{point}: {ends:?}");
        containers.gone(None).await;
        nothing_is_running(api).await;
        accepted.extend(fragile.into_iter().chain(sturdy));
    }
    Books::of(fleet).await.match_counters(&[&steady], Counted::Some).await;
    accepted
}

async fn a_worker_is_killed_with_containers_running(
    fleet: &Fleet,
    containers: &Containers,
    api: &Api,
) -> Vec<Accepted> {
    let mut doomed = fleet.worker();
    let naps = submit(api, "nap", 0..RUNS).await;
    let under_way = until("containers run", async || {
        Some(containers.list("status=running")).filter(|ids| ids.len() > 1)
    });
    let orphans = under_way.await;
    doomed.signal(Signal::KILL);
    until("it is dead", async || doomed.has_ended().then_some(())).await;
    let _other = fleet.worker();
    containers.gone(Some(&orphans)).await;
    assert_eq!(settle(api, &naps).await, succeeded(RUNS));
    containers.gone(None).await;
    nothing_is_running(api).await;
    naps
}

async fn the_engine_is_killed(fleet: &Fleet, containers: &Containers, api: &Api) -> Vec<Accepted> {
    let workers = [fleet.worker(), fleet.worker()];
    let naps = submit(api, "nap", RUNS..2 * RUNS).await;
    let fragile = submit(api, "echo", 100..100 + RUNS).await;
    until("containers run", async || (containers.list("status=running").len() > 1).then_some(()))
        .await;
    containers.restart();
    assert_eq!(settle(api, &naps).await, succeeded(RUNS));
    let ends = settle(api, &fragile).await;
    assert!(total(&ends) == RUNS && only_lost_or_success(&ends), "{ends:?}");
    // It works again without anybody having restarted anything else.
    let again = submit(api, "echo", 200..203).await;
    assert_eq!(settle(api, &again).await, succeeded(3));
    containers.gone(None).await;
    nothing_is_running(api).await;
    Books::of(fleet).await.match_counters(&[&workers[0], &workers[1]], Counted::Some).await;
    naps.into_iter().chain(fragile).chain(again).collect()
}

fn succeeded(count: usize) -> Ends {
    Ends::from([("success exited".to_owned(), count)])
}
