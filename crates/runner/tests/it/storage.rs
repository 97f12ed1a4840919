//! The count of what a tenant stores, after everything that a runner does.

use blobs::BlobKey;
use bytes::Bytes;
use store::{Execution, FinishedExecution, InitialState, InsertResult, NewExecution, Status};
use uuid::Uuid;

use crate::support::{Bench, acme, until};

impl Bench {
    /// The counted bytes. The rows may change before they are added up.
    async fn counted(&self) -> i64 {
        self.store.storage_usage(&acme()).await.expect("read").used_bytes
    }

    /// The same while nothing changes: it is what the rows add up to.
    pub(crate) async fn stored_bytes(&self) -> i64 {
        let used = self.counted().await;
        assert_eq!(used, self.store.recount_storage(&acme()).await.expect("counted"));
        used
    }
}

impl Bench {
    /// What an ended execution counts for in the database.
    async fn documents(&self, run: &Execution) -> i64 {
        let text = |text: &Option<String>| text.as_deref().map_or(0, str::len);
        let receipt = self.store.get_receipt(&acme(), run.id).await.expect("read");
        let result = run.logs.len()
            + text(&run.output)
            + text(&run.error)
            + text(&run.detail)
            + text(&receipt);
        text(&run.input) as i64 + (result as i64).max(store::MIN_RESULT_BYTES)
    }
}

/// Bytes of all files below a directory.
fn on_disk(directory: &std::path::Path) -> i64 {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    let size = |entry: std::fs::DirEntry| match entry.metadata().expect("there") {
        metadata if metadata.is_dir() => on_disk(&entry.path()),
        metadata => metadata.len() as i64,
    };
    entries.map(size).sum()
}

#[tokio::test]
async fn both_copies_of_artifacts_are_counted_to_the_byte() {
    let bench = Bench::new().await;
    bench
        .script("main.sh", "for n in 1 2 3; do head -c $((n * 5000)) /dev/urandom > ${SANDBOX_FILES_DIR}$n.bin; done")
        .await;
    let before = bench.stored_bytes().await;
    let run = bench.run(r#"{"skill":"demo"}"#).await;
    assert_eq!(run.status, Status::Success);
    let documents = bench.documents(&run).await;
    let blobs = on_disk(&bench.data.path().join("blobs/acme/executions"));
    assert!(blobs > 2 * 30_000);
    assert_eq!(bench.stored_bytes().await - before, documents + blobs);
}

#[tokio::test]
async fn an_archive_that_an_older_server_recorded_is_measured() {
    let bench = Bench::new().await;
    let id = Uuid::now_v7();
    let new = NewExecution {
        id,
        tenant: acme(),
        key_id: None,
        skill_name: "demo".into(),
        skill_version: "1.0.0".into(),
        digest: "sha256:demo".into(),
        input: None,
        request: "{}".into(),
        idempotency: None,
        idempotent: false,
        awaited: false,
        webhook: None,
        initial_state: InitialState::Running {
            owner: "older".into(),
            lease_ms: 60_000,
            started: true,
        },
    };
    let InsertResult::New(Some(lease)) = bench.store.insert_execution(&new).await.expect("stored")
    else {
        panic!("no lease")
    };
    bench
        .blobs
        .put(&BlobKey::archive("acme", id), Bytes::from(vec![7; 4321]))
        .await
        .expect("stored");
    let finished = FinishedExecution {
        status: Status::Success,
        output: None,
        logs: String::new(),
        error: None,
        outcome: "exited".into(),
        exit_code: Some(0),
        detail: "{}".into(),
        duration_ms: 1,
        files: vec![],
        has_archive: true,
        archive_bytes: None,
        receipt: None,
    };
    assert!(bench.store.finish(&lease, &finished).await.expect("finished"));
    let before = bench.stored_bytes().await;
    bench.runner.update_storage_count().await.expect("measured");
    assert_eq!(bench.stored_bytes().await - before, 4321);
}

#[tokio::test]
async fn the_archive_of_a_deleted_skill_counts_until_it_is_gone() {
    let bench = Bench::with(|config| {
        config.slots = 1;
        config.reap_tick = std::time::Duration::from_millis(10);
    })
    .await;
    bench.script("main.sh", &format!("# {}", Uuid::new_v4())).await;
    let archive = on_disk(&bench.data.path().join("blobs/acme/skills"));
    assert!(archive > 0);
    bench.launcher.close();
    let first = bench.spawn(r#"{"skill":"demo"}"#, None);
    bench.one(Status::Running).await;
    assert!(bench.catalogue.unpublish(None, &acme(), "demo", "1.0.0").await.expect("deleted"));
    let deleted = bench.stored_bytes().await;
    assert!(deleted >= archive, "{deleted} of {archive}");
    bench.launcher.open();
    let run = first.await.expect("no panic").expect("an execution");
    until(async || (on_disk(&bench.data.path().join("blobs/acme/skills")) == 0).then_some(()))
        .await;
    let documents = bench.documents(&run).await;
    until(async || (bench.counted().await == documents).then_some(())).await;
    assert_eq!(bench.stored_bytes().await, documents);
}
