//! Skills in and out: no row without its archive, no archive without its row.

use blobs::BlobKey;
use catalogue::{CatalogueError, FileMetadata};
use runner::RunError;
use store::{PutSkillResult, Status, StoreError, TenantPolicy, VersionPolicy};

use crate::support::{Bench, SKILL_MD, acme, package, until};

async fn has_archive(bench: &Bench, digest: &str) -> bool {
    bench.blobs.get(&BlobKey::skill("acme", digest), 1 << 20).await.expect("answered").is_some()
}

#[tokio::test]
async fn a_replaced_version_runs_its_new_content_and_the_old_archive_goes() {
    let bench = Bench::new().await;
    let PutSkillResult::Created(first) =
        bench.publish(&[("SKILL.md", SKILL_MD), ("main.sh", "echo one")]).await
    else {
        panic!("not created")
    };
    assert_eq!(bench.run(r#"{"skill":"demo"}"#).await.logs, "one\n");
    let again = bench.publish(&[("SKILL.md", SKILL_MD), ("main.sh", "echo one")]).await;
    assert!(matches!(again, PutSkillResult::Unchanged(_)), "{again:?}");
    let replaced = bench.publish(&[("SKILL.md", SKILL_MD), ("main.sh", "echo two")]).await;
    assert!(
        matches!(&replaced, PutSkillResult::Replaced { old_digest, .. } if *old_digest == first.digest),
        "{replaced:?}"
    );
    assert_eq!(bench.run(r#"{"skill":"demo"}"#).await.logs, "two\n");
    assert!(!has_archive(&bench, &first.digest).await);
}

#[tokio::test]
async fn an_immutable_version_stays_and_the_refused_archive_goes() {
    let bench = Bench::new().await;
    bench.script("main.sh", "echo one").await;
    let other = package(&[("SKILL.md", SKILL_MD), ("main.sh", "echo two")]);
    let digest = other.digest.clone();
    let immutable = TenantPolicy { versions: VersionPolicy::Immutable, ..TenantPolicy::default() };
    let refused = bench.catalogue.publish(None, &acme(), other, &[], &immutable).await;
    assert!(
        matches!(refused, Err(CatalogueError::Store(StoreError::VersionExists))),
        "{refused:?}"
    );
    assert!(!has_archive(&bench, &digest).await);
    assert_eq!(bench.run(r#"{"skill":"demo"}"#).await.logs, "one\n");
}

#[tokio::test]
async fn a_deleted_skill_is_unknown_and_its_archive_goes() {
    let bench = Bench::new().await;
    bench.script("main.sh", "true").await;
    let run = bench.run(r#"{"skill":"demo"}"#).await;
    assert!(bench.catalogue.unpublish(None, &acme(), "demo", "1.0.0").await.expect("deleted"));
    assert!(!bench.catalogue.unpublish(None, &acme(), "demo", "1.0.0").await.expect("answered"));
    assert!(!has_archive(&bench, &run.digest).await);
    assert!(matches!(bench.try_run(r#"{"skill":"demo"}"#).await, Err(RunError::UnknownSkill)));
    assert_eq!(bench.stored(run.id).await.status, Status::Success);
}

#[tokio::test]
async fn what_was_accepted_runs_although_its_skill_is_deleted() {
    let bench = Bench::with(|config| {
        config.slots = 1;
        config.reap_tick = std::time::Duration::from_millis(10);
    })
    .await;
    bench.script("main.sh", "echo still here").await;
    bench.launcher.close();
    let first = bench.spawn(r#"{"skill":"demo"}"#, None);
    let digest = bench.one(Status::Running).await.digest;
    let second = bench.spawn(r#"{"skill":"demo"}"#, None);
    bench.one(Status::Queued).await;
    assert!(bench.catalogue.unpublish(None, &acme(), "demo", "1.0.0").await.expect("deleted"));
    bench.launcher.open();
    for run in [first, second] {
        assert_eq!(run.await.expect("no panic").expect("an execution").logs, "still here\n");
    }
    until(async || (!has_archive(&bench, &digest).await).then_some(())).await;
}

#[tokio::test]
async fn the_archive_of_an_upload_that_never_ended_is_removed_in_time() {
    let bench = Bench::with(|config| config.reap_tick = std::time::Duration::from_millis(10)).await;
    bench.script("main.sh", "echo kept").await;
    // A server noted it, stored it, and died.
    let note = bench
        .store
        .begin_archive_upload(&acme(), "sha256:dead")
        .await
        .expect("noted")
        .expect("free");
    bench
        .blobs
        .put(&BlobKey::skill("acme", "sha256:dead"), bytes::Bytes::from("zip"))
        .await
        .expect("stored");
    // What an hour does.
    bench.store.abort_archive_upload(&note).await.expect("abandoned");
    until(async || (!has_archive(&bench, "sha256:dead").await).then_some(())).await;
    assert_eq!(bench.run(r#"{"skill":"demo"}"#).await.logs, "kept\n");
}

/// A worker's key for the object store may be one that only reads skills. What it cannot remove it
/// must not claim either.
#[tokio::test]
async fn who_only_reads_archives_leaves_their_removal_to_others() {
    let tick = std::time::Duration::from_millis(10);
    let worker =
        Bench::with(|config| (config.reap_tick, config.archives_read_only) = (tick, true)).await;
    let note = worker
        .store
        .begin_archive_upload(&acme(), "sha256:dead")
        .await
        .expect("noted")
        .expect("free");
    worker
        .blobs
        .put(&BlobKey::skill("acme", "sha256:dead"), bytes::Bytes::from("zip"))
        .await
        .expect("stored");
    worker.store.abort_archive_upload(&note).await.expect("abandoned");
    // A file that was deleted is removed after archives are looked at: when it is gone, they were
    // left alone.
    let mut upload = worker.catalogue.begin_upload(&acme()).await.expect("an upload");
    upload.write(b"content").await.expect("written");
    let metadata = FileMetadata { name: "file".to_owned(), content_type: None, session_id: None };
    let file = upload.finish(metadata).await.expect("a file");
    worker.store.delete_file(&acme(), file.id, None).await.expect("deleted");
    let key = BlobKey::parse(&file.blob_key).expect("a key");
    until(async || worker.blobs.get(&key, 100).await.expect("answered").is_none().then_some(()))
        .await;
    assert!(has_archive(&worker, "sha256:dead").await);
    // The control, and the way out: a server that writes archives removes it.
    let Bench { data, store, blobs, runner, .. } = worker;
    runner.drain(std::time::Duration::from_secs(10)).await;
    let api = Bench::on(data, store, blobs, |config| config.reap_tick = tick).await;
    until(async || (!has_archive(&api, "sha256:dead").await).then_some(())).await;
}
