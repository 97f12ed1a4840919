//! Inserting, reading and cancelling executions.

use store::{CancelResult, InitialState, InsertResult, NewExecution, Status, StoreError};
use tokio::task::JoinSet;
use uuid::Uuid;

use crate::support::{
    LEASE_MS, TestStore, acme, finished, idempotency, new_execution, on_both, other, running,
};

on_both!(
    inserted_execution_is_read_back,
    execution_can_be_inserted_as_running,
    duplicate_id_is_a_conflict,
    idempotency_key_means_one_execution,
    twenty_equal_requests_are_one_execution,
    tenants_do_not_share_idempotency_keys,
    queued_execution_is_cancelled_at_once,
    cancel_of_a_running_execution_is_requested,
    finished_execution_cannot_be_cancelled,
    running_executions_are_counted,
);

async fn inserted_execution_is_read_back(store: TestStore) {
    let new = NewExecution {
        key_id: Some(Uuid::now_v7()),
        ..new_execution(&acme(), InitialState::Queued)
    };
    store.insert_execution(&new).await.expect("stored");
    let found = store.execution(&acme(), new.id).await;
    assert_eq!((found.id, found.tenant, found.key_id), (new.id, new.tenant, new.key_id));
    assert_eq!((found.skill_name, found.skill_version), (new.skill_name, new.skill_version));
    assert_eq!((found.digest, found.input), (new.digest, new.input));
    assert_eq!((found.request, found.status), (new.request, Status::Queued));
    assert_eq!((found.attempt, found.started, found.started_at), (0, false, None));
    assert_eq!((found.output, found.logs, found.error), (None, String::new(), None));

    let bare = NewExecution { input: None, ..new_execution(&acme(), InitialState::Queued) };
    store.insert_execution(&bare).await.expect("stored");
    assert_eq!(store.execution(&acme(), bare.id).await.input, None);
    assert_eq!(store.get_execution(&acme(), Uuid::now_v7()).await.expect("readable"), None);
}

async fn execution_can_be_inserted_as_running(store: TestStore) {
    let lease = store.run(&acme()).await;
    assert_eq!((lease.tenant.clone(), lease.owner.as_str(), lease.token), (acme(), "worker", 1));
    let found = store.execution(&acme(), lease.execution_id).await;
    assert_eq!((found.status, found.attempt, found.started), (Status::Running, 1, false));
    assert!(found.started_at.is_some());
    let claimed = store.claim_next("thief", LEASE_MS).await.expect("claimed");
    assert_eq!(claimed, None, "it was never queued");
    assert!(store.finish(&lease, &finished(Status::Success)).await.expect("finished"));
}

async fn duplicate_id_is_a_conflict(store: TestStore) {
    let new = new_execution(&acme(), InitialState::Queued);
    store.insert_execution(&new).await.expect("stored");
    let again = store.insert_execution(&new).await;
    assert!(matches!(again, Err(StoreError::Conflict(_))), "{again:?}");
}

async fn idempotency_key_means_one_execution(store: TestStore) {
    let request = |key, body| NewExecution {
        idempotency: idempotency(key, body),
        ..new_execution(&acme(), running())
    };
    let first = request("key", "body");
    let inserted = store.insert_execution(&first).await.expect("stored");
    let InsertResult::New(Some(lease)) = inserted else { panic!("not new") };
    store.finish(&lease, &finished(Status::Success)).await.expect("finished");

    let again = store.insert_execution(&request("key", "body")).await.expect("replayed");
    let InsertResult::Existing(existing) = again else { panic!("run twice") };
    assert_eq!(*existing, store.execution(&acme(), first.id).await);
    let mismatch = store.insert_execution(&request("key", "another body")).await;
    assert!(matches!(mismatch, Err(StoreError::IdempotencyMismatch)));
    let unrelated = store.insert_execution(&request("another key", "body")).await;
    assert!(matches!(unrelated, Ok(InsertResult::New(_))));
}

async fn twenty_equal_requests_are_one_execution(store: TestStore) {
    let store = std::sync::Arc::new(store);
    let mut tasks = JoinSet::new();
    for _ in 0..20 {
        let store = store.clone();
        tasks.spawn(async move {
            let new = NewExecution {
                idempotency: idempotency("key", "body"),
                ..new_execution(&acme(), running())
            };
            (new.id, store.insert_execution(&new).await.expect("stored"))
        });
    }
    let answers = tasks.join_all().await;
    let is_new = |answer: &&(Uuid, InsertResult)| matches!(answer.1, InsertResult::New(_));
    let winners: Vec<_> = answers.iter().filter(is_new).map(|answer| answer.0).collect();
    assert_eq!(winners.len(), 1);
    for (_, answer) in &answers {
        if let InsertResult::Existing(existing) = answer {
            assert_eq!(existing.id, winners[0]);
        }
    }
    assert_eq!(store.count_running(&acme()).await.expect("counted"), 1);
}

async fn tenants_do_not_share_idempotency_keys(store: TestStore) {
    for tenant in [acme(), other()] {
        let new = NewExecution {
            idempotency: idempotency("key", tenant.as_str()),
            ..new_execution(&tenant, InitialState::Queued)
        };
        let inserted = store.insert_execution(&new).await.expect("stored");
        assert_eq!(inserted, InsertResult::New(None));
    }
}

async fn queued_execution_is_cancelled_at_once(store: TestStore) {
    let id = store.queue(&acme()).await;
    let cancelled = store.request_cancel(&acme(), id).await.expect("cancelled");
    assert_eq!(cancelled, Some(CancelResult::Cancelled));
    let found = store.execution(&acme(), id).await;
    assert_eq!((found.status, found.outcome.as_deref()), (Status::Cancelled, Some("cancelled")));
    assert!(found.finished_at.is_some() && found.error.is_some());
    assert_eq!(
        store.execution(&acme(), id).await.request,
        "",
        "secrets in the request go with its end"
    );
    assert_eq!(store.claim_next("worker", LEASE_MS).await.expect("claimed"), None);
    let again = store.request_cancel(&acme(), id).await.expect("answered");
    assert_eq!(again, Some(CancelResult::AlreadyFinished));
}

async fn cancel_of_a_running_execution_is_requested(store: TestStore) {
    let lease = store.run(&acme()).await;
    let beat = store.heartbeat(std::slice::from_ref(&lease), LEASE_MS).await.expect("beat");
    assert!(beat.cancel_requested.is_empty());
    for _ in 0..2 {
        let asked = store.request_cancel(&acme(), lease.execution_id).await.expect("asked");
        assert_eq!(asked, Some(CancelResult::Requested));
    }
    let found = store.execution(&acme(), lease.execution_id).await;
    assert_eq!((found.status, found.cancel_requested), (Status::Running, true));
    assert_eq!((found.finished_at, found.outcome), (None, None));
    let beat = store.heartbeat(std::slice::from_ref(&lease), LEASE_MS).await.expect("beat");
    assert_eq!(
        (&beat.cancel_requested, &beat.held),
        (&vec![lease.execution_id], &vec![lease.execution_id])
    );
    assert!(store.finish(&lease, &finished(Status::Cancelled)).await.expect("finished"));
}

async fn finished_execution_cannot_be_cancelled(store: TestStore) {
    let lease = store.run(&acme()).await;
    store.finish(&lease, &finished(Status::Timeout)).await.expect("finished");
    let before = store.execution(&acme(), lease.execution_id).await;
    let answer = store.request_cancel(&acme(), lease.execution_id).await.expect("answered");
    assert_eq!(answer, Some(CancelResult::AlreadyFinished));
    assert_eq!(store.execution(&acme(), lease.execution_id).await, before);
    let nothing = store.request_cancel(&acme(), Uuid::now_v7()).await.expect("answered");
    assert_eq!(nothing, None);
}

async fn running_executions_are_counted(store: TestStore) {
    store.queue(&acme()).await;
    let lease = store.run(&acme()).await;
    store.run(&acme()).await;
    store.run(&other()).await;
    assert_eq!(store.count_running(&acme()).await.expect("counted"), 2);
    store.finish(&lease, &finished(Status::Failed)).await.expect("finished");
    assert_eq!(store.count_running(&acme()).await.expect("counted"), 1);
}
