//! Reaping of executions whose worker is dead; each ends exactly once.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use sqlx::{Connection, PgConnection};
use store::{
    Execution, FencedExecution, FinishedExecution, InitialState, Lease, NewExecution,
    ReapedExecution, StaleLeases, Status, Store, now,
};
use tokio::task::JoinSet;
use uuid::Uuid;

use crate::support::{LEASE_MS, TestStore, acme, finished, new_execution, on_both, other, reap};

on_both!(
    unstarted_execution_is_requeued_by_the_reaper,
    started_execution_is_lost,
    fence_expires_with_its_reaper,
    attempts_are_limited,
    idempotent_execution_is_retried_and_counted,
    cancel_request_survives_the_worker,
    restart_reaps_all_other_owners,
    every_execution_ends_once_in_any_schedule,
);

/// A time at which every lease of these tests has expired.
fn much_later() -> i64 {
    now() + LEASE_MS * 2000
}

async fn reap_one(store: &Store, max_attempts: i32) -> ReapedExecution {
    let mut reaped = reap(store, StaleLeases::ExpiredAt(much_later()), max_attempts).await;
    assert_eq!(reaped.len(), 1, "{reaped:?}");
    reaped.remove(0)
}

async fn unstarted_execution_is_requeued_by_the_reaper(store: TestStore) {
    let lease = store.run(&acme()).await;
    assert_eq!(reap(&store, StaleLeases::Expired, 3).await, [], "the lease is held");
    let reaped = reap_one(&store, 3).await;
    let expected =
        ReapedExecution { execution_id: lease.execution_id, tenant: acme(), requeued: true };
    assert_eq!(reaped, expected);
    let found = store.execution(&acme(), lease.execution_id).await;
    assert_eq!((found.status, found.started_at, found.error), (Status::Queued, None, None));
    assert_eq!(
        reap(&store, StaleLeases::ExpiredAt(much_later()), 3).await,
        [],
        "it is reaped once"
    );

    let claimed = store.claim_next("w", LEASE_MS).await.expect("claimed");
    let (execution, again) = claimed.expect("queued again");
    assert_eq!((execution.attempt, again.token), (2, 2));
}

/// The database's clock is an hour ahead of ours, and another time an hour behind.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leases_expire_by_the_database_clock() {
    for hours in [1, -1] {
        let dsn = tokio::task::spawn_blocking(move || {
            let dsn = crate::postgres::database();
            crate::postgres::set_clock(&dsn, hours);
            dsn
        });
        let store = TestStore::open(dsn.await.expect("a database"), None).await;
        let inserted = store.run(&acme()).await;
        store.queue(&acme()).await;
        let (_, claimed) =
            store.claim_next("w", LEASE_MS).await.expect("claimed").expect("it was queued");
        assert_eq!(reap(&store, StaleLeases::Expired, 3).await, [], "both are young, {hours} h");
        let mut look = PgConnection::connect(&store.dsn).await.expect("open");
        let until = "SELECT lease_until FROM executions ORDER BY lease_until";
        for until in
            sqlx::query_scalar::<_, i64>(until).fetch_all(&mut look).await.expect("two leases")
        {
            let minutes_ahead = (until - now()) / 60_000_000;
            assert!(
                (minutes_ahead - i64::from(hours) * 60).abs() < 10,
                "{minutes_ahead} min ahead of us, {hours} h"
            );
        }
        let leases = [inserted, claimed];
        assert_eq!(store.heartbeat(&leases, LEASE_MS).await.expect("a beat").held.len(), 2);
        assert_eq!(
            reap(&store, StaleLeases::Expired, 3).await,
            [],
            "both were just extended, {hours} h"
        );
        // A lease that expired by the database's clock is expired, whatever the local clock says.
        assert_eq!(store.heartbeat(&leases, -1000).await.expect("a beat").held.len(), 2);
        let fenced = store.fence(StaleLeases::Expired, "first", LEASE_MS).await.expect("fenced");
        assert_eq!(fenced.len(), 2, "{hours} h");
        assert_eq!(
            store.fence(StaleLeases::Expired, "second", LEASE_MS).await.expect("fenced"),
            [],
            "the first has them"
        );
    }
}

fn assert_lost(execution: &Execution) {
    assert_eq!((execution.status, execution.outcome.as_deref()), (Status::Failed, Some("lost")));
    assert!(execution.error.is_some() && execution.finished_at.is_some());
    assert_eq!(execution.request, "", "secrets in the request go with its end");
}

async fn started_execution_is_lost(store: TestStore) {
    let lease = store.run(&acme()).await;
    assert!(store.mark_started(&lease).await.expect("marked").is_some());
    assert!(!reap_one(&store, 3).await.requeued);
    assert_lost(&store.execution(&acme(), lease.execution_id).await);
    assert!(!store.finish(&lease, &finished(Status::Success)).await.expect("answered"));
    assert_lost(&store.execution(&acme(), lease.execution_id).await);
    assert_eq!(store.claim_next("w", LEASE_MS).await.expect("claimed"), None);
}

async fn fence_expires_with_its_reaper(store: TestStore) {
    let lease = store.run(&acme()).await;
    store.mark_started(&lease).await.expect("marked");
    let fenced =
        store.fence(StaleLeases::ExpiredAt(much_later()), "first", LEASE_MS).await.expect("fenced");
    assert_eq!(
        fenced,
        [FencedExecution { execution_id: lease.execution_id, tenant: acme(), token: 1 }]
    );
    assert!(
        !store.finish(&lease, &finished(Status::Success)).await.expect("answered"),
        "the worker is too late"
    );
    let beat = store.heartbeat(std::slice::from_ref(&lease), LEASE_MS).await.expect("beat");
    assert_eq!(beat.held, [] as [Uuid; 0]);

    // Only its reaper may end it while that reaper's lease lasts; then another reaper takes over.
    assert_eq!(store.reap("second", 3).await.expect("reaped"), []);
    assert_eq!(
        store.fence(StaleLeases::ExpiredAt(now()), "second", LEASE_MS).await.expect("fenced"),
        []
    );
    assert_eq!(
        store
            .fence(StaleLeases::ExpiredAt(much_later()), "second", LEASE_MS)
            .await
            .expect("fenced"),
        fenced
    );
    assert_eq!(store.reap("first", 3).await.expect("reaped"), []);
    assert_eq!(store.reap("second", 3).await.expect("reaped").len(), 1);
    assert_lost(&store.execution(&acme(), lease.execution_id).await);
}

async fn attempts_are_limited(store: TestStore) {
    let id = store.queue(&acme()).await;
    for attempt in 1..=3 {
        store.claim_next("w", LEASE_MS).await.expect("claimed").expect("one");
        assert_eq!(reap_one(&store, 3).await.requeued, attempt < 3);
    }
    assert_lost(&store.execution(&acme(), id).await);
}

async fn idempotent_execution_is_retried_and_counted(store: TestStore) {
    let initial_state =
        InitialState::Running { owner: "worker".into(), lease_ms: LEASE_MS, started: true };
    let new = NewExecution { idempotent: true, ..new_execution(&acme(), initial_state) };
    let first = match store.insert_execution(&new).await.expect("stored") {
        store::InsertResult::New(Some(lease)) => lease,
        other => panic!("not inserted as running: {other:?}"),
    };
    let mut late = vec![first];
    for attempt in 1..=3 {
        assert_eq!(reap_one(&store, 3).await.requeued, attempt < 3);
        if attempt < 3 {
            let found = store.execution(&acme(), new.id).await;
            assert_eq!((found.started, found.request.as_str()), (false, new.request.as_str()));
            let (execution, lease) =
                store.claim_next("w", LEASE_MS).await.expect("claimed").expect("queued again");
            assert_eq!((execution.attempt, lease.token), (attempt + 1, i64::from(attempt) + 1));
            assert!(store.mark_started(&lease).await.expect("marked").is_some());
            late.push(lease);
        }
    }
    assert_lost(&store.execution(&acme(), new.id).await);
    for lease in late {
        assert!(
            !store.finish(&lease, &finished(Status::Success)).await.expect("answered"),
            "too late"
        );
    }

    let cancelled = NewExecution { id: Uuid::now_v7(), ..new };
    store.insert_execution(&cancelled).await.expect("stored");
    store.request_cancel(&acme(), cancelled.id).await.expect("asked");
    assert!(!reap_one(&store, 3).await.requeued, "its cancellation was requested");
    assert_lost(&store.execution(&acme(), cancelled.id).await);
}

async fn cancel_request_survives_the_worker(store: TestStore) {
    let never_started = store.run(&acme()).await;
    let started = store.run(&acme()).await;
    store.mark_started(&started).await.expect("marked");
    for lease in [&never_started, &started] {
        store.request_cancel(&acme(), lease.execution_id).await.expect("asked");
    }
    // Also on the last attempt, an execution that was never started is cancelled, not lost.
    for (max_attempts, reaped) in [(1, 2), (3, 0)] {
        let all = reap(&store, StaleLeases::ExpiredAt(much_later()), max_attempts).await;
        assert_eq!(all.iter().filter(|one| !one.requeued).count(), reaped);
    }
    let found = store.execution(&acme(), never_started.execution_id).await;
    assert_eq!((found.status, found.outcome.as_deref()), (Status::Cancelled, Some("cancelled")));
    assert!(found.finished_at.is_some() && found.error.is_some());
    assert_lost(&store.execution(&acme(), started.execution_id).await);
}

async fn restart_reaps_all_other_owners(store: TestStore) {
    let old = store.run(&acme()).await;
    store.queue(&other()).await;
    let (_, mine) = store.claim_next("me", LEASE_MS).await.expect("claimed").expect("one");
    let reaped = reap(&store, StaleLeases::NotOwnedBy("me"), 3).await;
    let expected =
        ReapedExecution { execution_id: old.execution_id, tenant: acme(), requeued: true };
    assert_eq!(reaped, [expected]);
    assert!(store.finish(&mine, &finished(Status::Success)).await.expect("finished"));
    assert_eq!(reap(&store, StaleLeases::NotOwnedBy("me"), 3).await, []);
}

/// Workers claim, start, send heartbeats and finish, while a reaper takes every lease away at once and
/// a client cancels at random. In every interleaving one side wins each execution, and the row has
/// the result that the winner was given.
async fn every_execution_ends_once_in_any_schedule(store: TestStore) {
    let mut ids = Vec::new();
    for n in 0..48 {
        let tenant = if n % 2 == 0 { acme() } else { other() };
        ids.push(store.queue(&tenant).await);
    }
    let second = Arc::new(store.second().await);
    let working = Arc::new(AtomicBool::new(true));

    let reaper = tokio::spawn(reap_all_the_time(second.clone(), working.clone()));
    let mut workers = JoinSet::new();
    for n in 0..6 {
        workers.spawn(work(second.clone(), format!("worker{n}")));
    }
    for id in ids.iter().step_by(7) {
        for tenant in [acme(), other()] {
            store.request_cancel(&tenant, *id).await.expect("answered");
        }
    }
    let mut winners = HashMap::new();
    for (id, logs) in workers.join_all().await.into_iter().flatten() {
        assert_eq!(winners.insert(id, logs), None, "{id} was finished twice");
    }
    working.store(false, Ordering::Relaxed);
    reaper.await.expect("no panic");
    // No worker claims what the last round left: it ends as lost.
    reap(&store, StaleLeases::ExpiredAt(much_later()), 0).await;
    for (_, logs) in work(second, "last".into()).await {
        assert!(!logs.is_empty());
    }

    for (n, id) in ids.iter().enumerate() {
        let tenant = if n % 2 == 0 { acme() } else { other() };
        let found = store.execution(&tenant, *id).await;
        assert!(found.status.is_terminal(), "{found:?}");
        if let Some(logs) = winners.get(id) {
            assert_eq!((found.status, &found.logs), (Status::Success, logs));
        }
    }
}

async fn reap_all_the_time(store: Arc<Store>, working: Arc<AtomicBool>) {
    while working.load(Ordering::Relaxed) {
        reap(&store, StaleLeases::ExpiredAt(much_later()), 4).await;
        tokio::task::yield_now().await;
    }
}

/// Runs executions until none can be claimed; returns those that it finished.
async fn work(store: Arc<Store>, owner: String) -> Vec<(Uuid, String)> {
    let mut won = Vec::new();
    while let Some((execution, lease)) = store.claim_next(&owner, LEASE_MS).await.expect("claimed")
    {
        if lease.token % 2 == 0 {
            store.mark_started(&lease).await.expect("answered");
        }
        store.heartbeat(std::slice::from_ref(&lease), LEASE_MS).await.expect("beat");
        let logs = format!("{owner} with token {}", lease.token);
        if finish_with(&store, &lease, &logs).await {
            won.push((execution.id, logs));
        }
    }
    won
}

async fn finish_with(store: &Store, lease: &Lease, logs: &str) -> bool {
    let done = FinishedExecution { logs: logs.into(), ..finished(Status::Success) };
    store.finish(lease, &done).await.expect("answered")
}
