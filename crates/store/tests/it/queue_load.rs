//! Counting queued and running executions.

use store::{InitialState, QueueLoad, Status};

use crate::support::{LEASE_MS, TestStore, acme, finished, new_execution, on_both, other};

on_both!(queued_and_running_are_counted_across_tenants);

async fn queued_and_running_are_counted_across_tenants(store: TestStore) {
    assert_eq!(store.queue_load().await.expect("counted"), QueueLoad::default());
    for tenant in [acme(), acme(), other()] {
        store.queue(&tenant).await;
    }
    let mut called = new_execution(&other(), InitialState::Queued);
    called.webhook = Some("https://example.com/".into());
    store.insert_execution(&called).await.expect("stored");
    assert_eq!(
        store.queue_load().await.expect("counted"),
        QueueLoad { queued: 4, running: 0, webhooks_pending: 0 }
    );

    let mut leases = Vec::new();
    while let Some((_, lease)) = store.claim_next("worker", LEASE_MS).await.expect("claimed") {
        leases.push(lease);
    }
    assert_eq!(
        store.queue_load().await.expect("counted"),
        QueueLoad { queued: 0, running: 4, webhooks_pending: 0 }
    );
    for lease in &leases {
        assert!(store.finish(lease, &finished(Status::Success)).await.expect("recorded"));
    }
    assert_eq!(
        store.queue_load().await.expect("counted"),
        QueueLoad { queued: 0, running: 0, webhooks_pending: 1 }
    );
    let connections = store.pool_stats();
    assert!(
        connections.open >= 1
            && connections.open <= connections.max
            && connections.idle <= connections.open as usize
    );
}
