use store::{PageRequest, PutSkillResult, SkillStatus, StoreError, VersionPolicy};

use crate::support::{TestStore, acme, new_skill, on_both};

on_both!(
    put_creates_then_changes_nothing_then_replaces,
    put_rejects_replacement_of_immutable_versions,
    parallel_puts_create_once,
    latest_is_the_last_upload,
    skills_are_listed_once_per_name,
    versions_are_listed_latest_first,
    delete_returns_the_deleted_version,
    unusual_names_find_nothing,
);

const MUTABLE: VersionPolicy = VersionPolicy::Mutable;

async fn put_creates_then_changes_nothing_then_replaces(store: TestStore) {
    let one = new_skill("echo", "1.0.0", "sha256:1");
    let PutSkillResult::Created(created) =
        store.put_skill(&acme(), &one, MUTABLE).await.expect("put")
    else {
        panic!("not created");
    };
    assert_eq!((created.status, &created.manifest), (SkillStatus::Available, &one.manifest));
    for policy in [MUTABLE, VersionPolicy::Immutable] {
        let again = store.put_skill(&acme(), &one, policy).await.expect("put");
        assert_eq!(again, PutSkillResult::Unchanged(created.clone()));
    }
    let two = new_skill("echo", "1.0.0", "sha256:2");
    let replaced = store.put_skill(&acme(), &two, MUTABLE).await.expect("put");
    let PutSkillResult::Replaced { row, old_digest } = replaced else { panic!("not replaced") };
    assert_eq!((row.digest.as_str(), old_digest.as_str()), ("sha256:2", "sha256:1"));
    assert_eq!(row.created_at, created.created_at);
    assert!(row.updated_at > created.updated_at);
    let found = store.get_skill(&acme(), "echo", "1.0.0").await.expect("readable");
    assert_eq!(found, Some(row));
}

async fn put_rejects_replacement_of_immutable_versions(store: TestStore) {
    store.publish(&acme(), "echo", "1.0.0", "sha256:1").await;
    let before = store.get_skill(&acme(), "echo", "1.0.0").await.expect("readable");
    let other = new_skill("echo", "1.0.0", "sha256:2");
    let refused = store.put_skill(&acme(), &other, VersionPolicy::Immutable).await;
    assert!(matches!(refused, Err(StoreError::VersionExists)));
    assert_eq!(store.get_skill(&acme(), "echo", "1.0.0").await.expect("readable"), before);
}

async fn parallel_puts_create_once(store: TestStore) {
    let store = std::sync::Arc::new(store);
    let mut tasks = tokio::task::JoinSet::new();
    for n in 0..10 {
        let store = store.clone();
        tasks.spawn(async move {
            let new = new_skill("echo", "1.0.0", &format!("sha256:{}", n % 2));
            store.put_skill(&acme(), &new, MUTABLE).await.expect("put")
        });
    }
    let puts = tasks.join_all().await;
    let created = puts.iter().filter(|put| matches!(put, PutSkillResult::Created(_))).count();
    assert_eq!(created, 1);
    assert_eq!(
        store.list_versions(&acme(), "echo", &PageRequest::default()).await.expect("listed").len(),
        1
    );
}

async fn latest_is_the_last_upload(store: TestStore) {
    let latest = async || {
        let found = store.get_skill(&acme(), "echo", "latest").await.expect("readable");
        found.map(|row| row.version)
    };
    assert_eq!(latest().await, None);
    store.publish(&acme(), "echo", "2.0.0", "sha256:2").await;
    store.publish(&acme(), "echo", "1.0.0", "sha256:1").await;
    assert_eq!(latest().await.as_deref(), Some("1.0.0"), "not the highest number");
    store.publish(&acme(), "echo", "2.0.0", "sha256:2").await;
    assert_eq!(
        latest().await.as_deref(),
        Some("1.0.0"),
        "equal content does not count as an upload"
    );
    store.publish(&acme(), "echo", "2.0.0", "sha256:3").await;
    assert_eq!(latest().await.as_deref(), Some("2.0.0"), "new content counts as an upload");
    store.delete_skill(&acme(), "echo", "2.0.0").await.expect("deleted");
    assert_eq!(latest().await.as_deref(), Some("1.0.0"));
}

async fn skills_are_listed_once_per_name(store: TestStore) {
    for name in ["delta", "alpha", "charlie", "bravo"] {
        store.publish(&acme(), name, "2.0.0", "sha256:2").await;
        store.publish(&acme(), name, "1.0.0", "sha256:1").await;
    }
    let all = store.list_skills(&acme(), &PageRequest::default()).await.expect("listed");
    let listed: Vec<_> =
        all.iter().map(|row| (row.head.name.as_str(), row.head.version.as_str())).collect();
    let latest = ["alpha", "bravo", "charlie", "delta"].map(|name| (name, "1.0.0"));
    assert_eq!(listed, latest);

    let offset = PageRequest { offset: 1, ..PageRequest::first(2) };
    assert_eq!(store.list_skills(&acme(), &offset).await.expect("listed"), all[1..3]);
    let after = PageRequest::after(all[1].head.cursor(), 50);
    assert_eq!(store.list_skills(&acme(), &after).await.expect("listed"), all[2..]);
}

async fn versions_are_listed_latest_first(store: TestStore) {
    for version in ["1.0.0", "3.0.0", "2.0.0"] {
        store.publish(&acme(), "echo", version, "sha256:1").await;
    }
    store.publish(&acme(), "echoes", "9.0.0", "sha256:1").await;
    let versions =
        store.list_versions(&acme(), "echo", &PageRequest::default()).await.expect("listed");
    let versions: Vec<_> = versions.iter().map(|row| row.head.version.as_str()).collect();
    assert_eq!(versions, ["2.0.0", "3.0.0", "1.0.0"]);
}

async fn delete_returns_the_deleted_version(store: TestStore) {
    store.publish(&acme(), "echo", "1.0.0", "sha256:1").await;
    let row = store.get_skill(&acme(), "echo", "1.0.0").await.expect("readable");
    let wrong = store.delete_skill(&acme(), "echo", "latest").await.expect("deleted");
    assert_eq!(wrong, None, "the version must be exact");
    assert_eq!(store.delete_skill(&acme(), "echo", "1.0.0").await.expect("deleted"), row);
    assert_eq!(store.delete_skill(&acme(), "echo", "1.0.0").await.expect("deleted"), None);
}

async fn unusual_names_find_nothing(store: TestStore) {
    store.publish(&acme(), "echo", "1.0.0", "sha256:1").await;
    for odd in ["", "\0", "echo\0", "' OR 1=1 --", "%", "ECHO", "\u{fffd}"] {
        let found = store.get_skill(&acme(), odd, "latest").await;
        assert_eq!(found.expect("no failure"), None, "{odd:?}");
    }
}
