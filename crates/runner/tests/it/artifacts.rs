//! Files that a run leaves: each one apart, and all in one archive.

use std::io::Read;

use blobs::{BlobKey, BlobPrefix};
use store::{ExecutionFilter, PageRequest, Status};
use tempfile::TempDir;
use uuid::Uuid;

use crate::support::{Bench, acme, detail, open, s3};

const LEAVES_FILES: &str = "cd $SANDBOX_FILES_DIR; mkdir -p sub/deep; printf hello > a.txt; : > empty; \
    head -c 3000000 /dev/zero > sub/deep/big.bin; printf '<svg/>' > 'sub/ü chart.svg'; ln -s a.txt link";

#[tokio::test]
async fn files_are_stored_apart_and_in_one_archive() {
    let bench = Bench::new().await;
    bench.script("main.sh", LEAVES_FILES).await;
    files_and_archive(&bench).await;
}

#[tokio::test]
async fn a_replica_that_never_saw_a_skill_runs_it_from_s3_and_stores_its_files_there() {
    let test = "a_replica_that_never_saw_a_skill_runs_it_from_s3_and_stores_its_files_there";
    let (Some(first), Some(second)) = (s3(test).await, s3(test).await) else { return };
    let data = TempDir::new().expect("a temporary directory");
    let (store, _) = open(data.path()).await;
    store.ensure_tenant(&acme()).await.expect("a tenant");
    // The text is this run's own, and so is the digest: the bucket is not.
    let script = format!("{LEAVES_FILES} # {}", Uuid::new_v4());
    let publisher = Bench::on(data, store.clone(), first.clone(), |config| config.slots = 0).await;
    publisher.script("main.sh", &script).await;

    let elsewhere = TempDir::new().expect("a temporary directory");
    let worker = Bench::on(elsewhere, store.clone(), second, |_| {}).await;
    let checked = tokio::spawn(async move { files_and_archive(&worker).await }).await;
    let page = PageRequest { limit: 100, offset: 0, after: None };
    for run in
        store.list_executions(&acme(), &ExecutionFilter::default(), &page).await.expect("a list")
    {
        first.delete_prefix(&BlobPrefix::execution("acme", run.id)).await.expect("deleted");
    }
    let skill =
        store.get_skill(&acme(), "demo", "latest").await.expect("answered").expect("a skill");
    assert!(
        publisher
            .catalogue
            .unpublish(None, &acme(), "demo", &skill.version)
            .await
            .expect("answered")
    );
    let key = BlobKey::skill("acme", &skill.digest);
    assert_eq!(first.get(&key, 1 << 20).await.expect("answered"), None, "it goes with its skill");
    checked.expect("all of it holds");
}

async fn files_and_archive(bench: &Bench) {
    let run = bench.run(r#"{"skill":"demo"}"#).await;
    assert_eq!((run.status, run.has_archive), (Status::Success, true), "{:?}", run.error);

    let files = bench.store.list_execution_files(&acme(), run.id).await.expect("files");
    let listed: Vec<_> =
        files.iter().map(|f| (f.name.as_str(), f.size_bytes, f.content_type.as_str())).collect();
    let expected = [
        ("a.txt", 5, "text/plain; charset=utf-8"),
        ("empty", 0, "application/octet-stream"),
        ("sub/deep/big.bin", 3_000_000, "application/octet-stream"),
        ("sub/ü chart.svg", 6, "image/svg+xml"),
    ];
    assert_eq!(listed, expected);
    assert_eq!(files[0].sha256, "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824");
    for file in &files {
        let key = BlobKey::parse(&file.blob_key).expect("a key");
        let bytes = bench.blobs.get(&key, 10 << 20).await.expect("answered").expect("stored");
        assert_eq!(bytes.len() as i64, file.size_bytes);
    }
    let archive = bench
        .blobs
        .get(&BlobKey::archive("acme", run.id), 10 << 20)
        .await
        .expect("answered")
        .expect("stored");
    let mut unpacked: Vec<(String, usize, u64)> = Vec::new();
    for entry in
        tar::Archive::new(flate2::read::GzDecoder::new(&*archive)).entries().expect("a tar")
    {
        let mut entry = entry.expect("an entry");
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes).expect("bytes");
        let name = entry.path().expect("a path").to_str().expect("text").to_owned();
        unpacked.push((name, bytes.len(), entry.header().mtime().expect("a time")));
    }
    unpacked.sort();
    let names: Vec<_> =
        unpacked.iter().map(|(name, size, mtime)| (name.as_str(), *size, *mtime)).collect();
    assert_eq!(names, expected.map(|(name, size, _)| (name, size as usize, 0)));
    let skipped = detail(&run).skipped;
    assert_eq!(skipped.iter().map(|file| file.path.as_str()).collect::<Vec<_>>(), ["link"]);
}

#[tokio::test]
async fn a_failed_run_keeps_its_files_and_one_without_files_has_no_archive() {
    let bench = Bench::new().await;
    bench.script("main.sh", "echo partial > ${SANDBOX_FILES_DIR}part.csv; exit 1").await;
    let run = bench.run(r#"{"skill":"demo"}"#).await;
    assert_eq!((run.status, run.has_archive), (Status::Failed, true));
    assert_eq!(bench.execution_blobs().len(), 2);

    bench.script("main.sh", "true").await;
    let run = bench.run(r#"{"skill":"demo"}"#).await;
    assert_eq!((run.status, run.has_archive), (Status::Success, false));
    assert_eq!(bench.execution_blobs().len(), 2);
}

#[tokio::test]
async fn when_blobs_fail_the_run_is_lost_and_nothing_half_written_stays() {
    let bench = Bench::new().await;
    bench
        .script(
            "main.sh",
            "echo before; echo x > ${SANDBOX_FILES_DIR}a; echo y > ${SANDBOX_FILES_DIR}b",
        )
        .await;
    // A file where the tenant's directory of executions has to be: no blob can be written below it.
    let in_the_way = bench.data.path().join("blobs/acme/executions");
    std::fs::write(&in_the_way, "").expect("written");
    let run = bench.run(r#"{"skill":"demo"}"#).await;
    assert_eq!((run.status, run.outcome.as_deref()), (Status::Failed, Some("lost")));
    assert_eq!((run.has_archive, run.logs.as_str()), (false, "before\n"));
    std::fs::remove_file(&in_the_way).expect("removed");
    let files = bench.store.list_execution_files(&acme(), run.id).await.expect("files");
    assert!(files.is_empty() && bench.execution_blobs().is_empty());
}

#[tokio::test]
async fn what_is_lost_runs_again_when_its_skill_may() {
    let bench = Bench::new().await;
    let skill = "---\nname: demo\ndescription: Leaves a file.\nidempotent: true\n---\nRuns.\n";
    bench.publish(&[("SKILL.md", skill), ("main.sh", "echo x > ${SANDBOX_FILES_DIR}a")]).await;
    let in_the_way = bench.data.path().join("blobs/acme/executions");
    std::fs::write(&in_the_way, "").expect("written");
    let run = bench.run(r#"{"skill":"demo"}"#).await;
    assert_eq!(
        (run.status, run.outcome.as_deref(), run.attempt),
        (Status::Failed, Some("lost"), 3)
    );
    std::fs::remove_file(&in_the_way).expect("removed");
    let run = bench.run(r#"{"skill":"demo"}"#).await;
    assert_eq!((run.status, run.attempt), (Status::Success, 1));
}
