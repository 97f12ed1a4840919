//! Runs that are told to end: by a caller, or by the end of the server.

use std::time::Duration;

use runner::RunError;
use store::{CancelResult, Status};
use uuid::Uuid;

use crate::support::{Bench, acme, caller, open, request};

#[tokio::test]
async fn a_running_execution_is_stopped_and_keeps_what_it_wrote() {
    let bench = Bench::new().await;
    bench.script("main.sh", "echo started; sleep 600").await;
    let run = bench.spawn(r#"{"skill":"demo"}"#, None);
    let id = bench.one(Status::Running).await.id;
    assert_eq!(
        bench.runner.cancel(&acme(), id).await.expect("answered"),
        Some(CancelResult::Requested)
    );
    let run = run.await.expect("no panic").expect("an execution");
    assert_eq!((run.status, run.outcome.as_deref()), (Status::Cancelled, Some("cancelled")));
    assert_eq!(
        bench.runner.cancel(&acme(), id).await.expect("answered"),
        Some(CancelResult::AlreadyFinished)
    );
    assert_eq!(bench.runner.cancel(&acme(), Uuid::now_v7()).await.expect("answered"), None);
}

#[tokio::test]
async fn a_queued_execution_ends_at_once_and_its_caller_is_told() {
    let bench = Bench::with(|config| config.slots = 1).await;
    bench.script("main.sh", "true").await;
    bench.launcher.close();
    let first = bench.spawn(r#"{"skill":"demo"}"#, None);
    bench.one(Status::Running).await;
    let second = bench.spawn(r#"{"skill":"demo"}"#, None);
    let id = bench.one(Status::Queued).await.id;
    assert_eq!(
        bench.runner.cancel(&acme(), id).await.expect("answered"),
        Some(CancelResult::Cancelled)
    );
    let second = second.await.expect("no panic").expect("an execution");
    assert_eq!((second.id, second.status), (id, Status::Cancelled));
    bench.launcher.open();
    assert_eq!(first.await.expect("no panic").expect("an execution").status, Status::Success);
    assert_eq!(bench.launcher.launches(), 1);
}

#[tokio::test]
async fn a_cancel_request_that_did_not_come_through_this_runner_is_announced_to_it() {
    let bench = Bench::with(|config| config.lease = Duration::from_secs(600)).await;
    bench.script("main.sh", "sleep 600").await;
    let run = bench.spawn(r#"{"skill":"demo"}"#, None);
    let id = bench.one(Status::Running).await.id;
    // Straight to the store, as another server would; the next heartbeat is minutes away.
    assert_eq!(
        bench.store.request_cancel(&acme(), id).await.expect("answered"),
        Some(CancelResult::Requested)
    );
    assert_eq!(run.await.expect("no panic").expect("an execution").status, Status::Cancelled);
}

#[tokio::test]
async fn a_cancel_request_that_was_never_announced_comes_with_the_heartbeat() {
    let bench = Bench::with(|config| config.lease = Duration::from_millis(600)).await;
    bench.script("main.sh", "sleep 600").await;
    let run = bench.spawn(r#"{"skill":"demo"}"#, None);
    let id = bench.one(Status::Running).await.id;
    // SQLite announces nothing to other processes, and this handle stands for one.
    let (other, _) = open(bench.data.path()).await;
    assert_eq!(
        other.request_cancel(&acme(), id).await.expect("answered"),
        Some(CancelResult::Requested)
    );
    assert_eq!(run.await.expect("no panic").expect("an execution").status, Status::Cancelled);
}

#[tokio::test]
async fn what_is_asked_before_the_start_and_announced_to_nobody_is_heeded_at_the_start() {
    let bench = Bench::with(|config| config.lease = Duration::from_secs(600)).await;
    bench.script("main.sh", "echo begun; sleep \"$SECONDS_TO_SLEEP\"").await;
    bench.launcher.close();
    let submit = async |seconds| {
        let asked = format!(r#"{{"skill":"demo","env":{{"SECONDS_TO_SLEEP":"{seconds}"}}}}"#);
        bench.runner.submit(&caller(), request(&asked), None).await.expect("accepted")
    };
    let (followed, cancelled) = (submit("0").await, submit("600").await);
    bench.launcher.launched(2).await;
    let (other, _) = open(bench.data.path()).await;
    assert!(other.mark_watched(&acme(), followed).await.expect("answered"));
    assert_eq!(
        other.request_cancel(&acme(), cancelled).await.expect("answered"),
        Some(CancelResult::Requested)
    );
    bench.launcher.open();
    let end = async |id| bench.runner.wait(&acme(), id).await.expect("an execution");
    assert_eq!(end(cancelled).await.status, Status::Cancelled);
    assert_eq!(end(followed).await.status, Status::Success);
    let pieces = bench.store.read_log(&acme(), followed, 1, 0, 9).await.expect("read");
    assert_eq!(pieces.iter().map(|piece| piece.text.as_str()).collect::<String>(), "begun\n");
}

#[tokio::test]
async fn a_drain_waits_for_what_runs_and_takes_nothing_new() {
    let bench = Bench::new().await;
    bench.script("main.sh", "sleep 0.3; echo done").await;
    let run = bench.spawn(r#"{"skill":"demo"}"#, None);
    bench.one(Status::Running).await;
    bench.runner.drain(Duration::from_secs(600)).await;
    let run = run.await.expect("no panic").expect("an execution");
    assert_eq!((run.status, run.logs.as_str()), (Status::Success, "done\n"));
    assert!(matches!(bench.try_run(r#"{"skill":"demo"}"#).await, Err(RunError::ShuttingDown)));
    let submitted = bench.runner.submit(&caller(), request(r#"{"skill":"demo"}"#), None).await;
    assert!(matches!(submitted, Err(RunError::ShuttingDown)));
}

#[tokio::test]
async fn what_outlasts_the_drain_is_lost_and_what_waits_stays_queued() {
    let bench = Bench::with(|config| config.slots = 1).await;
    bench.script("main.sh", "sleep 600").await;
    let running = bench.spawn(r#"{"skill":"demo"}"#, None);
    bench.one(Status::Running).await;
    let waiting = bench.spawn(r#"{"skill":"demo"}"#, None);
    bench.one(Status::Queued).await;
    bench.runner.drain(Duration::from_millis(50)).await;
    let running = running.await.expect("no panic").expect("an execution");
    assert_eq!((running.status, running.outcome.as_deref()), (Status::Failed, Some("lost")));
    assert_eq!(running.error.as_deref(), Some("The server shut down before the script ended."));
    assert!(matches!(waiting.await.expect("no panic"), Err(RunError::ShuttingDown)));
    assert_eq!(bench.with_status(Status::Queued).await.len(), 1);
}
