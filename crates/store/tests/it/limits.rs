//! Limits of a tenant: queued executions and requests per minute.

use std::sync::Arc;
use std::time::Duration;

use store::{InitialState, InsertResult, NewExecution, TenantPolicy, now};
use tokio::task::JoinSet;

use crate::support::{LEASE_MS, TestStore, acme, idempotency, new_execution, on_both, other};

on_both!(
    max_queued_is_enforced,
    parallel_requests_respect_max_queued,
    hundred_parallel_requests_share_ten_tokens,
    tokens_refill_over_time,
);

async fn allow(store: &TestStore, policy: TenantPolicy) {
    assert!(store.update_tenant_policy(&acme(), &policy).await.expect("updated"));
}

async fn max_queued_is_enforced(store: TestStore) {
    allow(&store, TenantPolicy { max_queued: Some(2), ..TenantPolicy::default() }).await;
    let keyed = |key| NewExecution {
        idempotency: idempotency(key, "body"),
        ..new_execution(&acme(), InitialState::Queued)
    };
    for key in ["a", "b"] {
        assert_eq!(
            store.insert_within_limits(&keyed(key)).await.expect("stored"),
            InsertResult::New(None)
        );
    }
    assert_eq!(
        store.insert_within_limits(&keyed("c")).await.expect("answered"),
        InsertResult::QueueFull
    );
    assert_eq!(store.count_queued(&acme()).await.expect("counted"), 2);
    let again = store.insert_within_limits(&keyed("a")).await.expect("answered");
    assert!(matches!(again, InsertResult::Existing(_)), "a repetition takes no place: {again:?}");
    let free = store
        .insert_within_limits(&new_execution(&other(), InitialState::Queued))
        .await
        .expect("stored");
    assert_eq!(free, InsertResult::New(None), "other tenants have no limit");
    store.claim_next("w", LEASE_MS).await.expect("claimed").expect("one");
    store.claim_next("w", LEASE_MS).await.expect("claimed").expect("one");
    assert_eq!(
        store.insert_within_limits(&keyed("c")).await.expect("stored"),
        InsertResult::New(None)
    );
}

async fn parallel_requests_respect_max_queued(store: TestStore) {
    allow(&store, TenantPolicy { max_queued: Some(7), ..TenantPolicy::default() }).await;
    let stores = [Arc::new(store.second().await), Arc::new(store.second().await)];
    let mut requests = JoinSet::new();
    for n in 0..40 {
        let store = stores[n % 2].clone();
        requests.spawn(async move {
            store
                .insert_within_limits(&new_execution(&acme(), InitialState::Queued))
                .await
                .expect("answered")
        });
    }
    let taken = requests
        .join_all()
        .await
        .into_iter()
        .filter(|inserted| *inserted == InsertResult::New(None))
        .count();
    assert_eq!((taken, store.count_queued(&acme()).await.expect("counted")), (7, 7));
}

async fn hundred_parallel_requests_share_ten_tokens(store: TestStore) {
    allow(&store, TenantPolicy { rate_per_minute: Some(10), ..TenantPolicy::default() }).await;
    let stores = [Arc::new(store.second().await), Arc::new(store.second().await)];
    let now = now();
    let mut requests = JoinSet::new();
    for n in 0..100 {
        let store = stores[n % 2].clone();
        requests.spawn(async move {
            store.take_rate_limit_token(&acme(), now).await.expect("answered")
        });
    }
    let answers = requests.join_all().await;
    assert_eq!(answers.iter().filter(|answer| answer.is_ok()).count(), 10);
    assert!(
        answers.iter().flat_map(|answer| answer.err()).all(|wait| wait == Duration::from_secs(6))
    );
}

async fn tokens_refill_over_time(store: TestStore) {
    allow(&store, TenantPolicy { rate_per_minute: Some(2), ..TenantPolicy::default() }).await;
    let start = now();
    let take = async |seconds: i64| {
        store.take_rate_limit_token(&acme(), start + seconds * 1_000_000).await.expect("answered")
    };
    assert_eq!((take(0).await, take(0).await), (Ok(()), Ok(())));
    assert_eq!(take(10).await, Err(Duration::from_secs(20)));
    assert_eq!((take(30).await, take(31).await), (Ok(()), Err(Duration::from_secs(29))));
    assert_eq!(
        store.take_rate_limit_token(&other(), start).await.expect("answered"),
        Ok(()),
        "others have no limit"
    );
    allow(&store, TenantPolicy::default()).await;
    assert_eq!(take(31).await, Ok(()));
}
