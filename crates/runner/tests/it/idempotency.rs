//! One key, one execution.

use runner::RunError;
use store::{Idempotency, Status};

use crate::support::{Bench, caller, idempotency, request};

#[tokio::test]
async fn parallel_callers_with_one_key_get_one_execution() {
    let bench = Bench::new().await;
    bench.script("main.sh", "echo once").await;
    let runs: Vec<_> = (0..8).map(|_| bench.spawn(r#"{"skill":"demo"}"#, Some("k"))).collect();
    let mut ids = Vec::new();
    for run in runs {
        let run = run.await.expect("no panic").expect("an execution");
        assert_eq!((run.status, run.logs.as_str()), (Status::Success, "once\n"));
        ids.push(run.id);
    }
    ids.dedup();
    assert_eq!((ids.len(), bench.launcher.launches()), (1, 1));
    // And a later one gets the stored result.
    let later = bench
        .spawn(r#"{"skill":"demo"}"#, Some("k"))
        .await
        .expect("no panic")
        .expect("an execution");
    assert_eq!((later.id, bench.launcher.launches()), (ids[0], 1));
}

#[tokio::test]
async fn the_same_key_with_another_body_is_refused() {
    let bench = Bench::new().await;
    bench.script("main.sh", "true").await;
    bench.spawn(r#"{"skill":"demo"}"#, Some("k")).await.expect("no panic").expect("an execution");
    let other = Idempotency { body_sha256: "other".to_owned(), ..idempotency("k") };
    let answer = bench.runner.execute(&caller(), request(r#"{"skill":"demo"}"#), Some(other)).await;
    assert!(matches!(answer, Err(RunError::IdempotencyMismatch)), "{answer:?}");
}

#[tokio::test]
async fn a_used_key_is_known_whatever_the_new_request_names() {
    let bench = Bench::new().await;
    bench.script("main.sh", "true").await;
    let first = bench
        .spawn(r#"{"skill":"demo"}"#, Some("k"))
        .await
        .expect("no panic")
        .expect("an execution");
    let other = Idempotency { body_sha256: "other".to_owned(), ..idempotency("k") };
    for unknown in [r#"{"skill":"gone"}"#, r#"{"skill":"demo","timeout_ms":0}"#] {
        let answer = bench.runner.execute(&caller(), request(unknown), Some(other.clone())).await;
        assert!(matches!(answer, Err(RunError::IdempotencyMismatch)), "{answer:?}");
        let answer = bench.runner.submit(&caller(), request(unknown), Some(other.clone())).await;
        assert!(matches!(answer, Err(RunError::IdempotencyMismatch)), "{answer:?}");
    }
    // The same body again is the same execution, though its skill was deleted meanwhile.
    let gone = bench
        .runner
        .execute(&caller(), request(r#"{"skill":"gone"}"#), Some(idempotency("k")))
        .await;
    assert_eq!(gone.expect("the earlier one").execution.id, first.id);
    let unused = bench
        .runner
        .execute(&caller(), request(r#"{"skill":"gone"}"#), Some(idempotency("new")))
        .await;
    assert!(matches!(unused, Err(RunError::UnknownSkill)), "{unused:?}");
}

#[tokio::test]
async fn a_caller_who_goes_away_does_not_stop_the_run() {
    let bench = Bench::new().await;
    bench.script("main.sh", "echo finished").await;
    bench.launcher.close();
    let impatient = bench.spawn(r#"{"skill":"demo"}"#, Some("k"));
    bench.launcher.launched(1).await;
    impatient.abort();
    assert!(impatient.await.is_err_and(|error| error.is_cancelled()));
    bench.launcher.open();
    let again = bench
        .spawn(r#"{"skill":"demo"}"#, Some("k"))
        .await
        .expect("no panic")
        .expect("an execution");
    assert_eq!((again.logs.as_str(), bench.launcher.launches()), ("finished\n", 1));
}
