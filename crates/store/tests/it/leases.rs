//! Leases: heartbeats, finishing, requeueing and fencing.

use std::sync::Arc;

use store::{
    FinishedExecution, InitialState, InsertResult, Lease, NewExecution, NewFile, PendingRequests,
    StaleLeases, Status, StoreError, now,
};
use tokio::task::JoinSet;
use uuid::Uuid;

use crate::support::{LEASE_MS, TestStore, acme, finished, new_execution, on_both, reap};

on_both!(
    finish_records_everything,
    result_and_files_are_stored_atomically,
    many_files_are_stored,
    execution_finishes_once,
    parallel_finishes_have_one_winner,
    lost_lease_cannot_change_anything,
    lease_with_a_wrong_field_is_rejected,
    mark_started_returns_pending_requests,
    unstarted_execution_is_requeued,
    unsent_execution_is_requeued_by_its_owner,
    idempotent_execution_is_requeued_until_attempts_are_used_up,
    finish_rejects_a_status_that_is_not_terminal,
    any_output_text_can_be_stored,
    heartbeats_extend_leases,
    heartbeats_report_lost_leases,
    heartbeat_handles_many_leases,
);

fn file(name: &str) -> NewFile {
    NewFile {
        id: Uuid::now_v7(),
        name: name.into(),
        content_type: "text/plain".into(),
        size_bytes: 5,
        sha256: "2cf24dba".into(),
        blob_key: format!("acme/{name}"),
    }
}

/// Takes the lease away and gives the execution to a worker with the same owner name: only the
/// token differs.
async fn hand_over(store: &TestStore, lease: &Lease) -> Lease {
    let reaped = reap(store, StaleLeases::ExpiredAt(now() + LEASE_MS * 2000), 9).await;
    assert_eq!((reaped.len(), reaped[0].requeued), (1, true));
    let claimed = store.claim_next(&lease.owner, LEASE_MS).await.expect("claimed");
    let (execution, new) = claimed.expect("the execution is queued again");
    assert_eq!(execution.id, lease.execution_id);
    assert!(new.token > lease.token);
    new
}

async fn finish_records_everything(store: TestStore) {
    let lease = store.run(&acme()).await;
    let done = FinishedExecution {
        error: Some("it failed".into()),
        outcome: "out_of_memory".into(),
        exit_code: Some(137),
        has_archive: true,
        files: vec![file("b.txt"), file("a/c.txt")],
        ..finished(Status::Failed)
    };
    assert!(store.finish(&lease, &done).await.expect("finished"));
    let found = store.execution(&acme(), lease.execution_id).await;
    assert_eq!((found.status, found.output, found.logs), (done.status, done.output, done.logs));
    assert_eq!((found.error, found.outcome), (done.error, Some(done.outcome)));
    assert_eq!((found.exit_code, found.detail), (done.exit_code, Some(done.detail)));
    assert_eq!((found.duration_ms, found.has_archive), (12, true));
    assert!(found.finished_at > found.started_at);
    assert_eq!(found.request, "", "secrets in the request go with its end");

    let files = store.list_execution_files(&acme(), lease.execution_id).await.expect("listed");
    let names: Vec<_> = files.iter().map(|file| file.name.as_str()).collect();
    assert_eq!(names, ["a/c.txt", "b.txt"]);
    let one = store.get_execution_file(&acme(), lease.execution_id, "b.txt").await;
    assert_eq!(one.expect("readable").as_ref(), Some(&files[1]));
    let new = &done.files[0];
    assert_eq!((files[1].id, files[1].size_bytes, files[1].version), (new.id, 5, 1));
    assert_eq!((&files[1].sha256, &files[1].blob_key), (&new.sha256, &new.blob_key));
    assert_eq!(files[1].execution_id, Some(lease.execution_id));
    let none = store.get_execution_file(&acme(), lease.execution_id, "c.txt").await;
    assert_eq!(none.expect("readable"), None);
}

async fn result_and_files_are_stored_atomically(store: TestStore) {
    let lease = store.run(&acme()).await;
    let twice =
        FinishedExecution { files: vec![file("a"), file("a")], ..finished(Status::Success) };
    let refused = store.finish(&lease, &twice).await;
    assert!(matches!(refused, Err(StoreError::Conflict(_))), "{refused:?}");
    let found = store.execution(&acme(), lease.execution_id).await;
    assert_eq!(found.status, Status::Running);
    let files = store.list_execution_files(&acme(), lease.execution_id).await.expect("listed");
    assert_eq!(files, []);
    assert!(store.finish(&lease, &finished(Status::Failed)).await.expect("finished"));
}

async fn many_files_are_stored(store: TestStore) {
    let lease = store.run(&acme()).await;
    let files = (0..1001).map(|n| file(&format!("{n:04}"))).collect();
    let done = FinishedExecution { files, ..finished(Status::Success) };
    assert!(store.finish(&lease, &done).await.expect("finished"));
    let files = store.list_execution_files(&acme(), lease.execution_id).await.expect("listed");
    assert_eq!(files.len(), 1001);
}

async fn execution_finishes_once(store: TestStore) {
    let lease = store.run(&acme()).await;
    assert!(store.finish(&lease, &finished(Status::Success)).await.expect("finished"));
    let before = store.execution(&acme(), lease.execution_id).await;
    let again = FinishedExecution { files: vec![file("late")], ..finished(Status::Failed) };
    assert!(!store.finish(&lease, &again).await.expect("answered"));
    assert!(store.mark_started(&lease).await.expect("answered").is_none());
    assert_eq!(store.execution(&acme(), lease.execution_id).await, before);
}

async fn parallel_finishes_have_one_winner(store: TestStore) {
    let store = Arc::new(store);
    let lease = store.run(&acme()).await;
    let mut tasks = JoinSet::new();
    for n in 0..10 {
        let (store, lease) = (store.clone(), lease.clone());
        tasks.spawn(async move {
            let name = format!("result {n}");
            let done = FinishedExecution {
                files: vec![file(&name)],
                logs: name.clone(),
                ..finished(Status::Success)
            };
            store.finish(&lease, &done).await.expect("answered").then_some(name)
        });
    }
    let winners: Vec<_> = tasks.join_all().await.into_iter().flatten().collect();
    assert_eq!(winners.len(), 1);
    assert_eq!(store.execution(&acme(), lease.execution_id).await.logs, winners[0]);
    let files = store.list_execution_files(&acme(), lease.execution_id).await.expect("listed");
    assert_eq!((files.len(), &files[0].name), (1, &winners[0]));
}

async fn lost_lease_cannot_change_anything(store: TestStore) {
    let late = store.run(&acme()).await;
    let current = hand_over(&store, &late).await;
    let before = store.execution(&acme(), late.execution_id).await;
    let result = FinishedExecution { files: vec![file("late")], ..finished(Status::Success) };
    assert!(!store.finish(&late, &result).await.expect("answered"));
    assert!(!store.finish(&late, &finished(Status::Success)).await.expect("answered"));
    assert!(store.mark_started(&late).await.expect("answered").is_none());
    assert_eq!(store.execution(&acme(), late.execution_id).await, before);
    let files = store.list_execution_files(&acme(), late.execution_id).await.expect("listed");
    assert_eq!(files, []);

    assert!(store.finish(&current, &finished(Status::Timeout)).await.expect("finished"));
    assert!(!store.finish(&late, &result).await.expect("answered"));
    assert_eq!(store.execution(&acme(), late.execution_id).await.status, Status::Timeout);
}

async fn lease_with_a_wrong_field_is_rejected(store: TestStore) {
    let lease = store.run(&acme()).await;
    let wrong = [
        Lease { token: 2, ..lease.clone() },
        Lease { owner: "thief".into(), ..lease.clone() },
        Lease { tenant: crate::support::other(), ..lease.clone() },
        Lease { execution_id: Uuid::now_v7(), ..lease.clone() },
    ];
    for wrong in wrong {
        assert!(!store.finish(&wrong, &finished(Status::Success)).await.expect("answered"));
        assert!(store.mark_started(&wrong).await.expect("answered").is_none());
    }
    assert!(store.mark_started(&lease).await.expect("answered").is_some());
    assert!(store.execution(&acme(), lease.execution_id).await.started);
}

async fn mark_started_returns_pending_requests(store: TestStore) {
    let asked =
        async |lease: &Lease| store.mark_started(lease).await.expect("answered").expect("held");
    let lease = store.run(&acme()).await;
    assert_eq!(asked(&lease).await, PendingRequests { cancel_requested: false, watched: false });
    store.mark_watched(&acme(), lease.execution_id).await.expect("watched");
    assert_eq!(asked(&lease).await, PendingRequests { cancel_requested: false, watched: true });
    store.request_cancel(&acme(), lease.execution_id).await.expect("asked");
    assert_eq!(asked(&lease).await, PendingRequests { cancel_requested: true, watched: true });
}

async fn unstarted_execution_is_requeued(store: TestStore) {
    let lease = store.run(&acme()).await;
    let release = async |lease: &Lease| store.requeue(lease, 3).await.expect("answered");
    assert!(!release(&Lease { token: 2, ..lease.clone() }).await);
    assert!(release(&lease).await);
    assert!(!release(&lease).await, "it has no owner now");
    let (execution, second) = store.claim_next("w", LEASE_MS).await.expect("claimed").expect("one");
    assert_eq!((execution.id, execution.attempt), (lease.execution_id, 2));
    store.request_cancel(&acme(), execution.id).await.expect("asked");
    assert!(!release(&second).await, "its cancellation was requested");
    let started = store.run(&acme()).await;
    store.mark_started(&started).await.expect("marked");
    assert!(!release(&started).await, "the job may have had effects");
}

async fn unsent_execution_is_requeued_by_its_owner(store: TestStore) {
    let initial_state =
        || InitialState::Running { owner: "w".into(), lease_ms: LEASE_MS, started: true };
    let lease = async || match store
        .insert_execution(&new_execution(&acme(), initial_state()))
        .await
        .expect("stored")
    {
        InsertResult::New(Some(lease)) => lease,
        other => panic!("not inserted as running: {other:?}"),
    };
    let unsent = lease().await;
    let release = async |lease: &Lease, attempts| {
        store.requeue_unsent(lease, "whole", attempts).await.expect("answered")
    };
    assert!(
        !store.requeue(&unsent, 3).await.expect("answered"),
        "by its row the job may have had effects"
    );
    assert!(!release(&Lease { token: 2, ..unsent.clone() }, 3).await, "only its owner knows");
    assert!(!release(&unsent, 1).await, "no attempt is left");
    assert!(release(&unsent, 3).await);
    assert!(!release(&unsent, 3).await, "it has no owner now");
    let (execution, _) = store.claim_next("v", LEASE_MS).await.expect("claimed").expect("one");
    assert_eq!(
        (execution.id, execution.attempt, execution.started),
        (unsent.execution_id, 2, false)
    );
    assert_eq!(execution.request, "whole", "with the request it needs");
    let unwanted = lease().await;
    store.request_cancel(&acme(), unwanted.execution_id).await.expect("asked");
    assert!(!release(&unwanted, 3).await, "its cancellation was requested");
}

async fn idempotent_execution_is_requeued_until_attempts_are_used_up(store: TestStore) {
    let initial_state =
        InitialState::Running { owner: "w".into(), lease_ms: LEASE_MS, started: true };
    let new = NewExecution { idempotent: true, ..new_execution(&acme(), initial_state) };
    let InsertResult::New(Some(lease)) = store.insert_execution(&new).await.expect("inserted")
    else {
        panic!("a lease")
    };
    assert!(store.requeue(&lease, 2).await.expect("answered"));
    let (execution, second) = store.claim_next("w", LEASE_MS).await.expect("claimed").expect("one");
    assert_eq!(
        (execution.id, execution.attempt, execution.started),
        (lease.execution_id, 2, false)
    );
    store.mark_started(&second).await.expect("marked");
    assert!(!store.requeue(&second, 2).await.expect("answered"), "that was the last attempt");
    assert!(!store.requeue(&lease, 9).await.expect("answered"), "an old lease cannot requeue");
}

async fn finish_rejects_a_status_that_is_not_terminal(store: TestStore) {
    let lease = store.run(&acme()).await;
    for status in [Status::Queued, Status::Running] {
        let refused = store.finish(&lease, &finished(status)).await;
        assert!(matches!(refused, Err(StoreError::Conflict(_))));
    }
}

async fn any_output_text_can_be_stored(store: TestStore) {
    let lease = store.run(&acme()).await;
    let done = FinishedExecution {
        logs: "nul \0, bell \u{7}, smile \u{1f600}, last \u{10ffff}\r\n".into(),
        output: Some(r#""escaped \u0000""#.into()),
        ..finished(Status::Success)
    };
    assert!(store.finish(&lease, &done).await.expect("finished"));
    let found = store.execution(&acme(), lease.execution_id).await;
    assert_eq!(found.logs, done.logs.replace('\0', "\u{fffd}"));
    assert_eq!(found.output, done.output);
}

async fn heartbeats_extend_leases(store: TestStore) {
    let lease = store.run(&acme()).await;
    let beat = store.heartbeat(std::slice::from_ref(&lease), LEASE_MS * 10).await.expect("beat");
    assert_eq!(beat.held, [lease.execution_id]);
    let reaped = reap(&store, StaleLeases::ExpiredAt(now() + LEASE_MS * 2000), 9).await;
    assert_eq!(reaped, [], "the first lease would have ended, the extended one has not");
    assert_eq!(store.heartbeat(&[], LEASE_MS).await.expect("beat").held, [] as [Uuid; 0]);
}

async fn heartbeats_report_lost_leases(store: TestStore) {
    let lost = store.run(&acme()).await;
    let current = hand_over(&store, &lost).await;
    let done = store.run(&acme()).await;
    store.finish(&done, &finished(Status::Success)).await.expect("finished");
    let kept = store.run(&acme()).await;
    let beat = store.heartbeat(&[lost, done, kept.clone()], LEASE_MS).await.expect("beat");
    assert_eq!(beat.held, [kept.execution_id]);
    let beat = store.heartbeat(std::slice::from_ref(&current), LEASE_MS).await.expect("beat");
    assert_eq!(beat.held, [current.execution_id]);
}

async fn heartbeat_handles_many_leases(store: TestStore) {
    let store = Arc::new(store);
    let mut leases = Vec::new();
    for _ in 0..501 {
        leases.push(store.run(&acme()).await);
    }
    let beat = store.heartbeat(&leases, LEASE_MS).await.expect("beat");
    assert_eq!((beat.held.len(), beat.cancel_requested.len()), (501, 0));
}
