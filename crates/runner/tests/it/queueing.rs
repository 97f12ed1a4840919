//! More work than slots.

use std::sync::Arc;

use runner::{Caller, RunError};
use store::{Status, TenantId, TenantPolicy};

use crate::support::{Bench, SKILL_MD, acme, caller, package, request, until};

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
    let id = bench
        .runner
        .submit(&caller(), request(r#"{"skill":"demo"}"#), None)
        .await
        .expect("accepted");
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
    // Asynchronous requests take no waiter slot.
    let later = bench
        .runner
        .submit(&caller(), request(r#"{"skill":"demo"}"#), None)
        .await
        .expect("accepted");
    bench.launcher.open();
    for run in [first, second] {
        assert_eq!(run.await.expect("no panic").expect("an execution").status, Status::Success);
    }
    until(async || bench.stored(later).await.status.is_terminal().then_some(())).await;
}

#[tokio::test]
async fn a_flood_of_waiting_callers_of_one_tenant_keeps_no_other_tenant_out() {
    let bench = Bench::with(|config| (config.slots, config.max_waiting) = (1, 8)).await;
    let other = TenantId::try_from("other").expect("a tenant's name");
    bench.store.ensure_tenant(&other).await.expect("a tenant");
    bench.script("main.sh", "true").await;
    let files = package(&[("SKILL.md", SKILL_MD), ("main.sh", "true")]);
    bench
        .catalogue
        .publish(None, &other, files, &[], &TenantPolicy::default())
        .await
        .expect("published");
    bench.launcher.close();
    let first = bench.spawn(r#"{"skill":"demo"}"#, None);
    bench.one(Status::Running).await;
    let flood: Vec<_> = (0..40).map(|_| bench.spawn(r#"{"skill":"demo"}"#, None)).collect();
    // Half of the places are this tenant's.
    until(async || (flood.iter().filter(|run| run.is_finished()).count() == 36).then_some(()))
        .await;
    let refused = bench.try_run(r#"{"skill":"demo"}"#).await;
    assert!(matches!(refused, Err(RunError::TooBusy)), "{refused:?}");
    let runner = Arc::clone(&bench.runner);
    let caller = Caller { tenant: other, ..caller() };
    let served =
        tokio::spawn(
            async move { runner.execute(&caller, request(r#"{"skill":"demo"}"#), None).await },
        );
    until(async || (bench.store.queue_load().await.expect("a load").queued == 5).then_some(()))
        .await;
    bench.launcher.open();
    assert_eq!(
        served.await.expect("no panic").expect("an execution").execution.status,
        Status::Success
    );
    for run in flood.into_iter().chain([first]) {
        match run.await.expect("no panic") {
            Ok(execution) => assert_eq!(execution.status, Status::Success),
            Err(refused) => assert!(matches!(refused, RunError::TooBusy), "{refused:?}"),
        }
    }
}
