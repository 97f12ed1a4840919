//! Old executions are forgotten with their blobs; what runs is not touched.

use std::time::Duration;

use runner::Retention;
use store::Status;

use crate::support::{Bench, acme};

const HOUR: Duration = Duration::from_secs(3600);

fn in_hours(hours: i64) -> i64 {
    store::now() + hours * 3_600_000_000
}

#[tokio::test]
async fn artifacts_logs_and_rows_go_each_at_their_time() {
    let keep = Retention {
        executions: Some(HOUR * 30),
        logs: Some(HOUR * 20),
        artifacts: Some(HOUR * 10),
    };
    let bench = Bench::with(|config| config.retention = keep).await;
    bench.script("main.sh", "echo said; echo x > ${SANDBOX_FILES_DIR}a.txt").await;
    let before = bench.stored_bytes().await;
    let done = bench.run(r#"{"skill":"demo"}"#).await;
    assert!(done.has_archive);
    let mut stored = bench.stored_bytes().await;
    let look = async || bench.store.get_execution(&acme(), done.id).await.expect("answered");

    assert!(bench.runner.delete_expired(in_hours(9)).await.expect("on duty"));
    assert_eq!(
        look().await.map(|row| (row.has_archive, row.logs)),
        Some((true, "said\n".to_owned()))
    );
    bench.runner.delete_expired(in_hours(11)).await.expect("on duty");
    assert_eq!(
        look().await.map(|row| (row.has_archive, row.logs)),
        Some((false, "said\n".to_owned()))
    );
    let mut shrinks = async || {
        let now = bench.stored_bytes().await;
        assert!(now < std::mem::replace(&mut stored, now));
        now
    };
    shrinks().await;
    assert!(bench.execution_blobs().is_empty());
    assert!(bench.store.list_execution_files(&acme(), done.id).await.expect("listed").is_empty());
    bench.runner.delete_expired(in_hours(21)).await.expect("on duty");
    assert_eq!(look().await.map(|row| row.logs), Some(String::new()));
    bench.runner.delete_expired(in_hours(31)).await.expect("on duty");
    assert_eq!(look().await, None);
    assert_eq!(shrinks().await, before);
}

#[tokio::test]
async fn what_runs_or_waits_is_kept_whatever_its_age() {
    let keep = Retention {
        executions: Some(Duration::ZERO),
        logs: Some(Duration::ZERO),
        artifacts: Some(Duration::ZERO),
    };
    let bench = Bench::with(|config| (config.slots, config.retention) = (1, keep)).await;
    bench.script("main.sh", "echo x > ${SANDBOX_FILES_DIR}a.txt").await;
    bench.launcher.close();
    let running = bench.spawn(r#"{"skill":"demo"}"#, None);
    bench.one(Status::Running).await;
    let waiting = bench.spawn(r#"{"skill":"demo"}"#, None);
    bench.one(Status::Queued).await;
    bench.runner.delete_expired(in_hours(1)).await.expect("on duty");
    bench.launcher.open();
    for run in [running, waiting] {
        let run = run.await.expect("no panic").expect("an execution");
        assert_eq!((run.status, run.has_archive), (Status::Success, true));
    }
    bench.runner.delete_expired(in_hours(1)).await.expect("on duty");
    assert!(
        bench.with_status(Status::Success).await.is_empty() && bench.execution_blobs().is_empty()
    );
}

#[tokio::test]
async fn one_server_at_a_time_forgets() {
    let keep = Retention { executions: Some(HOUR), ..Retention::default() };
    let bench = Bench::with(|config| config.retention = keep).await;
    assert!(bench.runner.delete_expired(store::now()).await.expect("on duty"));
    assert!(
        !bench
            .store
            .acquire_or_renew_duty("retention duty", "another server", 1000)
            .await
            .expect("answered")
    );
    bench.runner.drain(Duration::ZERO).await;
    assert!(
        !bench.runner.delete_expired(store::now()).await.expect("answered"),
        "a closed runner has no duties"
    );
}
