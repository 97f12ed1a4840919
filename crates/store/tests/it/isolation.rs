//! No function on tenant data reads or changes the data of another tenant.

use serde_json::json;
use store::{
    ArchiveUse, ExecutionFilter, FinishedExecution, InitialState, NewAuditRecord, NewExecution,
    NewFile, PageRequest, Status, VersionPolicy,
};
use uuid::Uuid;

use crate::keys::new_key;
use crate::support::{
    TestStore, acme, finished, idempotency, new_execution, new_skill, on_both, other, running,
};

on_both!(
    skills_are_not_shared, executions_are_not_shared, files_are_not_shared,
    keys_and_audit_logs_are_not_shared,
);

async fn skills_are_not_shared(store: TestStore) {
    store.publish(&acme(), "echo", "1.0.0", "sha256:1").await;
    let before = store.get_skill(&acme(), "echo", "1.0.0").await.expect("readable");
    for version in ["1.0.0", "latest"] {
        let found = store.get_skill(&other(), "echo", version).await.expect("readable");
        assert_eq!(found, None);
    }
    assert_eq!(store.list_skills(&other(), &PageRequest::default()).await.expect("listed"), []);
    assert_eq!(
        store.list_versions(&other(), "echo", &PageRequest::default()).await.expect("listed"),
        []
    );
    assert_eq!(store.delete_skill(&other(), "echo", "1.0.0").await.expect("answered"), None);
    assert_eq!(
        store.archive_use(&other(), "sha256:1").await.expect("readable"),
        ArchiveUse::Unused
    );

    let same_name = new_skill("echo", "1.0.0", "sha256:2");
    store.put_skill(&other(), &same_name, VersionPolicy::Immutable).await.expect("its own");
    assert_eq!(store.get_skill(&acme(), "echo", "1.0.0").await.expect("readable"), before);
    assert_eq!(store.list_skills(&acme(), &PageRequest::default()).await.expect("listed").len(), 1);
}

async fn executions_are_not_shared(store: TestStore) {
    let lease = store.run(&acme()).await;
    let id = lease.execution_id;
    let queued = store.queue(&acme()).await;
    let keyed = NewExecution {
        idempotency: idempotency("key", "body"),
        ..new_execution(&acme(), InitialState::Queued)
    };
    store.insert_execution(&keyed).await.expect("stored");

    for id in [id, queued] {
        assert_eq!(store.get_execution(&other(), id).await.expect("readable"), None);
        assert_eq!(store.request_cancel(&other(), id).await.expect("answered"), None);
        assert!(!store.execution(&acme(), id).await.cancel_requested);
    }
    let filter = ExecutionFilter::default();
    let listed = store.list_executions(&other(), &filter, &PageRequest::default()).await;
    assert_eq!(listed.expect("listed"), []);
    assert_eq!(store.count_running(&other()).await.expect("counted"), 0);
    assert_eq!(
        store.archive_use(&other(), "sha256:echo").await.expect("readable"),
        ArchiveUse::Unused
    );
    // A cursor holds only a time and an id, so that of another tenant reveals nothing.
    let cursor = store.execution(&acme(), keyed.id).await.cursor();
    let listed = store.list_executions(&other(), &filter, &PageRequest::after(cursor, 50)).await;
    assert_eq!(listed.expect("listed"), []);

    let same_key = NewExecution {
        idempotency: idempotency("key", "body"),
        ..new_execution(&other(), running())
    };
    let inserted = store.insert_execution(&same_key).await.expect("stored");
    assert!(matches!(inserted, store::InsertResult::New(Some(_))), "{inserted:?}");
}

async fn files_are_not_shared(store: TestStore) {
    let lease = store.run(&acme()).await;
    let file = NewFile {
        id: Uuid::now_v7(),
        name: "secret.txt".into(),
        content_type: "text/plain".into(),
        size_bytes: 6,
        sha256: "00".into(),
        blob_key: "acme/secret".into(),
    };
    let done = FinishedExecution { files: vec![file], ..finished(Status::Success) };
    store.finish(&lease, &done).await.expect("finished");
    let id = lease.execution_id;
    assert_eq!(store.list_execution_files(&other(), id).await.expect("listed"), []);
    let found = store.get_execution_file(&other(), id, "secret.txt").await;
    assert_eq!(found.expect("readable"), None);
    let found = store.get_execution_file(&acme(), id, "secret.txt").await;
    assert!(found.expect("readable").is_some());
}

async fn keys_and_audit_logs_are_not_shared(store: TestStore) {
    let key = store.insert_key(&new_key(&acme(), "hash")).await.expect("a key");
    assert_eq!(store.list_keys(&other(), true, &PageRequest::default()).await.expect("listed"), []);
    assert!(!store.revoke_key(&other(), key.id).await.expect("answered"));
    let found = store.find_key("hash").await.expect("readable").expect("a key");
    assert_eq!((found.revoked_at, found.tenant), (None, acme()));

    let entry = NewAuditRecord {
        actor: Some(key.id),
        action: "key.create".into(),
        object: key.id.to_string(),
        detail: json!({}),
        request_id: None,
    };
    store.append_audit_record(&acme(), &entry).await.expect("appended");
    assert_eq!(
        store.list_audit_records(&other(), &PageRequest::default()).await.expect("listed"),
        []
    );
    assert_eq!(
        store.list_audit_records(&acme(), &PageRequest::default()).await.expect("listed").len(),
        1
    );
}
