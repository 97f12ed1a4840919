//! Notifications reach this process and others at once.

use std::time::Duration;

use store::{InitialState, NewExecution, Notification, Notifications, StaleLeases, Status, now};

use crate::support::{LEASE_MS, TestStore, acme, finished, new_execution, on_both, reap};

on_both!(
    changes_notify_clones,
    end_without_waiters_sends_no_notification,
    rolled_back_change_sends_no_notification,
);

async fn next(announcements: &mut Notifications) -> Notification {
    let next = tokio::time::timeout(Duration::from_secs(30), announcements.next());
    next.await.expect("an announcement in time").expect("the store is open")
}

/// The next notification other than `Missed`, which may come at any time.
async fn news(announcements: &mut Notifications) -> Notification {
    loop {
        match next(announcements).await {
            Notification::Missed => {}
            news => return news,
        }
    }
}

/// Subscribes, and returns when no later notification can be missed.
async fn listen(store: &store::Store, postgres: bool) -> Notifications {
    let mut announcements = store.notifications();
    if postgres {
        assert_eq!(
            next(&mut announcements).await,
            Notification::Missed,
            "the connection begins with a gap"
        );
    }
    announcements
}

async fn changes_notify_clones(store: TestStore) {
    let mut listener = listen(&store.clone(), store.is_postgres()).await;
    let id = store.queue(&acme()).await;
    assert_eq!(news(&mut listener).await, Notification::Queued);
    let (_, lease) = store.claim_next("w", LEASE_MS).await.expect("claimed").expect("one");
    assert!(store.mark_watched(&acme(), id).await.expect("watched"));
    assert_eq!(news(&mut listener).await, Notification::Watch(id));
    store.request_cancel(&acme(), id).await.expect("asked");
    assert_eq!(news(&mut listener).await, Notification::Cancel(id));
    store.finish(&lease, &finished(Status::Cancelled)).await.expect("finished");
    assert_eq!(news(&mut listener).await, Notification::Ended(id));

    let never = store.queue(&acme()).await;
    assert_eq!(news(&mut listener).await, Notification::Queued);
    // A worker skips a row that is locked by a change, so it must be notified again.
    assert!(store.mark_watched(&acme(), never).await.expect("watched"));
    assert_eq!(news(&mut listener).await, Notification::Queued);
    assert!(store.mark_awaited(&acme(), never).await.expect("awaited"));
    assert_eq!(news(&mut listener).await, Notification::Queued);
    store.request_cancel(&acme(), never).await.expect("cancelled");
    assert_eq!(news(&mut listener).await, Notification::Ended(never));

    let lost = store.run(&acme()).await;
    reap(&store, StaleLeases::ExpiredAt(now() + LEASE_MS * 2000), 3).await;
    assert_eq!(news(&mut listener).await, Notification::Queued, "it waits again");
    store.claim_next("w", LEASE_MS).await.expect("claimed").expect("one");
    reap(&store, StaleLeases::ExpiredAt(now() + LEASE_MS * 2000), 0).await;
    assert_eq!(news(&mut listener).await, Notification::Ended(lost.execution_id));
    store.notify(Notification::Logs(id)).await.expect("announced");
    assert_eq!(news(&mut listener).await, Notification::Logs(id));
}

async fn end_without_waiters_sends_no_notification(store: TestStore) {
    let mut listener = listen(&store, store.is_postgres()).await;
    let quiet = store.run(&acme()).await;
    store.finish(&quiet, &finished(Status::Success)).await.expect("finished");
    assert!(
        !store.mark_awaited(&acme(), quiet.execution_id).await.expect("answered"),
        "it has ended"
    );
    let awaited = store.run(&acme()).await;
    assert!(store.mark_awaited(&acme(), awaited.execution_id).await.expect("answered"));
    store.finish(&awaited, &finished(Status::Success)).await.expect("finished");
    assert_eq!(news(&mut listener).await, Notification::Ended(awaited.execution_id));
}

async fn rolled_back_change_sends_no_notification(store: TestStore) {
    let mut listener = listen(&store, store.is_postgres()).await;
    let policy = store::TenantPolicy { max_queued: Some(0), ..store::TenantPolicy::default() };
    store.update_tenant_policy(&acme(), &policy).await.expect("updated");
    let full = store
        .insert_within_limits(&new_execution(&acme(), InitialState::Queued))
        .await
        .expect("answered");
    assert_eq!(full, store::InsertResult::QueueFull);
    let lease = store.run(&acme()).await;
    store.request_cancel(&acme(), lease.execution_id).await.expect("asked");
    assert_eq!(news(&mut listener).await, Notification::Cancel(lease.execution_id));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn other_processes_are_notified() {
    let store = TestStore::postgres().await;
    let second = store.second().await;
    let mut listener = listen(&second, true).await;
    let new = NewExecution { awaited: true, ..new_execution(&acme(), InitialState::Queued) };
    store.insert_execution(&new).await.expect("stored");
    assert_eq!(news(&mut listener).await, Notification::Queued);
    let (_, lease) = store.claim_next("w", LEASE_MS).await.expect("claimed").expect("one");
    store.finish(&lease, &finished(Status::Success)).await.expect("finished");
    assert_eq!(news(&mut listener).await, Notification::Ended(new.id));
    second.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn broken_connection_is_reported_and_reconnected() {
    let store = TestStore::postgres().await;
    let second = store.second().await;
    let mut listener = listen(&second, true).await;
    for _ in 0..3 {
        crate::postgres::cut_listeners(&store.dsn);
        // Notifications during the gap are covered by `Missed`.
        store.queue(&acme()).await;
        while next(&mut listener).await != Notification::Missed {}
        let id = store.queue(&acme()).await;
        while news(&mut listener).await != Notification::Queued {}
        store.request_cancel(&acme(), id).await.expect("cancelled");
        while news(&mut listener).await != Notification::Ended(id) {}
    }
}
