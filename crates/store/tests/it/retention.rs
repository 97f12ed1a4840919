//! Retention: deleting old executions, and nothing else.

use store::{
    ExpiredExecution, FinishedExecution, InitialState, LogSegment, LogStream, NewExecution,
    NewFile, Status, TenantId, now,
};
use uuid::Uuid;

use crate::support::{TestStore, acme, finished, new_execution, on_both, other, running};

on_both!(
    ended_executions_are_listed_by_their_end, parts_are_deleted_before_the_execution,
    execution_with_pending_webhook_is_kept
);

fn piece() -> LogSegment {
    LogSegment { ends_at: 4, stream: LogStream::Stdout, written_at: now(), text: "line".into() }
}

async fn end(store: &TestStore, tenant: &TenantId) -> Uuid {
    let lease = store.run(tenant).await;
    store.mark_watched(tenant, lease.execution_id).await.expect("watched");
    store.append_log(&lease, &[piece()]).await.expect("written");
    let file = NewFile {
        id: Uuid::now_v7(),
        name: "a.txt".into(),
        content_type: "text/plain".into(),
        size_bytes: 1,
        sha256: "00".into(),
        blob_key: format!("{tenant}/a.txt"),
    };
    let detail = r#"{"stdout":"line","stderr":"","usage":{"cpu_ms":3}}"#.to_owned();
    let done = FinishedExecution {
        files: vec![file],
        has_archive: true,
        detail,
        ..finished(Status::Success)
    };
    assert!(store.finish(&lease, &done).await.expect("finished"));
    lease.execution_id
}

async fn all(store: &TestStore) -> Vec<ExpiredExecution> {
    store.list_ended_before(i64::MAX, 100).await.expect("listed")
}

async fn ended_executions_are_listed_by_their_end(store: TestStore) {
    let (first, second) = (end(&store, &acme()).await, end(&store, &other()).await);
    store.run(&acme()).await;
    store.queue(&acme()).await;
    let ended = all(&store).await;
    assert_eq!(ended.iter().map(|ended| ended.execution_id).collect::<Vec<_>>(), [first, second]);
    assert_eq!(
        (ended[0].tenant.clone(), ended[0].attempts, ended[0].may_have_blobs),
        (acme(), 1, true)
    );
    let between = async |after: Option<&str>, until| {
        let found = store.list_ended_between(after, until, 100).await.expect("listed");
        found.into_iter().map(|ended| ended.execution_id).collect::<Vec<_>>()
    };
    assert_eq!(between(None, ended[1].finished_at).await, [first]);
    assert_eq!(between(Some(&ended[0].cursor()), i64::MAX).await, [second]);
    assert_eq!(store.list_ended_before(i64::MAX, 1).await.expect("listed").len(), 1);
}

async fn parts_are_deleted_before_the_execution(store: TestStore) {
    let (old, kept) = (end(&store, &acme()).await, end(&store, &acme()).await);
    let ended = store.list_ended_before(i64::MAX, 1).await.expect("listed");
    let live = store.run(&acme()).await;
    store.append_log(&live, &[piece()]).await.expect("written");
    assert_eq!(
        store.delete_log_segments(ended[0].finished_at + 1, 100).await.expect("forgotten"),
        1
    );
    assert_eq!(store.read_log(&acme(), old, 1, 0, 9).await.expect("read"), []);
    assert_eq!(store.read_log(&acme(), live.execution_id, 1, 0, 9).await.expect("read").len(), 1);
    assert_ne!(store.execution(&acme(), old).await.logs, "");

    store.delete_logs(&ended).await.expect("forgotten");
    store.delete_artifacts(&ended).await.expect("forgotten");
    let found = store.execution(&acme(), old).await;
    assert_eq!((found.logs.as_str(), found.has_archive), ("", false));
    assert_eq!(
        found.detail.as_deref(),
        Some(r#"{"usage":{"cpu_ms":3}}"#),
        "no copy of the log is left"
    );
    assert_eq!(found.output.as_deref(), Some(r#"{"ok":true}"#));
    assert_eq!(store.list_execution_files(&acme(), old).await.expect("listed"), []);

    store.delete_executions(&ended).await.expect("forgotten");
    assert_eq!(store.get_execution(&acme(), old).await.expect("answered"), None);
    store.delete_executions(&[]).await.expect("nothing to forget");

    let found = store.execution(&acme(), kept).await;
    assert!(found.has_archive && !found.logs.is_empty());
    assert_eq!(store.read_log(&acme(), kept, 1, 0, 9).await.expect("read").len(), 1);
    assert_eq!(store.list_execution_files(&acme(), kept).await.expect("listed").len(), 1);
    store.delete_executions(&all(&store).await).await.expect("forgotten with all its parts");
    assert_eq!(all(&store).await, []);
}

async fn execution_with_pending_webhook_is_kept(store: TestStore) {
    let new = NewExecution {
        webhook: Some("https://example.com".into()),
        ..new_execution(&acme(), running())
    };
    let store::InsertResult::New(Some(lease)) = store.insert_execution(&new).await.expect("stored")
    else {
        panic!("no lease")
    };
    store.finish(&lease, &finished(Status::Success)).await.expect("finished");
    let never = new_execution(&acme(), InitialState::Queued);
    store.insert_execution(&never).await.expect("stored");
    assert_eq!(all(&store).await, []);
    let call = store.claim_webhooks(now(), 1, 1000).await.expect("claimed").remove(0);
    store.mark_webhook_delivered(&call).await.expect("delivered");
    assert_eq!(all(&store).await.len(), 1);
    store.delete_executions(&all(&store).await).await.expect("forgotten");
    assert_eq!(store.get_webhook(&acme(), new.id).await.expect("answered"), None);
}
