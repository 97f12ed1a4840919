//! Several runners on one Postgres, as several servers are.

use std::sync::Arc;
use std::time::Duration;

use blobs::Blobs;
use runner::{Event, EventId, EventKind, Runner};
use store::{CancelResult, LogStream, Status, Store};
use tempfile::TempDir;
use uuid::Uuid;

use crate::support::{Bench, acme, caller, parts, request, until};

/// One that only takes requests and one that only works, each with its own connections.
struct Pair {
    api: Arc<Runner>,
    worker: Bench,
    dsn: String,
}

impl Pair {
    async fn new() -> Pair {
        Pair::with_lease(Duration::from_secs(30)).await
    }

    async fn with_lease(lease: Duration) -> Pair {
        let dsn = tokio::task::spawn_blocking(crate::postgres::database).await.expect("a database");
        let data = TempDir::new().expect("a temporary directory");
        let blobs = Blobs::directory(data.path().join("blobs")).expect("blobs");
        let store = Store::open(&dsn).await.expect("a store");
        store.ensure_tenant(&acme()).await.expect("a tenant");
        let second = Store::open(&dsn).await.expect("the same store");
        let worker = Bench::on(data, store, blobs.clone(), |config| {
            (config.lease, config.reap_tick) = (lease, lease / 6)
        })
        .await;
        let mut config = crate::support::runner_config(format!("api-{}", Uuid::new_v4()));
        config.queue_tick = Duration::from_secs(600);
        let api = Runner::start(config, parts(second, blobs, None)).await.expect("a runner");
        Pair { api, worker, dsn }
    }

    async fn events(&self, of: &Arc<Runner>, id: Uuid, after: Option<EventId>) -> runner::Events {
        of.events(&acme(), id, after).await.expect("answered").expect("an execution")
    }
}

async fn next(events: &mut runner::Events) -> Option<Event> {
    let next = tokio::time::timeout(Duration::from_secs(60), events.next());
    next.await.expect("an event in time").map(|event| event.expect("no failure"))
}

/// The log that these events tell, to the end.
async fn log(events: &mut runner::Events) -> String {
    let mut log = String::new();
    while let Some(event) = next(events).await {
        if let EventKind::Log { text, .. } = event.kind {
            log.push_str(&text);
        }
    }
    log
}

#[tokio::test]
async fn what_one_accepts_another_runs_and_the_caller_is_told() {
    let pair = Pair::new().await;
    pair.worker.script("main.sh", "echo ran elsewhere").await;
    let ready = pair.api.ready().await;
    assert!(ready.ok() && ready.sandbox.is_none(), "{ready:?}");
    for _ in 0..3 {
        // Neither tick nor heartbeat comes to help: announcements do it all.
        let done = pair
            .api
            .execute(&caller(), request(r#"{"skill":"demo"}"#), None)
            .await
            .expect("an execution");
        assert_eq!(
            (done.execution.status, done.execution.logs.as_str()),
            (Status::Success, "ran elsewhere\n")
        );
    }
    assert_eq!(pair.worker.launcher.launches(), 3);
}

#[tokio::test]
async fn a_cut_connection_loses_nothing() {
    let pair = Pair::new().await;
    pair.worker.script("main.sh", "echo ran").await;
    for _ in 0..3 {
        let dsn = pair.dsn.clone();
        tokio::task::spawn_blocking(move || crate::postgres::cut_listeners(&dsn))
            .await
            .expect("cut");
        // Neither the worker's nor the caller's notification arrives until both have
        // looked again.
        let done = pair
            .api
            .execute(&caller(), request(r#"{"skill":"demo"}"#), None)
            .await
            .expect("an execution");
        assert_eq!(done.execution.logs, "ran\n");
    }
}

/// Every connection of both servers is cut again and again, in the middle of whatever they do.
#[tokio::test]
async fn a_database_that_is_cut_off_again_and_again_loses_and_repeats_nothing() {
    let pair = Pair::with_lease(Duration::from_secs(3)).await;
    let skill = crate::support::SKILL_MD.replace("---\nDo it", "idempotent: true\n---\nDo it");
    pair.worker
        .publish(&[
            ("SKILL.md", &skill),
            ("main.sh", "echo ran; echo x > ${SANDBOX_FILES_DIR}a.txt"),
        ])
        .await;
    let dsn = pair.dsn.clone();
    let cutting = tokio::task::spawn_blocking(move || {
        for _ in 0..25 {
            crate::postgres::cut_connections(&dsn);
            std::thread::sleep(Duration::from_millis(100));
        }
    });
    let mut ids = Vec::new();
    for n in 0..30 {
        // A caller whose connection failed asks again with the same key, and it is one execution.
        let key = format!("key {n}");
        let id = until(async || {
            let key = Some(crate::support::idempotency(&key));
            pair.api.submit(&caller(), request(r#"{"skill":"demo"}"#), key).await.ok()
        });
        ids.push(id.await);
    }
    cutting.await.expect("no panic");
    let mut distinct = ids.clone();
    distinct.sort();
    distinct.dedup();
    assert_eq!(distinct.len(), 30);
    for id in ids {
        let done = until(async || {
            let found = pair.worker.store.get_execution(&acme(), id).await.ok()??;
            found.status.is_terminal().then_some(found)
        });
        let done = done.await;
        assert_eq!(
            (done.status, done.logs.as_str(), done.has_archive),
            (Status::Success, "ran\n", true),
            "{done:?}"
        );
    }
    let all = pair.worker.with_status(Status::Success).await;
    assert_eq!(all.len(), 30);
}

#[tokio::test]
async fn a_cancel_reaches_the_running_worker_at_once() {
    // The heartbeat, which would bring it too, comes after minutes.
    let pair = Pair::with_lease(Duration::from_secs(600)).await;
    pair.worker.script("main.sh", "echo started; sleep 600").await;
    let id =
        pair.api.submit(&caller(), request(r#"{"skill":"demo"}"#), None).await.expect("accepted");
    until(async || pair.worker.with_status(Status::Running).await.pop().filter(|run| run.started))
        .await;
    assert_eq!(
        pair.api.cancel(&acme(), id).await.expect("answered"),
        Some(CancelResult::Requested)
    );
    let ended = until(async || pair.worker.with_status(Status::Cancelled).await.pop()).await;
    assert_eq!(ended.id, id);
}

#[tokio::test]
async fn a_caller_who_repeats_himself_on_another_server_is_told_too() {
    let pair = Pair::new().await;
    pair.worker.script("main.sh", "echo once").await;
    pair.worker.launcher.close();
    let first = pair.worker.spawn(r#"{"skill":"demo"}"#, Some("key"));
    pair.worker.one(Status::Running).await;
    let api = Arc::clone(&pair.api);
    let key = crate::support::idempotency("key");
    let again = tokio::spawn(async move {
        api.execute(&caller(), request(r#"{"skill":"demo"}"#), Some(key)).await
    });
    // It waits as soon as its wish to be told is stored; there is nothing to see of that from here
    // but the end.
    tokio::task::yield_now().await;
    pair.worker.launcher.open();
    let (first, again) = (
        first.await.expect("no panic").expect("done"),
        again.await.expect("no panic").expect("done"),
    );
    assert_eq!(
        (first.id, first.logs.as_str()),
        (again.execution.id, again.execution.logs.as_str())
    );
}

#[tokio::test]
async fn events_are_followed_and_taken_up_on_another_server() {
    let pair = Pair::new().await;
    pair.worker.script("main.py", TALKS_UNTIL_STOPPED).await;
    pair.worker.launcher.close();
    let id =
        pair.api.submit(&caller(), request(r#"{"skill":"demo"}"#), None).await.expect("accepted");
    let mut live = pair.events(&pair.api, id, None).await;
    let first = next(&mut live).await.expect("a state");
    assert!(matches!(first.kind, EventKind::State(Status::Queued | Status::Running)), "{first:?}");
    pair.worker.launcher.open();

    let mut seen = vec![first];
    let logged = loop {
        let event = next(&mut live).await.expect("more to come");
        seen.push(event.clone());
        if matches!(event.kind, EventKind::Log { .. }) {
            break event;
        }
    };
    // It still runs, and another reader continues after the last event, until it is stopped after the
    // next lines.
    assert_eq!(pair.worker.stored(id).await.status, Status::Running);
    let mut resumed = pair.events(&pair.worker.runner, id, Some(logged.id)).await;
    let mut rest = Vec::new();
    while let Some(event) = next(&mut resumed).await {
        if matches!(event.kind, EventKind::Log { .. }) {
            pair.api.cancel(&acme(), id).await.expect("answered");
        }
        rest.push(event);
    }
    let ids: Vec<EventId> = seen.iter().chain(&rest).map(|event| event.id).collect();
    assert!(ids.is_sorted_by(|one, next| one < next), "{ids:?}");
    let text: String = seen.iter().chain(&rest).filter_map(log_text).collect();
    let EventKind::Result(done) = &rest.last().expect("an end").kind else {
        panic!("no result: {rest:?}")
    };
    assert_eq!((done.status, done.logs.as_str()), (Status::Cancelled, text.as_str()));
    let lines = text.lines().count();
    assert_eq!(text, (0..lines).map(|n| format!("line {n}\n")).collect::<String>());

    // A reader that connects after the end reads the same, from any event.
    for after in [None, Some(logged.id), Some(ids[ids.len() - 2])] {
        let mut late = pair.events(&pair.api, id, after).await;
        let seen_bytes = after.map_or(0, |after| text_until(&seen, &rest, after));
        assert_eq!(log(&mut late).await, text[seen_bytes..]);
    }
    let mut over = pair.events(&pair.api, id, ids.last().copied()).await;
    assert_eq!(next(&mut over).await, None);
    assert!(pair.api.events(&acme(), Uuid::now_v7(), None).await.expect("answered").is_none());
}

const TALKS_UNTIL_STOPPED: &str = "
import itertools, time
for n in itertools.count():
    print('line', n, flush=True)
    time.sleep(0.1)
";

fn log_text(event: &Event) -> Option<String> {
    match &event.kind {
        EventKind::Log { text, stream } => {
            assert_eq!(*stream, LogStream::Merged);
            Some(text.clone())
        }
        _ => None,
    }
}

fn text_until(seen: &[Event], rest: &[Event], id: EventId) -> usize {
    seen.iter()
        .chain(rest)
        .filter(|event| event.id <= id)
        .filter_map(log_text)
        .map(|text| text.len())
        .sum()
}

#[tokio::test]
async fn a_run_that_nobody_follows_writes_no_pieces() {
    let pair = Pair::new().await;
    pair.worker.script("main.sh", "echo quiet").await;
    let done = pair
        .api
        .execute(&caller(), request(r#"{"skill":"demo"}"#), None)
        .await
        .expect("an execution");
    assert_eq!(
        pair.worker.store.read_log(&acme(), done.execution.id, 1, 0, 9).await.expect("read"),
        []
    );
    let mut late = pair.events(&pair.api, done.execution.id, None).await;
    assert_eq!(log(&mut late).await, "quiet\n");
}
