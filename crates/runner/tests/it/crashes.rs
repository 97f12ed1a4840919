//! Workers that die, stall or wake up late: every accepted execution ends once, and nothing is left
//! of the others.

use std::time::Duration;

use blobs::BlobKey;
use bytes::Bytes;
use store::{InitialState, NewExecution, ReapedExecution, StaleLeases, Status};
use tempfile::TempDir;
use uuid::Uuid;

use crate::support::{Bench, SKILL_MD, acme, caller, open, package, request, until};

#[tokio::test]
async fn a_late_result_is_refused_and_its_blobs_are_removed() {
    let bench = Bench::new().await;
    bench.script("main.sh", "echo late; echo x > ${SANDBOX_FILES_DIR}a.txt").await;
    bench.launcher.close();
    let late = bench.spawn(r#"{"skill":"demo"}"#, None);
    let id = started(&bench).await;
    // Another process believes that this one is dead.
    let reaped = reap(&bench).await;
    assert_eq!((reaped.len(), reaped[0].requeued), (1, false));
    bench.launcher.open();
    let answered = late.await.expect("no panic").expect("an execution");
    assert_eq!(
        (answered.id, answered.status, answered.outcome.as_deref()),
        (id, Status::Failed, Some("lost"))
    );
    assert_eq!(answered.logs, "");
    assert!(bench.execution_blobs().is_empty(), "{:?}", bench.execution_blobs());
    assert!(bench.store.list_execution_files(&acme(), id).await.expect("files").is_empty());
}

#[tokio::test]
async fn a_run_whose_lease_is_gone_is_stopped_by_the_heartbeat() {
    let bench = Bench::with(|config| config.lease = Duration::from_millis(600)).await;
    bench.script("main.sh", "sleep 600").await;
    let run = bench.spawn(r#"{"skill":"demo"}"#, None);
    started(&bench).await;
    reap(&bench).await;
    let answered = run.await.expect("no panic").expect("an execution");
    assert_eq!((answered.status, answered.outcome.as_deref()), (Status::Failed, Some("lost")));
}

#[tokio::test]
async fn a_restart_ends_or_repeats_what_a_dead_process_left() {
    let data = TempDir::new().expect("a temporary directory");
    let (store, blobs) = open(data.path()).await;
    store.ensure_tenant(&acme()).await.expect("a tenant");
    let digest = package(&[("SKILL.md", SKILL_MD), ("main.sh", "echo recovered")]).digest;
    let [started, unstarted, queued] = [(); 3].map(|()| Uuid::now_v7());
    for (id, running) in [(started, true), (unstarted, true), (queued, false)] {
        let dead =
            InitialState::Running { owner: "dead".to_owned(), lease_ms: 3_600_000, started: false };
        let initial_state = if running { dead } else { InitialState::Queued };
        let inserted =
            store.insert_execution(&accepted(id, &digest, initial_state)).await.expect("inserted");
        if id == started {
            let store::InsertResult::New(Some(lease)) = inserted else { panic!("no lease") };
            assert!(store.mark_started(&lease).await.expect("marked").is_some());
            blobs
                .put(&BlobKey::artifact("acme", id, "half.txt"), Bytes::from("half"))
                .await
                .expect("stored");
        }
    }
    // The archive is there before the runner starts, as it would be.
    let first = Bench::on(data, store.clone(), blobs.clone(), |config| config.slots = 0).await;
    first.script("main.sh", "echo recovered").await;
    let Bench { runner, data, .. } = first;
    runner.drain(Duration::ZERO).await;

    let bench = Bench::on(data, store, blobs, |config| config.exclusive_store = true).await;
    let lost = bench.stored(started).await;
    assert_eq!((lost.status, lost.outcome.as_deref()), (Status::Failed, Some("lost")));
    assert!(bench.execution_blobs().is_empty());
    until(async || (bench.with_status(Status::Success).await.len() == 2).then_some(())).await;
    let (repeated, late) = (bench.stored(unstarted).await, bench.stored(queued).await);
    assert_eq!((repeated.logs.as_str(), repeated.attempt), ("recovered\n", 2));
    assert_eq!((late.logs.as_str(), late.attempt), ("recovered\n", 1));
}

#[tokio::test]
async fn what_a_dying_reaper_did_not_clear_the_next_one_does() {
    let data = TempDir::new().expect("a temporary directory");
    let (store, blobs) = open(data.path()).await;
    store.ensure_tenant(&acme()).await.expect("a tenant");
    let id = Uuid::now_v7();
    let initial_state =
        InitialState::Running { owner: "dead".to_owned(), lease_ms: 3_600_000, started: true };
    store.insert_execution(&accepted(id, "sha256:none", initial_state)).await.expect("inserted");
    blobs
        .put(&BlobKey::artifact("acme", id, "half.txt"), Bytes::from("half"))
        .await
        .expect("stored");
    // It fenced the execution, and then it died.
    store.fence(StaleLeases::NotOwnedBy("first"), "first-reaper", 3_600_000).await.expect("fenced");

    let bench = Bench::on(data, store, blobs, |config| config.exclusive_store = true).await;
    let lost = bench.stored(id).await;
    assert_eq!((lost.status, lost.outcome.as_deref()), (Status::Failed, Some("lost")));
    assert!(bench.execution_blobs().is_empty());
}

#[tokio::test]
async fn an_idempotent_skill_is_run_again_and_its_late_worker_disturbs_nothing() {
    let bench = Bench::with(|config| config.slots = 2).await;
    let skill = SKILL_MD.replace("---\nDo it", "idempotent: true\n---\nDo it");
    let script = "echo \"$TOKEN\"; echo x > ${SANDBOX_FILES_DIR}a.txt";
    bench.publish(&[("SKILL.md", &skill), ("main.sh", script)]).await;
    bench.launcher.close();
    let caller = bench.spawn(r#"{"skill":"demo","env":{"TOKEN":"hunter2"}}"#, None);
    let id = started(&bench).await;
    let stored = bench.stored(id).await.request;
    assert!(
        stored.contains(r#""env":"v1."#) && !stored.contains("hunter2"),
        "what a second run needs is sealed: {stored}"
    );
    let reaped = reap(&bench).await;
    assert_eq!((reaped.len(), reaped[0].requeued), (1, true));
    bench.launcher.launched(2).await;
    bench.launcher.open();
    let done = caller.await.expect("no panic").expect("an execution");
    assert_eq!((done.status, done.attempt, done.logs.as_str()), (Status::Success, 2, "hunter2\n"));
    assert_eq!(bench.stored(id).await.request, "", "and goes with the end");
    // Both attempts had their say by the time the drain is over.
    bench.runner.drain(Duration::from_secs(60)).await;
    let file = bench.store.list_execution_files(&acme(), id).await.expect("listed").remove(0);
    let key = BlobKey::parse(&file.blob_key).expect("a key");
    assert_eq!(bench.blobs.get(&key, 100).await.expect("readable").as_deref(), Some(&b"x\n"[..]));
    let archive = runner::archive_key(&bench.stored(id).await).expect("an archive");
    assert!(bench.blobs.get(&archive, 10_000).await.expect("readable").is_some());
    assert_eq!(
        bench.execution_blobs().len(),
        2,
        "nothing is left of the other: {:?}",
        bench.execution_blobs()
    );
}

#[tokio::test]
async fn an_engine_that_is_away_for_a_while_costs_time_and_no_execution() {
    let bench = Bench::with(|config| config.slots = 1).await;
    bench.script("main.sh", "echo at last").await;
    // More failures than one call retries.
    bench.launcher.fail(5);
    let id = bench
        .runner
        .submit(&caller(), request(r#"{"skill":"demo"}"#), None)
        .await
        .expect("accepted");
    let done = bench.one(Status::Success).await;
    let done = (done.id, done.attempt, bench.stored(id).await.logs);
    assert_eq!(done, (id, 2, "at last\n".to_owned()));
}

#[tokio::test]
async fn an_engine_that_is_away_for_longer_is_waited_for_and_costs_one_attempt() {
    let bench =
        Bench::with(|config| (config.slots, config.probe_every) = (1, Duration::ZERO)).await;
    bench.script("main.sh", "echo at last").await;
    bench.launcher.be_away(true);
    let id = bench
        .runner
        .submit(&caller(), request(r#"{"skill":"demo"}"#), None)
        .await
        .expect("accepted");
    let waited = tokio::time::timeout(Duration::from_secs(60), bench.launcher.probed(4));
    waited.await.expect("it is asked whether the engine is back");
    let launches = bench.launcher.launches();
    bench.launcher.be_away(false);
    let done = bench.one(Status::Success).await;
    assert_eq!((done.id, done.attempt, bench.launcher.launches()), (id, 2, launches + 1));
}

#[tokio::test]
async fn a_caller_who_waits_gets_a_result_although_no_sandbox_could_be_had_at_first() {
    let bench = Bench::with(|config| config.slots = 1).await;
    bench.script("main.sh", "echo $WORD").await;
    bench.launcher.fail(5);
    let done = bench.run(r#"{"skill":"demo","env":{"WORD":"hunter2"}}"#).await;
    assert_eq!(
        (done.status, done.attempt, done.logs.as_str()),
        (Status::Success, 2, "hunter2\n"),
        "{:?}",
        done.error
    );
    assert_eq!(bench.stored(done.id).await.request, "", "what it needed goes with its end");
}

#[tokio::test]
async fn an_altered_archive_is_refused_and_goes_on_record() {
    let bench = Bench::new().await;
    bench.script("main.sh", "echo never").await;
    let digest = package(&[("SKILL.md", SKILL_MD), ("main.sh", "echo never")]).digest;
    let key = BlobKey::skill("acme", &digest);
    let mut bytes =
        bench.blobs.get(&key, 1 << 20).await.expect("readable").expect("stored").to_vec();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    bench.blobs.put(&key, Bytes::from(bytes)).await.expect("stored");
    let run = bench.run(r#"{"skill":"demo"}"#).await;
    assert_eq!((run.status, run.outcome.as_deref()), (Status::Failed, Some("refused")));
    assert!(run.error.as_deref().is_some_and(|error| error.contains("digest")), "{:?}", run.error);
    let trail = bench
        .store
        .list_audit_records(&acme(), &store::PageRequest::default())
        .await
        .expect("listed");
    assert_eq!(
        (trail[0].action.as_str(), trail[0].object.as_str()),
        ("skill.altered", digest.as_str())
    );
    assert_eq!(bench.launcher.launches(), 0);
}

/// The running execution, as soon as it may no longer be taken up by another worker.
async fn started(bench: &Bench) -> Uuid {
    until(async || bench.with_status(Status::Running).await.pop().filter(|run| run.started))
        .await
        .id
}

/// What a process does that believes every worker dead.
async fn reap(bench: &Bench) -> Vec<ReapedExecution> {
    bench.store.fence(StaleLeases::ExpiredAt(i64::MAX), "other", 60_000).await.expect("fenced");
    bench.store.reap("other", 3).await.expect("reaped")
}

fn accepted(id: Uuid, digest: &str, initial_state: InitialState) -> NewExecution {
    NewExecution {
        id,
        tenant: acme(),
        key_id: None,
        skill_name: "demo".to_owned(),
        skill_version: "1.0.0".to_owned(),
        digest: digest.to_owned(),
        input: None,
        request: r#"{"skill":"demo"}"#.to_owned(),
        idempotency: None,
        idempotent: false,
        awaited: false,
        webhook: None,
        initial_state,
    }
}
