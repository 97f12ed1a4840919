//! Whatever fails, in a fleet of real processes: nothing that was accepted is lost, nothing is
//! recorded twice, and nothing stays on the machine.

mod books;
mod on_an_engine;

use std::collections::BTreeMap;

use books::{Books, Counted};
use rustix::process::Signal;

use crate::api::{Api, until};
use crate::fleet::{Accepted, Fleet, settle, submit};
use crate::load::{End, Request, Wait};
use crate::support::Server;
use crate::traces::{Traces, descendants, mounts};

/// Gives its input back, and leaves a file that names it.
const ECHO: &str = r#"
echo "$SANDBOX_INPUT" > "$SANDBOX_OUTPUT"
echo "$SANDBOX_INPUT" | tr -dc 0-9 > "${SANDBOX_FILES_DIR}note.txt"
echo >> "${SANDBOX_FILES_DIR}note.txt"
"#;

/// Points at which a worker kills itself, in the order of an execution.
const WORKER_FAILPOINTS: [&str; 6] = ["claim", "launch", "run", "upload", "collect", "record"];

/// Runs for each fault.
const RUNS: usize = 60;

/// What a worker of these fleets has in hand at once, and so the most that its death can touch.
const SLOTS: usize = 3;

type Ends = BTreeMap<String, usize>;

/// A fleet with one API server so far; none where there is nothing to make an S3 server from.
fn fleet(test: &str) -> Option<(Fleet, Server, Api)> {
    if !Fleet::can_be_had(test) {
        return None;
    }
    let fleet = Fleet::new();
    let front = fleet.api();
    front.push("echo", "main.sh", ECHO);
    front.push_idempotent("again", "main.sh", ECHO);
    let api = Api::of(&front);
    Some((fleet, front, api))
}

fn total(ends: &Ends) -> usize {
    ends.values().sum()
}

/// Started and not known to be idempotent: the only reason to give a run up.
fn only_lost_or_success(ends: &Ends) -> bool {
    ends.keys().all(|end| matches!(end.as_str(), "success exited" | "failed lost"))
}

#[tokio::test(flavor = "multi_thread")]
async fn workers_that_kill_themselves_anywhere_lose_nothing() {
    let mounts = mounts();
    let Some((fleet, front, api)) = fleet("workers that kill themselves") else { return };
    let steady = fleet.worker();
    let mut rounds = Vec::new();
    for (index, point) in WORKER_FAILPOINTS.into_iter().enumerate() {
        let mut doomed = fleet.doomed_worker(&format!("{point}:abort:3"));
        let traces = Traces::of(doomed.pid(), &mounts);
        let numbers = index * RUNS..(index + 1) * RUNS;
        let fragile = submit(&api, "echo", numbers.clone()).await;
        let sturdy = submit(&api, "again", numbers).await;
        until("the worker dies", async || doomed.has_ended().then_some(())).await;
        traces.gone().await;
        let ends = settle(&api, &fragile).await;
        assert!(total(&ends) == RUNS && only_lost_or_success(&ends), "{point}: {ends:?}");
        // What may run again does so until it is done.
        assert_eq!(
            settle(&api, &sturdy).await,
            Ends::from([("success exited".to_owned(), RUNS)]),
            "{point}"
        );
        nothing_is_running(&api).await;
        rounds.push((point, fragile.into_iter().chain(sturdy).collect::<Vec<_>>()));
    }
    let books = Books::of(&fleet).await;
    books.hold(rounds.iter().flat_map(|(_, accepted)| accepted));
    // Each death touches at most what that worker had in hand; everything else ran once.
    for (point, accepted) in &rounds {
        assert!(books.touched(accepted) <= SLOTS, "{point}: {}", books.touched(accepted));
    }
    books.match_objects(&fleet).await;
    books.match_counters(&[&front, &steady], Counted::Some).await;
}

/// One worker dies with files stored and nothing recorded; the next dies as it clears that away.
#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_dies_while_it_clears_up_leaves_that_to_another() {
    let Some((fleet, front, api)) = fleet("a worker that dies while it clears up") else { return };
    let mut first = fleet.doomed_worker("collect:abort:3");
    let accepted = submit(&api, "echo", 0..RUNS).await;
    until("the first worker dies", async || first.has_ended().then_some(())).await;
    // Every process clears up after the dead; this one shall not be quicker.
    front.signal(Signal::STOP);
    let mut second = fleet.doomed_worker("remove:abort");
    until("the second worker dies", async || second.has_ended().then_some(())).await;
    front.signal(Signal::CONT);
    let steady = fleet.worker();
    let ends = settle(&api, &accepted).await;
    assert_eq!(total(&ends), RUNS);
    assert!(only_lost_or_success(&ends), "{ends:?}");
    nothing_is_running(&api).await;
    let books = Books::of(&fleet).await;
    books.hold(&accepted);
    assert!(books.touched(&accepted) <= 2 * SLOTS, "{ends:?}");
    books.match_objects(&fleet).await;
    books.match_counters(&[&front, &steady], Counted::Some).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_front_that_kills_itself_has_accepted_each_request_once_or_not_at_all() {
    let Some((fleet, steady, api)) = fleet("a front that kills itself") else { return };
    let worker = fleet.worker();
    let mut doomed = fleet.process("api", &[("SKILLBOX_FAILPOINT", "accept:abort:9")]);
    let at_the_doomed = Api::of(&doomed);
    let requests: Vec<_> =
        (0..RUNS).map(|number| Request::new("echo", Wait::Keyed, number)).collect();
    for request in &requests {
        let _ = request.post(&at_the_doomed).await;
    }
    assert!(doomed.has_ended(), "it did not die");
    let mut accepted = Vec::new();
    for request in &requests {
        let answer = request.post(&api).await.expect("an answer");
        assert_eq!(End::of(&answer.body), End::new("success", "exited"), "{}", answer.body);
        accepted.push(Accepted { id: answer.id(), number: request.number });
    }
    let books = Books::of(&fleet).await;
    books.hold(&accepted);
    assert_eq!(books.touched(&accepted), 0, "no worker died");
    books.match_objects(&fleet).await;
    books.match_counters(&[&steady, &worker], Counted::All).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_comes_and_goes_loses_nothing() {
    let Some((fleet, front, api)) = fleet("a database that comes and goes") else { return };
    let workers = [fleet.worker(), fleet.worker()];
    let mut accepted = submit(&api, "again", 0..RUNS / 2).await;
    fleet.database.cut();
    accepted.extend(submit(&api, "again", RUNS / 2..RUNS).await);
    fleet.database.crash();
    accepted.extend(submit(&api, "again", RUNS..2 * RUNS).await);
    fleet.database.cut();
    fleet.database.crash();
    assert_eq!(
        settle(&api, &accepted).await,
        Ends::from([("success exited".to_owned(), 2 * RUNS)])
    );
    nothing_is_running(&api).await;
    let books = Books::of(&fleet).await;
    books.hold(&accepted);
    books.match_objects(&fleet).await;
    books.match_counters(&[&front, &workers[0], &workers[1]], Counted::Some).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_store_that_comes_and_goes_ends_every_run_truthfully() {
    let Some((fleet, front, api)) = fleet("an object store that comes and goes") else { return };
    let worker = fleet.worker();
    let before = submit(&api, "echo", 0..RUNS).await;
    settle(&api, &before[..RUNS / 4]).await;
    let killed_at = store::now();
    fleet.objects.kill();
    let gone = api.get(&format!("/v1/executions/{}/files/note.txt", before[0].id)).await;
    assert_eq!(
        (gone.status().as_u16(), &gone.headers()["retry-after"]),
        (503, &"1".parse().expect("a value"))
    );
    let during = submit(&api, "echo", RUNS..RUNS + RUNS / 2).await;
    fleet.objects.start_again();
    let after = submit(&api, "echo", 2 * RUNS..3 * RUNS).await;
    let mut all: Vec<Accepted> = before.into_iter().chain(during).chain(after).collect();
    let ends = settle(&api, &all).await;
    assert_eq!(total(&ends), all.len());
    assert!(only_lost_or_success(&ends), "{ends:?}");
    nothing_is_running(&api).await;
    // It works again without anybody having restarted anything.
    let again = submit(&api, "echo", 3 * RUNS..3 * RUNS + 5).await;
    assert_eq!(settle(&api, &again).await, Ends::from([("success exited".to_owned(), 5)]));
    all.extend(again);
    let books = Books::of(&fleet).await;
    books.hold(&all);
    assert!(
        books.lost_at().all(|ended_at| ended_at >= killed_at),
        "something was lost while all was well"
    );
    books.match_objects(&fleet).await;
    books.match_counters(&[&front, &worker], Counted::All).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_that_sleeps_past_its_lease_changes_nothing_when_it_wakes() {
    let Some((fleet, front, api)) = fleet("a worker that sleeps past its lease") else { return };
    front.push("nap", "main.sh", "sleep 4\necho '\"rested\"' > \"$SANDBOX_OUTPUT\"\n");
    let sleeper = fleet.worker();
    let naps = submit(&api, "nap", 0..2).await;
    let napping =
        || descendants(sleeper.pid()).iter().filter(|process| process.name == "sleep").count();
    until("both nap", async || (napping() == 2).then_some(())).await;
    sleeper.signal(Signal::STOP);
    let steady = fleet.worker();
    let quick = submit(&api, "echo", 0..RUNS).await;
    assert_eq!(settle(&api, &quick).await, Ends::from([("success exited".to_owned(), RUNS)]));
    let lost = Ends::from([("failed lost".to_owned(), 2)]);
    assert_eq!(settle(&api, &naps).await, lost);
    sleeper.signal(Signal::CONT);
    until("the late results are refused", async || {
        (sleeper.log().matches("a late result was refused").count() == 2).then_some(())
    })
    .await;
    assert_eq!(settle(&api, &naps).await, lost, "a late result changed an end");
    let books = Books::of(&fleet).await;
    books.hold(naps.iter().chain(&quick));
    assert_eq!(books.touched(&quick), 0, "only what the sleeper held is its delay");
    books.match_objects(&fleet).await;
    books.match_counters(&[&front, &steady, &sleeper], Counted::All).await;
}

/// Everything has ended and the server knows it.
async fn nothing_is_running(api: &Api) {
    assert_eq!((api.count("running").await, api.count("queued").await), (0, 0));
}
