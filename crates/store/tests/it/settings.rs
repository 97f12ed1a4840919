//! What servers on one database share.

use crate::support::{TestStore, on_both};

on_both!(first_secret_is_the_only_accepted_one, duty_has_one_holder, progress_is_stored);

async fn first_secret_is_the_only_accepted_one(store: TestStore) {
    assert!(store.check_secret("one").await.expect("answered"));
    let second = store.second().await;
    assert!(second.check_secret("one").await.expect("answered"));
    assert!(!second.check_secret("two").await.expect("answered"));
    assert!(store.check_secret("one").await.expect("answered"));
}

async fn duty_has_one_holder(store: TestStore) {
    let hold = async |owner: &str, lease_ms| {
        store.acquire_or_renew_duty("chore", owner, lease_ms).await.expect("answered")
    };
    assert!(hold("a", 60_000).await);
    assert!(!hold("b", 60_000).await);
    assert!(hold("a", -1).await, "its holder renews it, here with an expired lease");
    assert!(hold("b", 60_000).await);
    assert!(!hold("a", 60_000).await);
    assert!(store.acquire_or_renew_duty("another chore", "a", 60_000).await.expect("answered"));
}

async fn progress_is_stored(store: TestStore) {
    assert_eq!(store.get_progress("chore").await.expect("read"), None);
    for mark in ["7.a", "1800000000000000.b"] {
        store.set_progress("chore", mark).await.expect("set");
        assert_eq!(
            store.second().await.get_progress("chore").await.expect("read").as_deref(),
            Some(mark)
        );
    }
}
