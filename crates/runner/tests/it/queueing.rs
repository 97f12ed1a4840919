//! More work than slots.

use runner::RunError;
use store::{Status, TenantPolicy};

use crate::support::{Bench, acme, caller, request, until};

#[tokio::test]
async fn what_finds_no_slot_is_queued_and_runs_when_one_is_free() {
    let bench = Bench::with(|config| config.slots = 1).await;
    bench.script("main.sh", "echo \"$SANDBOX_INPUT\"").await;
    bench.launcher.close();
    let first = bench.spawn(r#"{"skill":"demo","input":1}"#, None);
    bench.one(Status::Running).await;
    let second = bench.spawn(r#"{"skill":"demo","input":2}"#, None);
    bench.one(Status::Queued).await;
    assert_eq!(bench.launcher.launches(), 1);
    bench.launcher.open();
    let first = first.await.expect("no panic").expect("an execution");
    let second = second.await.expect("no panic").expect("an execution");
    assert_eq!((first.logs.as_str(), second.logs.as_str()), ("1\n", "2\n"));
    assert_eq!((second.status, second.attempt), (Status::Success, 1));
}

#[tokio::test]
async fn a_submitted_run_is_carried_out_without_its_caller() {
    let bench = Bench::new().await;
    bench.script("main.sh", "echo later").await;
    let id = bench.runner.submit(&caller(), request(r#"{"skill":"demo"}"#), None).await.expect("accepted");
    let done = bench.one(Status::Success).await;
    assert_eq!((done.id, bench.stored(id).await.logs.as_str()), (id, "later\n"));
}

#[tokio::test]
async fn a_tenants_limit_holds_for_synchronous_runs() {
    let bench = Bench::with(|config| config.slots = 4).await;
    let policy = TenantPolicy { max_concurrent: Some(1), ..TenantPolicy::default() };
    assert!(bench.store.update_tenant_policy(&acme(), &policy).await.expect("updated"));
    bench.script("main.sh", "true").await;
    bench.launcher.close();
    let runs: Vec<_> = (0..3).map(|_| bench.spawn(r#"{"skill":"demo"}"#, None)).collect();
    bench.launcher.launched(1).await;
    until(async || (bench.with_status(Status::Queued).await.len() == 2).then_some(())).await;
    assert_eq!((bench.with_status(Status::Running).await.len(), bench.launcher.launches()), (1, 1));
    bench.launcher.open();
    for run in runs {
        assert_eq!(run.await.expect("no panic").expect("an execution").status, Status::Success);
    }
}

#[tokio::test]
async fn too_many_waiting_callers_are_sent_away() {
    let bench = Bench::with(|config| (config.slots, config.max_waiting) = (1, 1)).await;
    bench.script("main.sh", "true").await;
    bench.launcher.close();
    let first = bench.spawn(r#"{"skill":"demo"}"#, None);
    bench.one(Status::Running).await;
    let second = bench.spawn(r#"{"skill":"demo"}"#, None);
    bench.one(Status::Queued).await;
    let third = bench.try_run(r#"{"skill":"demo"}"#).await;
    assert!(matches!(third, Err(RunError::TooBusy)), "{third:?}");
    bench.launcher.open();
    for run in [first, second] {
        assert_eq!(run.await.expect("no panic").expect("an execution").status, Status::Success);
    }
}
