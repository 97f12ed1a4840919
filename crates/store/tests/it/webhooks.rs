//! Webhooks: one call per execution that requested one, pending from its end on.

use store::{
    InitialState, InsertResult, Lease, NewExecution, NewFile, PageRequest, StaleLeases, Status,
    Webhook, WebhookState, now,
};
use uuid::Uuid;

use crate::support::{
    LEASE_MS, TestStore, acme, finished, new_execution, on_both, other, reap, running,
};

on_both!(
    end_enqueues_exactly_one_webhook,
    every_kind_of_end_enqueues_a_webhook,
    claimed_webhook_is_exclusive_until_its_lease_expires,
    failed_webhooks_are_retried_then_given_up,
);

const URL: &str = "https://example.com/hook";

async fn accept(store: &TestStore, initial_state: InitialState) -> (Uuid, Option<Lease>) {
    let new = NewExecution { webhook: Some(URL.into()), ..new_execution(&acme(), initial_state) };
    match store.insert_execution(&new).await.expect("stored") {
        InsertResult::New(lease) => (new.id, lease),
        other => panic!("not new: {other:?}"),
    }
}

/// A finished execution with a webhook.
async fn ended(store: &TestStore) -> Uuid {
    let (id, lease) = accept(store, running()).await;
    assert!(
        store.finish(&lease.expect("a lease"), &finished(Status::Success)).await.expect("finished")
    );
    id
}

async fn due(store: &TestStore) -> Vec<Webhook> {
    store.claim_webhooks(now(), 100, LEASE_MS).await.expect("claimed")
}

async fn end_enqueues_exactly_one_webhook(store: TestStore) {
    let (id, lease) = accept(&store, running()).await;
    let lease = lease.expect("a lease");
    let plain = store.run(&acme()).await;
    assert!(due(&store).await.is_empty(), "nothing has ended");
    let file = NewFile {
        id: Uuid::now_v7(),
        name: "a".into(),
        content_type: "text/plain".into(),
        size_bytes: 1,
        sha256: "00".into(),
        blob_key: "acme/a".into(),
    };
    let done = store::FinishedExecution { files: vec![file], ..finished(Status::Success) };
    assert!(store.finish(&lease, &done).await.expect("finished"));
    assert!(
        !store.finish(&lease, &done).await.expect("answered"),
        "an ended execution stays ended"
    );
    store.finish(&plain, &finished(Status::Success)).await.expect("finished");
    let calls = due(&store).await;
    assert_eq!(calls.len(), 1);
    assert_eq!((calls[0].execution_id, calls[0].url.as_str(), calls[0].attempt), (id, URL, 1));
    assert_eq!(store.execution(&acme(), id).await.webhook.as_deref(), Some(URL));
    assert_eq!(store.get_webhook(&other(), id).await.expect("answered"), None);
}

async fn every_kind_of_end_enqueues_a_webhook(store: TestStore) {
    let (cancelled, _) = accept(&store, InitialState::Queued).await;
    store.request_cancel(&acme(), cancelled).await.expect("cancelled");
    let (lost, _) = accept(&store, InitialState::Queued).await;
    let (_, lease) = store.claim_next("w", LEASE_MS).await.expect("claimed").expect("one");
    store.mark_started(&lease).await.expect("marked");
    reap(&store, StaleLeases::ExpiredAt(now() + LEASE_MS * 2000), 3).await;
    let (claimed, _) = accept(&store, InitialState::Queued).await;
    let (_, lease) = store.claim_next("w", LEASE_MS).await.expect("claimed").expect("one");
    assert!(lease.webhook);
    store.finish(&lease, &finished(Status::Timeout)).await.expect("finished");
    let mut calls: Vec<Uuid> =
        due(&store).await.into_iter().map(|call| call.execution_id).collect();
    calls.sort();
    let mut expected = vec![cancelled, lost, claimed];
    expected.sort();
    assert_eq!(calls, expected);
}

async fn claimed_webhook_is_exclusive_until_its_lease_expires(store: TestStore) {
    for _ in 0..5 {
        ended(&store).await;
    }
    let second = store.second().await;
    let now = now();
    let (one, two) = tokio::join!(
        store.claim_webhooks(now, 3, LEASE_MS),
        second.claim_webhooks(now, 3, LEASE_MS)
    );
    let (one, two) = (one.expect("claimed"), two.expect("claimed"));
    let mut all: Vec<Uuid> = one.iter().chain(&two).map(|call| call.execution_id).collect();
    all.sort();
    all.dedup();
    assert_eq!((one.len() + two.len(), all.len()), (all.len(), all.len()), "none twice");
    due(&store).await;
    assert!(due(&store).await.is_empty());
    let late = store.claim_webhooks(now + LEASE_MS * 2000, 100, LEASE_MS).await.expect("claimed");
    assert_eq!((late.len(), late[0].attempt), (5, 2));
    let first = one.first().or(two.first()).expect("a call");
    assert!(
        !store.mark_webhook_delivered(first).await.expect("answered"),
        "another attempt is under way"
    );
    assert!(store.mark_webhook_delivered(&late[0]).await.expect("delivered"));
    assert!(!store.mark_webhook_delivered(&late[0]).await.expect("answered"));
    let found = store
        .get_webhook(&acme(), late[0].execution_id)
        .await
        .expect("answered")
        .expect("a webhook");
    assert_eq!(found.state, WebhookState::Delivered);
}

async fn failed_webhooks_are_retried_then_given_up(store: TestStore) {
    let id = ended(&store).await;
    let mut time = now();
    let mut attempts = 0;
    loop {
        let calls = store.claim_webhooks(time, 1, LEASE_MS).await.expect("claimed");
        attempts += 1;
        assert_eq!(calls[0].attempt, attempts);
        match store.record_webhook_failure(&calls[0], "connection refused").await.expect("noted") {
            Some(next_at) => time = next_at,
            None => break,
        }
    }
    assert_eq!(attempts, 10);
    assert!(store.claim_webhooks(i64::MAX / 2, 1, LEASE_MS).await.expect("claimed").is_empty());
    let dead = store.get_webhook(&acme(), id).await.expect("answered").expect("a webhook");
    assert_eq!(
        (dead.state, dead.last_error.as_deref()),
        (WebhookState::Dead, Some("connection refused"))
    );
    let trail = store.list_audit_records(&acme(), &PageRequest::default()).await.expect("listed");
    assert_eq!(
        (trail.len(), trail[0].action.as_str(), trail[0].object.as_str()),
        (1, "webhook.give_up", id.to_string().as_str())
    );
}
