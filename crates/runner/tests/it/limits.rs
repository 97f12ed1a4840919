//! What a tenant may not do, said with the time after which it may.

use runner::RunError;
use store::{Status, TenantPolicy};

use crate::support::{Bench, acme, caller, request};

async fn bench_with(policy: TenantPolicy) -> Bench {
    let bench = Bench::with(|config| config.slots = 1).await;
    assert!(bench.store.update_tenant_policy(&acme(), &policy).await.expect("updated"));
    bench.script("main.sh", "true").await;
    bench
}

#[tokio::test]
async fn more_than_the_rate_is_refused_and_told_when_to_come_back() {
    let bench =
        bench_with(TenantPolicy { rate_per_minute: Some(2), ..TenantPolicy::default() }).await;
    for _ in 0..2 {
        assert_eq!(bench.run(r#"{"skill":"demo"}"#).await.status, Status::Success);
    }
    let refused = bench.try_run(r#"{"skill":"demo"}"#).await;
    assert!(matches!(refused, Err(RunError::RateLimited { retry_after_s: 1..=30 })), "{refused:?}");
    assert_eq!(bench.with_status(Status::Success).await.len(), 2);
}

#[tokio::test]
async fn a_full_queue_takes_no_more() {
    let bench = bench_with(TenantPolicy { max_queued: Some(1), ..TenantPolicy::default() }).await;
    bench.launcher.close();
    let running = bench.spawn(r#"{"skill":"demo"}"#, None);
    bench.one(Status::Running).await;
    bench
        .runner
        .submit(&caller(), request(r#"{"skill":"demo"}"#), None)
        .await
        .expect("there is one place");
    let refused = bench.runner.submit(&caller(), request(r#"{"skill":"demo"}"#), None).await;
    assert!(matches!(refused, Err(RunError::QueueFull { retry_after_s: 1.. })), "{refused:?}");
    bench.launcher.open();
    assert_eq!(running.await.expect("no panic").expect("an execution").status, Status::Success);
}
