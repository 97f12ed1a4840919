//! Claims: which worker gets which queued execution.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use sqlx::{Connection, Executor, PgConnection};
use store::{Status, TenantId, TenantPolicy};
use tokio::task::JoinSet;

use crate::support::{LEASE_MS, TestStore, acme, finished, on_both, other};

on_both!(
    claim_takes_the_oldest_and_raises_the_token,
    parallel_claims_take_each_execution_once,
    long_queue_does_not_starve_other_tenants,
    new_tenant_is_served_next,
    flood_of_one_tenant_leaves_others_their_turn,
    weights_share_the_workers,
    idle_tenant_saves_no_credit,
    max_concurrent_is_enforced,
    parallel_claims_respect_max_concurrent,
);

async fn claim(store: &TestStore) -> Option<TenantId> {
    let claimed = store.claim_next("worker", LEASE_MS).await.expect("claimed");
    claimed.map(|(execution, _)| execution.tenant)
}

async fn claim_takes_the_oldest_and_raises_the_token(store: TestStore) {
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
            // None may also mean that other workers have locked the remaining rows; each execution is
            // counted by the worker that claimed it.
            while let Some((execution, lease)) =
                store.claim_next(&owner, LEASE_MS).await.expect("claimed")
            {
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

async fn long_queue_does_not_starve_other_tenants(store: TestStore) {
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

async fn new_tenant_is_served_next(store: TestStore) {
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

async fn flood_of_one_tenant_leaves_others_their_turn(store: TestStore) {
    for _ in 0..2000 {
        store.queue(&acme()).await;
    }
    for _ in 0..50 {
        claim(&store).await;
    }
    for _ in 0..5 {
        store.queue(&other()).await;
    }
    let mut order = Vec::new();
    for _ in 0..10 {
        order.push(claim(&store).await.expect("one waits"));
    }
    assert_eq!(order.iter().filter(|tenant| **tenant == other()).count(), 5, "{order:?}");
    assert!(order[..2].contains(&other()), "{order:?}");
}

async fn weigh(store: &TestStore, tenant: &TenantId, weight: u32) {
    let policy = TenantPolicy { weight, ..TenantPolicy::default() };
    assert!(store.update_tenant_policy(tenant, &policy).await.expect("updated"));
}

async fn weights_share_the_workers(store: TestStore) {
    weigh(&store, &other(), 3).await;
    for _ in 0..100 {
        store.queue(&acme()).await;
        store.queue(&other()).await;
    }
    for claims in 1..=100 {
        claim(&store).await;
        let of_other = store.count_running(&other()).await.expect("counted");
        let share = claims * 3 / 4;
        assert!((of_other - share).abs() <= 2, "{of_other} of {claims}");
    }
}

async fn idle_tenant_saves_no_credit(store: TestStore) {
    // `other` was served once, long ago, and `acme` often since then.
    store.queue(&other()).await;
    for _ in 0..60 {
        store.queue(&acme()).await;
    }
    for _ in 0..41 {
        claim(&store).await;
    }
    for _ in 0..20 {
        store.queue(&other()).await;
    }
    let mut of_other = 0;
    for claims in 1..=20 {
        of_other += i64::from(claim(&store).await == Some(other()));
        assert!((2 * of_other - claims).abs() <= 2, "{of_other} of {claims}");
    }
}

async fn limit(store: &TestStore, max_concurrent: u32) {
    let policy = TenantPolicy { max_concurrent: Some(max_concurrent), ..TenantPolicy::default() };
    assert!(store.update_tenant_policy(&acme(), &policy).await.expect("updated"));
}

async fn max_concurrent_is_enforced(store: TestStore) {
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

async fn parallel_claims_respect_max_concurrent(store: TestStore) {
    limit(&store, 3).await;
    for _ in 0..20 {
        store.queue(&acme()).await;
    }
    let second = Arc::new(store.second().await);
    let mut workers = JoinSet::new();
    for _ in 0..12 {
        let store = second.clone();
        workers.spawn(async move {
            store.claim_next("worker", LEASE_MS).await.expect("claimed").is_some()
        });
    }
    let claimed = workers.join_all().await.into_iter().filter(|claimed| *claimed).count();
    assert_eq!(claimed, 3);
    assert_eq!(store.count_running(&acme()).await.expect("counted"), 3);
}

/// A claim reads only the front of the queue, however long it is, even when the statistics of
/// Postgres date from a time with an empty queue.
#[tokio::test]
async fn claim_reads_few_rows_of_a_long_queue() {
    let store = TestStore::postgres().await;
    let mut look = PgConnection::connect(&store.dsn).await.expect("open");
    for statement in [
        "INSERT INTO executions (id, tenant, skill_name, skill_version, digest, status, attempt, token, created_at, \
             finished_at, request) \
         SELECT gen_random_uuid()::text, 'acme', 'echo', '1.0.0', 'd', 'success', 1, 1, n, n, '' \
         FROM generate_series(1, 2000) AS n",
        "ANALYZE executions",
        "INSERT INTO executions (id, tenant, skill_name, skill_version, digest, status, attempt, token, created_at, request) \
         SELECT gen_random_uuid()::text, 'acme', 'echo', '1.0.0', 'd', 'queued', 0, 0, n, '' \
         FROM generate_series(1, 2000) AS n",
    ] {
        look.execute(statement).await.expect("executed");
    }
    let worker = store.second().await;
    assert!(worker.claim_next("worker", LEASE_MS).await.expect("claimed").is_some());
    // A connection reports its statistics at the latest when it ends.
    worker.close().await;
    let read =
        "SELECT idx_tup_read FROM pg_stat_user_indexes WHERE indexrelname = 'executions_queued'";
    let told = async {
        loop {
            match sqlx::query_scalar::<_, i64>(read).fetch_one(&mut look).await.expect("statistics")
            {
                0 => tokio::time::sleep(Duration::from_millis(20)).await,
                read => break read,
            }
        }
    };
    let read = tokio::time::timeout(Duration::from_secs(60), told)
        .await
        .expect("the connection told what it read");
    assert!(read < 100, "{read} entries of the queue were read for one claim");
}
