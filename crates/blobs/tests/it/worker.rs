//! An access key with the permissions of a worker: it reads skills and writes artifacts, no more.

use aws_sdk_s3::error::ProvideErrorMetadata;
use blobs::{BlobError, BlobKey, Blobs, S3Config};
use bytes::Bytes;
use uuid::Uuid;

use crate::support::{client, server};

/// Blob storage with the access key of an API process.
async fn whole(config: &S3Config) -> Blobs {
    Blobs::s3(config.clone()).await.expect("an S3 server")
}

fn worker(config: &S3Config, test: &str) -> Option<S3Config> {
    #[expect(
        clippy::disallowed_methods,
        reason = "a test harness has no configuration to take it from"
    )]
    let set = |name: &str| std::env::var(format!("SKILLBOX_TEST_S3_WORKER_{name}")).ok();
    let (Some(access_key), Some(secret_key)) = (set("ACCESS_KEY"), set("SECRET_KEY")) else {
        println!(
            "NEEDS S3: {test} was not run, because SKILLBOX_TEST_S3_WORKER_ACCESS_KEY and _SECRET_KEY are not set"
        );
        return None;
    };
    Some(S3Config { access_key, secret_key, skills_read_only: true, ..config.clone() })
}

#[tokio::test]
async fn worker_needs_no_permission_to_write_skills() {
    let test = "worker_needs_no_permission_to_write_skills";
    let Some(config) = server(test) else { return };
    let Some(narrow) = worker(&config, test) else { return };
    let (api, tenant) = (whole(&config).await, format!("test-{}", Uuid::new_v4()));
    let skill = BlobKey::skill(&tenant, "1");
    api.put(&skill, Bytes::from_static(b"archive")).await.expect("put");

    let blobs = Blobs::s3(narrow.clone()).await.expect("a start with a worker's rights");
    blobs.ping().await.expect("ready");
    assert_eq!(blobs.get(&skill, 100).await.expect("read"), Some(Bytes::from_static(b"archive")));
    assert_eq!(
        blobs.get(&BlobKey::skill(&tenant, "2"), 100).await.expect("a missing one is no refusal"),
        None
    );
    let result = BlobKey::archive(&tenant, 7);
    blobs.put(&result, Bytes::from_static(b"files")).await.expect("what a run left");
    blobs.delete(&result).await.expect("and its removal");
    blobs.abort_unfinished(std::time::Duration::ZERO).await.expect("only where it may write");

    // The attack: a compromised worker replaces or deletes the skills of all tenants.
    for refused in
        [blobs.put(&skill, Bytes::from_static(b"evil")).await.map(drop), blobs.delete(&skill).await]
    {
        let said = refused.expect_err("no right").to_string();
        assert!(said.contains("not allowed to do this in the bucket"), "{said}");
    }
    assert_eq!(api.get(&skill, 100).await.expect("read"), Some(Bytes::from_static(b"archive")));
    // Control: the same with the key of an API process.
    let wide = whole(&S3Config { skills_read_only: true, ..config.clone() }).await;
    wide.put(&skill, Bytes::from_static(b"evil")).await.expect("put");
    assert_eq!(api.get(&skill, 100).await.expect("read"), Some(Bytes::from_static(b"evil")));
    wide.delete(&skill).await.expect("removed");
}

#[tokio::test]
async fn worker_cannot_access_or_create_other_buckets() {
    let test = "worker_cannot_access_or_create_other_buckets";
    let Some(config) = server(test) else { return };
    let Some(narrow) = worker(&config, test) else { return };
    let other = format!("skillbox-other-{}", Uuid::new_v4());
    let (owner, worker) = (client(&config), client(&narrow));
    let denied = |code: Option<&str>| assert_eq!(code, Some("AccessDenied"));
    denied(worker.create_bucket().bucket(&other).send().await.expect_err("no right").code());
    // Control: the bucket is created and read with the key of an API process.
    owner.create_bucket().bucket(&other).send().await.expect("made");
    owner
        .put_object()
        .bucket(&other)
        .key("a")
        .body(b"a".to_vec().into())
        .send()
        .await
        .expect("put");
    owner.get_object().bucket(&other).key("a").send().await.expect("read");
    denied(worker.get_object().bucket(&other).key("a").send().await.expect_err("no right").code());
    denied(worker.list_objects_v2().bucket(&other).send().await.expect_err("no right").code());
    owner.delete_object().bucket(&other).key("a").send().await.expect("removed");
    owner.delete_bucket().bucket(&other).send().await.expect("removed");
}

/// A start in another role fails with such a key, before the first upload does.
#[tokio::test]
async fn publishing_server_does_not_start_with_a_worker_key() {
    let test = "publishing_server_does_not_start_with_a_worker_key";
    let Some(config) = server(test) else { return };
    let Some(narrow) = worker(&config, test) else { return };
    whole(&config).await;
    let refused = Blobs::s3(S3Config { skills_read_only: false, ..narrow })
        .await
        .expect_err("no right to write");
    assert!(
        matches!(&refused, BlobError::S3 { .. })
            && refused.to_string().contains("s3_bucket_skills"),
        "{refused}"
    );
}
