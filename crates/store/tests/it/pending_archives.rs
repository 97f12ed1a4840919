//! Archives that may belong to no skill: none is leaked, and none is removed while it is in use.

use store::{ArchiveUse, InitialState, Status, now};

use crate::support::{LEASE_MS, TestStore, acme, finished, new_execution, on_both};

on_both!(
    archive_is_in_use_until_the_last_user_ends,
    unfinished_upload_is_listed,
    upload_and_removal_exclude_each_other,
    deferred_removal_is_listed_again,
);

const DIGEST: &str = "sha256:echo";

async fn archive_is_in_use_until_the_last_user_ends(store: TestStore) {
    let used = async || store.archive_use(&acme(), DIGEST).await.expect("readable");
    assert_eq!(used().await, ArchiveUse::Unused);
    store.publish(&acme(), "echo", "1.0.0", DIGEST).await;
    assert_eq!(used().await, ArchiveUse::Published);
    store.insert_execution(&new_execution(&acme(), InitialState::Queued)).await.expect("stored");
    store.delete_skill(&acme(), "echo", "1.0.0").await.expect("deleted");
    assert_eq!(used().await, ArchiveUse::Needed, "it is queued");
    let (_, lease) = store.claim_next("w", LEASE_MS).await.expect("claimed").expect("one");
    assert_eq!(used().await, ArchiveUse::Needed, "it is running");
    store.finish(&lease, &finished(Status::Success)).await.expect("finished");
    assert_eq!(used().await, ArchiveUse::Unused);
}

async fn loose(store: &TestStore, noted_before: i64) -> usize {
    store.pending_archives(noted_before, 100).await.expect("listed").len()
}

async fn unfinished_upload_is_listed(store: TestStore) {
    let before = now();
    let note = store.begin_archive_upload(&acme(), DIGEST).await.expect("noted").expect("free");
    assert_eq!(
        (loose(&store, before).await, loose(&store, now()).await),
        (0, 1),
        "only when it is old"
    );
    store.commit_archive_upload(&note).await.expect("settled");
    assert_eq!(loose(&store, now()).await, 0);
    let note = store.begin_archive_upload(&acme(), DIGEST).await.expect("noted").expect("free");
    store.abort_archive_upload(&note).await.expect("abandoned");
    assert_eq!(loose(&store, before).await, 1, "an aborted upload is listed at once");
}

async fn upload_and_removal_exclude_each_other(store: TestStore) {
    let start = now();
    let second = store.second().await;
    let claim = async || {
        second.claim_archive_removal(&acme(), DIGEST, start, LEASE_MS).await.expect("answered")
    };
    let note = store.begin_archive_upload(&acme(), DIGEST).await.expect("noted").expect("free");
    assert!(!claim().await, "an upload is in progress");
    // A second upload of the same digest: completing the first keeps the row of the second.
    let again = store.begin_archive_upload(&acme(), DIGEST).await.expect("noted").expect("free");
    store.commit_archive_upload(&note).await.expect("settled");
    assert!(!claim().await);
    store.commit_archive_upload(&again).await.expect("settled");

    assert!(claim().await);
    assert!(!claim().await, "one at a time");
    assert_eq!(
        store.begin_archive_upload(&acme(), DIGEST).await.expect("answered"),
        None,
        "it is just being removed"
    );
    second.finish_archive_removal(&acme(), DIGEST).await.expect("removed");
    assert!(store.begin_archive_upload(&acme(), DIGEST).await.expect("noted").is_some());
}

async fn deferred_removal_is_listed_again(store: TestStore) {
    assert!(store.claim_archive_removal(&acme(), DIGEST, now(), LEASE_MS).await.expect("answered"));
    assert_eq!(loose(&store, now()).await, 0, "another server removes it");
    store.defer_archive_removal(&acme(), DIGEST, 7).await.expect("put off");
    assert_eq!(loose(&store, 1).await, 1);
    // A server that dies during a removal blocks others only until its lease expires.
    assert!(store.claim_archive_removal(&acme(), DIGEST, now(), -1).await.expect("answered"));
    assert_eq!(loose(&store, 1).await, 1);
    assert!(store.claim_archive_removal(&acme(), DIGEST, now(), LEASE_MS).await.expect("answered"));
}
