//! Uploaded files: versions, quotas, and no leaked blob.

use store::{
    AddFileResult, FileFilter, FileRow, NewFile, PageRequest, TenantId, TenantPolicy, now,
};
use tokio::task::JoinSet;
use uuid::Uuid;

use crate::support::{TestStore, acme, finished, on_both, other};

on_both!(
    file_is_added_found_and_listed,
    versions_count_up_and_keep_the_name,
    parallel_versions_have_their_own_numbers,
    deleting_the_first_version_deletes_all,
    deleting_an_artifact_removes_the_archive,
    blob_is_a_file_or_pending,
    upload_without_pending_row_is_too_late,
    quota_counts_only_uploads_of_the_tenant,
    parallel_uploads_respect_the_file_quota,
    later_versions_of_deleted_artifacts_become_pending,
);

fn new(name: &str, size_bytes: i64) -> NewFile {
    let id = Uuid::now_v7();
    NewFile {
        id,
        name: name.into(),
        content_type: "text/plain".into(),
        size_bytes,
        sha256: "2cf24dba".into(),
        blob_key: format!("acme/files/{id}"),
    }
}

async fn try_add(
    store: &TestStore,
    tenant: &TenantId,
    file: &NewFile,
    of: Option<Uuid>,
) -> AddFileResult {
    store.add_pending_blob(tenant, &file.blob_key).await.expect("noted");
    store.add_file(tenant, file, Some("s1"), of).await.expect("answered")
}

async fn add(store: &TestStore, file: &NewFile, of: Option<Uuid>) -> FileRow {
    match try_add(store, &acme(), file, of).await {
        AddFileResult::File(row) => *row,
        refused => panic!("{refused:?}"),
    }
}

async fn noted(store: &TestStore) -> Vec<String> {
    let mut keys: Vec<String> = store
        .pending_blobs(now() + 1, 100)
        .await
        .expect("notes")
        .into_iter()
        .map(|(_, key)| key)
        .collect();
    keys.sort();
    keys
}

async fn list(store: &TestStore, filter: FileFilter) -> Vec<Uuid> {
    let rows = store.list_files(&acme(), &filter, &PageRequest::default()).await.expect("a list");
    rows.into_iter().map(|row| row.id).collect()
}

async fn file_is_added_found_and_listed(store: TestStore) {
    let one = add(&store, &new("a.csv", 3), None).await;
    let two = add(&store, &new("b.csv", 4), None).await;
    assert_eq!((one.version, one.parent_id, one.session_id.as_deref()), (1, None, Some("s1")));
    assert_eq!(store.get_file(&acme(), one.id).await.expect("found"), Some(one.clone()));
    assert_eq!(store.get_file(&other(), one.id).await.expect("answered"), None);
    assert_eq!(list(&store, FileFilter::default()).await, [two.id, one.id]);
    let session = |id: &str| FileFilter { session_id: Some(id.into()), execution_id: None };
    assert_eq!(list(&store, session("s1")).await.len(), 2);
    assert!(list(&store, session("s2")).await.is_empty());
    let second = store
        .list_files(&acme(), &FileFilter::default(), &PageRequest::after(two.cursor(), 50))
        .await;
    assert_eq!(second.expect("a page"), [one]);
    assert!(
        store
            .list_files(&other(), &FileFilter::default(), &PageRequest::default())
            .await
            .expect("a list")
            .is_empty()
    );
}

async fn versions_count_up_and_keep_the_name(store: TestStore) {
    let first = add(&store, &new("a.csv", 3), None).await;
    let second = add(&store, &new("renamed", 4), Some(first.id)).await;
    let third = add(&store, &new("x", 5), Some(second.id)).await;
    assert_eq!(
        (second.version, second.parent_id, second.name.as_str()),
        (2, Some(first.id), "a.csv")
    );
    assert_eq!((third.version, third.parent_id), (3, Some(first.id)));
    for id in [first.id, second.id, third.id] {
        let versions = store.list_file_versions(&acme(), id).await.expect("versions");
        assert_eq!(versions, [third.clone(), second.clone(), first.clone()]);
    }
    assert!(store.list_file_versions(&other(), first.id).await.expect("answered").is_empty());
    assert_eq!(
        try_add(&store, &other(), &new("x", 1), Some(first.id)).await,
        AddFileResult::NoSuchFile
    );
    assert_eq!(
        try_add(&store, &acme(), &new("x", 1), Some(Uuid::now_v7())).await,
        AddFileResult::NoSuchFile
    );
}

async fn parallel_versions_have_their_own_numbers(store: TestStore) {
    let first = add(&store, &new("a.csv", 3), None).await;
    let mut adding = JoinSet::new();
    for _ in 0..8 {
        let (store, id) = ((*store).clone(), first.id);
        adding.spawn(async move {
            let file = new("x", 1);
            store.add_pending_blob(&acme(), &file.blob_key).await.expect("noted");
            store.add_file(&acme(), &file, None, Some(id)).await.expect("added")
        });
    }
    adding.join_all().await;
    let versions = store.list_file_versions(&acme(), first.id).await.expect("versions");
    assert_eq!(
        versions.iter().map(|row| row.version).collect::<Vec<_>>(),
        [9, 8, 7, 6, 5, 4, 3, 2, 1]
    );
}

async fn deleting_the_first_version_deletes_all(store: TestStore) {
    let first = add(&store, &new("a.csv", 3), None).await;
    let second = add(&store, &new("a.csv", 4), Some(first.id)).await;
    let third = add(&store, &new("a.csv", 5), Some(first.id)).await;
    assert_eq!(store.delete_file(&other(), first.id, None).await.expect("answered"), None);
    let deleted =
        store.delete_file(&acme(), second.id, None).await.expect("deleted").expect("it was there");
    assert_eq!(deleted.blob_keys, [second.blob_key.as_str()]);
    assert_eq!(list(&store, FileFilter::default()).await, [third.id, first.id]);
    let deleted =
        store.delete_file(&acme(), first.id, None).await.expect("deleted").expect("it was there");
    assert_eq!(deleted.blob_keys, [third.blob_key, first.blob_key]);
    assert!(list(&store, FileFilter::default()).await.is_empty());
    assert_eq!(store.delete_file(&acme(), first.id, None).await.expect("answered"), None);
}

/// An ended execution with one artifact.
async fn artifact(store: &TestStore) -> FileRow {
    let lease = store.run(&acme()).await;
    let mut end = finished(store::Status::Success);
    end.files =
        vec![NewFile { blob_key: "acme/executions/1/files/a".into(), ..new("out/a.csv", 9) }];
    end.has_archive = true;
    assert!(store.finish(&lease, &end).await.expect("finished"));
    store.list_execution_files(&acme(), lease.execution_id).await.expect("files").remove(0)
}

async fn deleting_an_artifact_removes_the_archive(store: TestStore) {
    let file = artifact(&store).await;
    let execution = file.execution_id.expect("an execution's");
    assert_eq!(
        list(&store, FileFilter { session_id: None, execution_id: Some(execution) }).await,
        [file.id]
    );
    let deleted = store
        .delete_file(&acme(), file.id, Some("acme/executions/1/archive"))
        .await
        .expect("deleted");
    assert_eq!(
        deleted.expect("it was there").blob_keys,
        [file.blob_key, "acme/executions/1/archive".into()]
    );
    let execution = store.execution(&acme(), execution).await;
    assert!(execution.has_archive && execution.archive_removed);
}

async fn blob_is_a_file_or_pending(store: TestStore) {
    let file = new("a.csv", 3);
    store.add_pending_blob(&acme(), &file.blob_key).await.expect("noted");
    assert_eq!(noted(&store).await, [file.blob_key.as_str()]);
    assert!(
        store.pending_blobs(now() - 1_000_000, 9).await.expect("notes").is_empty(),
        "it is still coming in"
    );
    store.add_file(&acme(), &file, None, None).await.expect("added");
    assert!(noted(&store).await.is_empty());
    store.delete_file(&acme(), file.id, None).await.expect("deleted");
    assert_eq!(
        store.pending_blobs(1, 9).await.expect("notes"),
        [(acme(), file.blob_key.clone())],
        "due at once"
    );
    store.delete_pending_blob(&other(), &file.blob_key).await.expect("answered");
    assert_eq!(noted(&store).await.len(), 1, "the pending row of another tenant stays");
    store.delete_pending_blob(&acme(), &file.blob_key).await.expect("forgotten");
    assert!(noted(&store).await.is_empty());
}

async fn upload_without_pending_row_is_too_late(store: TestStore) {
    let file = new("a.csv", 3);
    assert_eq!(
        store.add_file(&acme(), &file, None, None).await.expect("answered"),
        AddFileResult::TooLate
    );
    assert!(list(&store, FileFilter::default()).await.is_empty());
}

async fn limit(store: &TestStore, max_file_bytes: u64) {
    let policy = TenantPolicy { max_file_bytes: Some(max_file_bytes), ..TenantPolicy::default() };
    assert!(store.update_tenant_policy(&acme(), &policy).await.expect("updated"));
    assert_eq!(store.get_tenant(&acme()).await.expect("read").expect("acme").policy, policy);
}

async fn quota_counts_only_uploads_of_the_tenant(store: TestStore) {
    let used =
        async || store.file_quota(&acme()).await.expect("answered").map(|quota| quota.used_bytes);
    assert_eq!(used().await, None);
    limit(&store, 10).await;
    let from_a_run = artifact(&store).await;
    assert_eq!(used().await, Some(0));
    let first = add(&store, &new("a", 6), None).await;
    assert_eq!(
        try_add(&store, &acme(), &new("b", 5), None).await,
        AddFileResult::OverQuota { used_bytes: 6, limit_bytes: 10 }
    );
    assert_eq!(
        try_add(&store, &acme(), &new("b", 5), Some(from_a_run.id)).await,
        AddFileResult::OverQuota { used_bytes: 6, limit_bytes: 10 }
    );
    add(&store, &new("b", 4), Some(from_a_run.id)).await;
    assert_eq!(used().await, Some(10));
    assert!(matches!(try_add(&store, &other(), &new("c", 99), None).await, AddFileResult::File(_)));
    store.delete_file(&acme(), first.id, None).await.expect("deleted");
    assert_eq!(used().await, Some(4));
}

async fn parallel_uploads_respect_the_file_quota(store: TestStore) {
    limit(&store, 5).await;
    let mut adding = JoinSet::new();
    for _ in 0..8 {
        let store = (*store).clone();
        adding.spawn(async move {
            let file = new("x", 2);
            store.add_pending_blob(&acme(), &file.blob_key).await.expect("noted");
            matches!(
                store.add_file(&acme(), &file, None, None).await.expect("answered"),
                AddFileResult::File(_)
            )
        });
    }
    let added = adding.join_all().await;
    assert_eq!(added.into_iter().filter(|added| *added).count(), 2);
}

async fn later_versions_of_deleted_artifacts_become_pending(store: TestStore) {
    let first = artifact(&store).await;
    let second = add(&store, &new("x", 4), Some(first.id)).await;
    let ended = store.list_ended_before(now() + 1, 9).await.expect("ended");
    store.delete_executions(&ended).await.expect("forgotten");
    assert_eq!(noted(&store).await, [second.blob_key]);
    assert!(list(&store, FileFilter::default()).await.is_empty());
}
