//! Who gets to run what is queued.

use std::collections::HashSet;
use std::sync::Arc;

use store::{Status, TenantId, TenantPolicy};
use tokio::task::JoinSet;

use crate::support::{LEASE_MS, TestStore, acme, finished, on_both, other};

on_both!(
    a_claim_takes_the_oldest_and_raises_the_token,
    parallel_claims_take_each_execution_once,
    a_long_queue_does_not_starve_others,
    a_newcomer_is_served_next,
    a_tenant_runs_no_more_than_its_policy_allows,
    parallel_claims_keep_to_the_policy,
);

async fn claim(store: &TestStore) -> Option<TenantId> {
    let claimed = store.claim_next("worker", LEASE_MS).await.expect("claimed");
    claimed.map(|(execution, _)| execution.tenant)
}

async fn a_claim_takes_the_oldest_and_raises_the_token(store: TestStore) {
    assert_eq!(claim(&store).await, None);
    let first = store.queue(&acme()).await;
    let second = store.queue(&acme()).await;
    let (execution, lease) = store.claim_next("w1", LEASE_MS).await.expect("claimed").expect("one");
    assert_eq!((execution.id, lease.execution_id, lease.token), (first, first, 1));
    assert_eq!((execution.status, execution.attempt), (Status::Running, 1));
    assert_eq!(execution.request, r#"{"skill":"echo"}"#, "a worker needs the documents");
    assert_eq!(execution, store.execution(&acme(), first).await);
    assert_eq!(lease.owner, "w1");
    let (execution, _) = store.claim_next("w2", LEASE_MS).await.expect("claimed").expect("one");
    assert_eq!(execution.id, second);
    assert_eq!(claim(&store).await, None);
}

async fn parallel_claims_take_each_execution_once(store: TestStore) {
    let mut queued = HashSet::new();
    for n in 0..60 {
        let tenant = if n % 3 == 0 { other() } else { acme() };
        queued.insert(store.queue(&tenant).await);
    }
    let stores = [Arc::new(store.second().await), Arc::new(store.second().await)];
    let mut workers = JoinSet::new();
    for n in 0..12 {
        let store = stores[n % 2].clone();
        workers.spawn(async move {
            let owner = format!("worker{n}");
            let mut claimed = Vec::new();
            // None may mean that others hold what is left, so everybody counts to the end.
            while let Some((execution, lease)) = store.claim_next(&owner, LEASE_MS).await.expect("claimed") {
                assert_eq!((execution.attempt, lease.token), (1, 1));
                claimed.push(execution.id);
            }
            claimed
        });
    }
    let claimed: Vec<_> = workers.join_all().await.into_iter().flatten().collect();
    assert_eq!(claimed.len(), queued.len(), "none twice");
    assert_eq!(claimed.into_iter().collect::<HashSet<_>>(), queued, "none left");
}

async fn a_long_queue_does_not_starve_others(store: TestStore) {
    for _ in 0..6 {
        store.queue(&acme()).await;
    }
    for _ in 0..3 {
        store.queue(&other()).await;
    }
    let mut order = Vec::new();
    while let Some(tenant) = claim(&store).await {
        order.push(tenant.to_string());
    }
    let fair = ["acme", "other", "acme", "other", "acme", "other", "acme", "acme", "acme"];
    assert_eq!(order, fair);
}

async fn a_newcomer_is_served_next(store: TestStore) {
    for _ in 0..4 {
        store.queue(&acme()).await;
        store.queue(&other()).await;
    }
    for _ in 0..3 {
        claim(&store).await;
    }
    let newcomer = TenantId::try_from("zulu").expect("a good name");
    store.ensure_tenant(&newcomer).await.expect("a tenant");
    store.queue(&newcomer).await;
    assert_eq!(claim(&store).await, Some(newcomer));
}

async fn limit(store: &TestStore, max_concurrent: u32) {
    let policy = TenantPolicy { max_concurrent: Some(max_concurrent), ..TenantPolicy::default() };
    assert!(store.update_tenant_policy(&acme(), &policy).await.expect("updated"));
}

async fn a_tenant_runs_no_more_than_its_policy_allows(store: TestStore) {
    limit(&store, 2).await;
    let lease = store.run(&acme()).await;
    for _ in 0..3 {
        store.queue(&acme()).await;
    }
    store.queue(&other()).await;
    assert_eq!(claim(&store).await, Some(acme()));
    assert_eq!(claim(&store).await, Some(other()));
    assert_eq!(claim(&store).await, None, "two of acme's are running");
    store.finish(&lease, &finished(Status::Success)).await.expect("finished");
    assert_eq!(claim(&store).await, Some(acme()));
    limit(&store, 0).await;
    assert_eq!(claim(&store).await, None);
}

async fn parallel_claims_keep_to_the_policy(store: TestStore) {
    limit(&store, 3).await;
    for _ in 0..20 {
        store.queue(&acme()).await;
    }
    let second = Arc::new(store.second().await);
    let mut workers = JoinSet::new();
    for _ in 0..12 {
        let store = second.clone();
        workers.spawn(async move { store.claim_next("worker", LEASE_MS).await.expect("claimed").is_some() });
    }
    let claimed = workers.join_all().await.into_iter().filter(|claimed| *claimed).count();
    assert_eq!(claimed, 3);
    assert_eq!(store.count_running(&acme()).await.expect("counted"), 3);
}
