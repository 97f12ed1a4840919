//! Log segments of running executions.

use store::{LogSegment, LogStream, Status, now};
use uuid::Uuid;

use crate::support::{LEASE_MS, TestStore, acme, finished, on_both, other};

on_both!(
    segments_are_read_in_order_from_any_offset,
    only_active_executions_can_be_watched,
    heartbeats_report_watched_executions
);

fn piece(ends_at: i64, text: &str) -> LogSegment {
    LogSegment { ends_at, stream: LogStream::Stdout, written_at: now(), text: text.into() }
}

async fn segments_are_read_in_order_from_any_offset(store: TestStore) {
    let lease = store.run(&acme()).await;
    let id = lease.execution_id;
    let pieces = [
        piece(3, "one"),
        piece(6, "two"),
        LogSegment { stream: LogStream::Stderr, ..piece(11, "three") },
    ];
    store.append_log(&lease, &pieces[..2]).await.expect("written");
    store.append_log(&lease, &pieces).await.expect("a repetition changes nothing");
    let read =
        async |after, limit| store.read_log(&acme(), id, 1, after, limit).await.expect("read");
    assert_eq!(read(0, 10).await, pieces);
    assert_eq!(read(3, 1).await, pieces[1..2]);
    assert_eq!(read(4, 10).await, pieces[1..]);
    assert_eq!(read(11, 10).await, []);
    assert_eq!(
        store.read_log(&acme(), id, 2, 0, 10).await.expect("read"),
        [],
        "another attempt has its own log"
    );
    assert_eq!(
        store.read_log(&other(), id, 1, 0, 10).await.expect("read"),
        [],
        "and another tenant has none"
    );
}

async fn only_active_executions_can_be_watched(store: TestStore) {
    let lease = store.run(&acme()).await;
    let id = lease.execution_id;
    assert!(!store.mark_watched(&other(), id).await.expect("answered"));
    assert!(!store.mark_watched(&acme(), Uuid::now_v7()).await.expect("answered"));
    assert!(store.mark_watched(&acme(), id).await.expect("answered"));
    store.finish(&lease, &finished(Status::Success)).await.expect("finished");
    assert!(!store.mark_watched(&acme(), id).await.expect("answered"));
    let queued = store.queue(&acme()).await;
    assert!(store.mark_watched(&acme(), queued).await.expect("answered"));
    let (_, taken) = store.claim_next("w", LEASE_MS).await.expect("claimed").expect("one");
    let asked = store.mark_started(&taken).await.expect("answered").expect("held");
    assert!(asked.watched, "the worker that claims it must know");
}

async fn heartbeats_report_watched_executions(store: TestStore) {
    let (watched, quiet) = (store.run(&acme()).await, store.run(&acme()).await);
    store.mark_watched(&acme(), watched.execution_id).await.expect("answered");
    let beat = store.heartbeat(&[watched.clone(), quiet], LEASE_MS).await.expect("beat");
    assert_eq!((beat.watched, beat.held.len()), (vec![watched.execution_id], 2));
}
