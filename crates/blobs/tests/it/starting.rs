//! The start: creating buckets and reporting wrong settings.

use blobs::{BlobError, BlobKey, Blobs, S3Config};
use bytes::Bytes;
use tokio::task::JoinSet;

use crate::relay::{Relay, Rule};
use crate::support::{OwnBuckets, client, server};

#[tokio::test]
async fn missing_buckets_are_created_by_concurrent_starts() {
    let Some(config) = server("missing_buckets_are_created_by_concurrent_starts") else { return };
    let own = OwnBuckets::on(config);
    let mut replicas = JoinSet::new();
    for _ in 0..6 {
        replicas.spawn(Blobs::s3(own.0.clone()));
    }
    for replica in replicas.join_all().await {
        replica.expect("a replica").ping().await.expect("usable");
    }
    let again = Blobs::s3(own.0.clone()).await.expect("a later start");
    again.put(&BlobKey::skill("acme", "1"), Bytes::from_static(b"s")).await.expect("put");
    again.put(&BlobKey::archive("acme", 7), Bytes::from_static(b"e")).await.expect("put");
    for (bucket, expected) in [
        (&own.0.bucket_skills, "acme/skills/1"),
        (&own.0.bucket_executions, "acme/executions/7/archive.tar.gz"),
    ] {
        let listed = client(&own.0).list_objects_v2().bucket(bucket).send().await.expect("a list");
        let keys: Vec<_> = listed.contents().iter().filter_map(|object| object.key()).collect();
        assert_eq!(keys, [expected], "the trials are removed, and each kind is in its bucket");
    }
}

#[tokio::test]
async fn bucket_deleted_after_start_is_reported() {
    let Some(config) = server("bucket_deleted_after_start_is_reported") else { return };
    let own = OwnBuckets::on(config);
    let blobs = Blobs::s3(own.0.clone()).await.expect("an S3 server");
    client(&own.0).delete_bucket().bucket(&own.0.bucket_skills).send().await.expect("deleted");
    let error = blobs.ping().await.expect_err("a bucket is missing").to_string();
    assert!(error.contains(&own.0.bucket_skills) && error.contains("s3_bucket_skills"), "{error}");
    let error = blobs
        .get(&BlobKey::skill("acme", "1"), 10)
        .await
        .expect_err("a bucket is missing")
        .to_string();
    assert!(error.contains("s3_bucket_skills"), "{error}");
}

/// The error of a start with these settings.
async fn refusal(config: S3Config) -> String {
    let secret = config.secret_key.clone();
    let error = Blobs::s3(config).await.expect_err("it cannot start");
    assert!(!format!("{error} {error:?}").contains(&secret));
    error.to_string()
}

#[tokio::test]
async fn wrong_credentials_are_distinguished() {
    let Some(config) = server("wrong_credentials_are_distinguished") else { return };
    let said =
        refusal(S3Config { secret_key: "not-the-secret".to_owned(), ..config.clone() }).await;
    assert!(said.contains("check s3_secret_key"), "{said}");
    let said = refusal(S3Config { access_key: "nobody".to_owned(), ..config.clone() }).await;
    assert!(said.contains("check s3_access_key"), "{said}");
    let wrong =
        Blobs::s3(S3Config { public_url: Some("files.example.com".to_owned()), ..config }).await;
    assert!(matches!(wrong, Err(BlobError::Setting { setting: "s3_public_url", .. })));
}

#[tokio::test]
async fn unreachable_endpoint_is_reported() {
    let mut relay = Relay::to_nobody().await;
    relay.cut().await;
    let said = refusal(config(relay.url())).await;
    assert!(said.contains(&relay.url()) && said.contains("check s3_endpoint"), "{said}");
    let said = refusal(config("http://nowhere.invalid:9000".to_owned())).await;
    assert!(said.contains("nowhere.invalid") && said.contains("check s3_endpoint"), "{said}");
}

/// Responses that a healthy self-hosted server does not give.
#[tokio::test]
async fn error_responses_of_other_servers_are_understood() {
    type Answer = fn(&str) -> Option<(u16, &'static str)>;
    let taken: Answer = |line| {
        Some(if line.starts_with("PUT") {
            (409, "BucketAlreadyExists")
        } else {
            (404, "NoSuchBucket")
        })
    };
    let may_not_make: Answer = |line| {
        Some(if line.starts_with("PUT") { (403, "AccessDenied") } else { (404, "NoSuchBucket") })
    };
    let cases: [(Answer, &[&str]); 6] = [
        (|_| Some((403, "RequestTimeTooSkewed")), &["clock"]),
        (
            |_| Some((403, "AccessDenied")),
            &["bucket skills", "docs/storage.md", "s3_bucket_skills"],
        ),
        (|_| Some((301, "PermanentRedirect")), &["s3_region"]),
        (|_| Some((418, "Teapot")), &["418", "Teapot"]),
        (taken, &["belongs to another account", "s3_bucket_skills"]),
        (may_not_make, &["create a bucket", "bucket skills", "docs/storage.md"]),
    ];
    let relay = Relay::to_nobody().await;
    for (answer, expected) in cases {
        relay.set(Rule::Answer(answer));
        let said = refusal(config(relay.url())).await;
        assert!(expected.iter().all(|words| said.contains(words)), "{said}");
    }
}

fn config(endpoint: String) -> S3Config {
    S3Config {
        endpoint,
        region: "us-east-1".to_owned(),
        access_key: "skillbox".to_owned(),
        secret_key: "a-secret-of-this-test".to_owned(),
        bucket_skills: "skills".to_owned(),
        bucket_executions: "executions".to_owned(),
        skills_read_only: false,
        public_url: None,
    }
}
