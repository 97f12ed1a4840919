//! The storage count of a tenant: updated with every change, equal to the sum over the rows, limited.

use store::{
    AddFileResult, FinishedExecution, InitialState, InsertResult, LogSegment, LogStream,
    MIN_RESULT_BYTES, NewExecution, NewFile, StaleLeases, Status, Store, StoreError, TenantId,
    TenantPolicy, VersionPolicy, now,
};
use tokio::task::JoinSet;
use uuid::Uuid;

use crate::support::{
    LEASE_MS, TestStore, acme, finished, new_execution, new_skill, on_both, other, reap, running,
};

on_both!(
    every_kind_of_row_is_counted,
    count_equals_the_rows_after_any_sequence,
    change_above_the_quota_is_rolled_back,
    parallel_changes_respect_the_quota,
    changes_are_folded_during_concurrent_writes,
    archive_counts_once_its_size_is_known,
    deleted_tenant_leaves_no_count,
    archive_of_a_deleted_skill_counts_while_an_execution_needs_it,
);

async fn used(store: &Store, tenant: &TenantId) -> i64 {
    store.storage_usage(tenant).await.expect("read").used_bytes
}

fn file(size_bytes: i64) -> NewFile {
    let id = Uuid::now_v7();
    NewFile {
        id,
        name: id.to_string(),
        content_type: "text/plain".into(),
        size_bytes,
        sha256: "2cf24dba".into(),
        blob_key: format!("acme/files/{id}"),
    }
}

async fn upload(store: &Store, size_bytes: i64) -> Result<AddFileResult, StoreError> {
    let file = file(size_bytes);
    store.add_pending_blob(&acme(), &file.blob_key).await.expect("noted");
    store.add_file(&acme(), &file, None, None).await
}

fn with_artifact(size_bytes: i64) -> FinishedExecution {
    let files = vec![file(size_bytes)];
    FinishedExecution {
        files,
        has_archive: true,
        archive_bytes: Some(size_bytes / 2),
        ..finished(Status::Success)
    }
}

/// The counted bytes of a finished execution of `new_execution`, without files.
fn bytes_of(done: &FinishedExecution) -> i64 {
    let texts = [
        done.output.as_deref(),
        Some(done.logs.as_str()),
        done.error.as_deref(),
        done.receipt.as_deref(),
    ];
    let result = texts.into_iter().flatten().map(|text| text.len() as i64).sum::<i64>()
        + done.detail.len() as i64;
    r#"{"n":1}"#.len() as i64 + result.max(MIN_RESULT_BYTES) + done.archive_bytes.unwrap_or(0)
}

async fn every_kind_of_row_is_counted(store: TestStore) {
    assert_eq!(used(&store, &acme()).await, 0);
    upload(&store, 1000).await.expect("added");
    assert_eq!(used(&store, &acme()).await, 1000);

    let skill = new_skill("s", "1.0.0", "sha256:s");
    let documents = [skill.manifest.to_string(), skill.scripts.to_string(), "[]".into()];
    let of_skill = 123
        + skill.description.len() as i64
        + documents.iter().map(|text| text.len() as i64).sum::<i64>();
    store.put_skill(&acme(), &skill, VersionPolicy::Mutable).await.expect("published");
    assert_eq!(used(&store, &acme()).await, 1000 + of_skill);

    let lease = store.run(&acme()).await;
    let request = (r#"{"n":1}"#.len() + r#"{"skill":"echo"}"#.len()) as i64 + MIN_RESULT_BYTES;
    assert_eq!(used(&store, &acme()).await, 1000 + of_skill + request);
    let text = "ä".to_owned();
    let piece = LogSegment { ends_at: 2, stream: LogStream::Stdout, written_at: now(), text };
    store.append_log(&lease, &[piece]).await.expect("written");
    assert_eq!(used(&store, &acme()).await, 1000 + of_skill + request + 2, "bytes, not characters");

    let done = FinishedExecution {
        logs: "ä".repeat(9000),
        receipt: Some("signed".into()),
        ..with_artifact(500)
    };
    assert!(store.finish(&lease, &done).await.expect("finished"));
    assert_eq!(
        used(&store, &acme()).await,
        1000 + of_skill + 2 + 500 + bytes_of(&done),
        "both copies of the artifact"
    );
    assert_eq!(used(&store, &other()).await, 0);

    let ended = store.list_ended_before(i64::MAX, 10).await.expect("listed");
    store.delete_artifacts(&ended).await.expect("forgotten");
    store.delete_executions(&ended).await.expect("forgotten");
    store.delete_skill(&acme(), "s", "1.0.0").await.expect("deleted");
    assert_eq!(used(&store, &acme()).await, 1000);
}

/// Pseudo-random numbers that are the same in every run of the test.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }

    fn text(&mut self) -> String {
        "ä\0x".repeat(self.below(3000) as usize)
    }
}

async fn count_equals_the_rows_after_any_sequence(store: TestStore) {
    let mut dice = Dice(0x5eed);
    let mut leases = Vec::new();
    for step in 0..400 {
        let tenant = if dice.below(3) == 0 { other() } else { acme() };
        change(&store, &tenant, &mut dice, &mut leases).await;
        for tenant in [acme(), other()] {
            let rows = store.recount_storage(&tenant).await.expect("counted");
            assert_eq!(used(&store, &tenant).await, rows, "{tenant} after step {step}");
        }
    }
    let total = used(&store, &acme()).await;
    assert!(total > 100_000, "the sequence stores something: {total}");
}

/// One change of any kind, including changes that fail.
async fn change(store: &Store, tenant: &TenantId, dice: &mut Dice, leases: &mut Vec<store::Lease>) {
    let size = dice.below(1000) as i64;
    match dice.below(16) {
        0 | 1 => {
            let new = file(size);
            store.add_pending_blob(tenant, &new.blob_key).await.expect("noted");
            let first = store
                .list_files(tenant, &Default::default(), &Default::default())
                .await
                .expect("listed");
            let of = first.first().filter(|_| size % 2 == 0).map(|row| row.id);
            store.add_file(tenant, &new, None, of).await.expect("added");
        }
        2 => {
            let rows = store
                .list_files(tenant, &Default::default(), &Default::default())
                .await
                .expect("listed");
            if let Some(row) = rows.last() {
                store
                    .delete_file(tenant, row.id, row.execution_id.map(|_| "archive"))
                    .await
                    .expect("deleted");
            }
        }
        3 | 4 => {
            let digest = format!("sha256:{}", dice.below(5));
            let skill = store::NewSkill {
                size_bytes: size,
                ..new_skill("s", ["1.0.0", "2.0.0"][(size % 2) as usize], &digest)
            };
            let policy =
                if size % 3 == 0 { VersionPolicy::Immutable } else { VersionPolicy::Mutable };
            let put = store.put_skill(tenant, &skill, policy).await;
            assert!(matches!(put, Ok(_) | Err(StoreError::VersionExists)), "{put:?}");
        }
        5 => drop(store.delete_skill(tenant, "s", "1.0.0").await.expect("deleted")),
        6..=8 => {
            let initial_state = if size % 2 == 0 { InitialState::Queued } else { running() };
            let webhook = (size % 5 == 0).then(|| "https://example.com".to_owned());
            let new = NewExecution {
                input: Some(dice.text()),
                webhook,
                idempotent: size % 3 == 0,
                ..new_execution(tenant, initial_state)
            };
            if let InsertResult::New(Some(lease)) =
                store.insert_execution(&new).await.expect("stored")
            {
                leases.push(lease);
            }
        }
        9 => {
            if let Some((_, lease)) = store.claim_next("worker", LEASE_MS).await.expect("claimed") {
                leases.push(lease);
            }
        }
        10 | 11 => {
            let Some(lease) = leases.pop() else { return };
            let text = dice.text();
            let piece = LogSegment {
                ends_at: size + 1,
                stream: LogStream::Merged,
                written_at: now(),
                text,
            };
            store.append_log(&lease, &[piece]).await.expect("written or lost");
            let done = FinishedExecution {
                logs: dice.text(),
                receipt: Some(dice.text()),
                ..with_artifact(size)
            };
            let finished = store.finish(&lease, &done).await.expect("finished or lost");
            // A late worker, and a repeated call.
            assert!(!(finished && store.finish(&lease, &done).await.expect("lost")));
        }
        12 => drop(leases.pop().map(|lease| lease.execution_id)),
        13 => drop(reap(store, StaleLeases::NotOwnedBy("nobody"), 2).await),
        14 => {
            let rows = store
                .list_executions(tenant, &Default::default(), &Default::default())
                .await
                .expect("listed");
            if let Some(row) = rows.first() {
                store.request_cancel(tenant, row.id).await.expect("answered");
            }
            store.fold_storage_changes().await.expect("folded");
        }
        _ => {
            let ended = store.list_ended_before(i64::MAX, 2).await.expect("listed");
            match size % 3 {
                0 => store.delete_logs(&ended).await.expect("forgotten"),
                1 => store.delete_artifacts(&ended).await.expect("forgotten"),
                _ => store.delete_executions(&ended).await.expect("forgotten"),
            }
        }
    }
}

const LIMIT: i64 = 20_000;

async fn limit(store: &Store, max_stored_bytes: u64) {
    let policy =
        TenantPolicy { max_stored_bytes: Some(max_stored_bytes), ..TenantPolicy::default() };
    assert!(store.update_tenant_policy(&acme(), &policy).await.expect("updated"));
}

fn is_full<T: std::fmt::Debug>(result: Result<T, StoreError>, used: i64) -> bool {
    matches!(result, Err(StoreError::StorageFull { used_bytes, limit_bytes: LIMIT, needed_bytes: 1.. }) if used_bytes == used)
}

async fn change_above_the_quota_is_rolled_back(store: TestStore) {
    let lease = store.run(&acme()).await;
    let before = used(&store, &acme()).await;
    limit(&store, LIMIT as u64).await;
    assert!(is_full(upload(&store, LIMIT + 1 - before).await, before));
    let large = store::NewSkill { size_bytes: LIMIT, ..new_skill("s", "1.0.0", "sha256:s") };
    assert!(is_full(store.put_skill(&acme(), &large, VersionPolicy::Mutable).await, before));
    let large = NewExecution {
        input: Some("x".repeat(LIMIT as usize)),
        ..new_execution(&acme(), InitialState::Queued)
    };
    assert!(is_full(store.insert_within_limits(&large).await, before));
    assert!(is_full(store.finish_within_limit(&lease, &with_artifact(LIMIT)).await, before));
    assert_eq!(used(&store, &acme()).await, before, "nothing is left of any of them");
    assert_eq!(store.execution(&acme(), lease.execution_id).await.status, Status::Running);

    // Control: without the quota the same changes succeed.
    store.update_tenant_policy(&acme(), &TenantPolicy::default()).await.expect("updated");
    store
        .put_skill(
            &acme(),
            &store::NewSkill { size_bytes: LIMIT, ..new_skill("s", "1.0.0", "sha256:s") },
            VersionPolicy::Mutable,
        )
        .await
        .expect("published");
    upload(&store, LIMIT).await.expect("added");
    store.insert_within_limits(&large).await.expect("stored");
    assert!(store.finish_within_limit(&lease, &with_artifact(LIMIT)).await.expect("finished"));

    // Above a quota that was lowered later, freeing bytes still works, and adding bytes does not.
    limit(&store, LIMIT as u64).await;
    let over = used(&store, &acme()).await;
    assert!(is_full(upload(&store, 1).await, over));
    let smaller = store::NewSkill { size_bytes: 10, ..new_skill("s", "1.0.0", "sha256:t") };
    store.put_skill(&acme(), &smaller, VersionPolicy::Mutable).await.expect("replaced");
    assert!(used(&store, &acme()).await < over);
    assert_eq!(store.storage_usage(&acme()).await.expect("read").limit_bytes, Some(LIMIT));

    // The server's default applies to tenants without a quota.
    let defaulted = store.second().await.with_storage_limit(Some(5));
    assert_eq!(defaulted.storage_usage(&other()).await.expect("read").limit_bytes, Some(5));
    let new = new_execution(&other(), InitialState::Queued);
    assert!(matches!(
        defaulted.insert_within_limits(&new).await,
        Err(StoreError::StorageFull { limit_bytes: 5, .. })
    ));
    assert_eq!(defaulted.storage_usage(&acme()).await.expect("read").limit_bytes, Some(LIMIT));
}

async fn parallel_changes_respect_the_quota(store: TestStore) {
    limit(&store, 1000).await;
    let mut adding = JoinSet::new();
    for number in 0..60 {
        let store = store.second().await;
        adding.spawn(async move {
            if number % 3 == 0 {
                store.fold_storage_changes().await.expect("folded");
            }
            upload(&store, 300).await.is_ok()
        });
    }
    let added = adding.join_all().await.into_iter().filter(|added| *added).count();
    assert_eq!((added, used(&store, &acme()).await), (3, 900));
}

async fn changes_are_folded_during_concurrent_writes(store: TestStore) {
    let mut tasks = JoinSet::new();
    for number in 0..8 {
        let store = store.second().await;
        tasks.spawn(async move {
            for _ in 0..10 {
                match number % 2 {
                    0 => drop(upload(&store, 7).await.expect("added")),
                    _ => store.fold_storage_changes().await.expect("folded"),
                }
            }
        });
    }
    tasks.join_all().await;
    assert_eq!(used(&store, &acme()).await, 4 * 10 * 7);
    store.fold_storage_changes().await.expect("folded");
    assert_eq!(used(&store, &acme()).await, 4 * 10 * 7);
}

async fn archive_counts_once_its_size_is_known(store: TestStore) {
    let lease = store.run(&acme()).await;
    // An older program does not store the size.
    let done = FinishedExecution { archive_bytes: None, ..with_artifact(10) };
    assert!(store.finish(&lease, &done).await.expect("finished"));
    let before = used(&store, &acme()).await;
    let unmeasured = store.unmeasured_archives(10).await.expect("listed");
    assert_eq!(
        unmeasured.iter().map(|archive| archive.execution_id).collect::<Vec<_>>(),
        [lease.execution_id]
    );
    store.set_archive_bytes(&unmeasured[0], 77).await.expect("measured");
    store.set_archive_bytes(&unmeasured[0], 99).await.expect("once");
    assert_eq!(used(&store, &acme()).await, before + 77);
    assert_eq!(store.unmeasured_archives(10).await.expect("listed"), []);
}

async fn deleted_tenant_leaves_no_count(store: TestStore) {
    let AddFileResult::File(row) = upload(&store, 50).await.expect("added") else {
        panic!("not added")
    };
    store.fold_storage_changes().await.expect("folded");
    let deleted = store.delete_file(&acme(), row.id, None).await.expect("deleted").expect("a file");
    for key in deleted.blob_keys {
        store.delete_pending_blob(&acme(), &key).await.expect("forgotten");
    }
    assert!(store.delete_tenant(&acme()).await.expect("deleted"));
    store.ensure_tenant(&acme()).await.expect("made again");
    assert_eq!(used(&store, &acme()).await, 0);
}

async fn archive_of_a_deleted_skill_counts_while_an_execution_needs_it(store: TestStore) {
    assert!(
        store.claim_archive_removal(&acme(), "sha256:s", now(), LEASE_MS).await.expect("claimed")
    );
    assert_eq!(used(&store, &acme()).await, 0);
    for _ in 0..2 {
        store.defer_archive_removal(&acme(), "sha256:s", 123).await.expect("put off");
        assert_eq!(used(&store, &acme()).await, 123);
    }
    store.finish_archive_removal(&acme(), "sha256:s").await.expect("removed");
    assert_eq!(used(&store, &acme()).await, 0);
}
