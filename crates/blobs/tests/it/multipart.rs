//! Large blobs on S3: uploads that fail.

use std::time::Duration;

use blobs::{BlobError, Blobs, S3Problem};

use crate::relay::Rule;
use crate::support::{Bench, OwnBuckets, client, server, until, uploads};

const MIB: usize = 1 << 20;

#[tokio::test]
async fn rejected_part_fails_the_blob_and_leaves_nothing() {
    let Some((bench, relay)) =
        Bench::relayed("rejected_part_fails_the_blob_and_leaves_nothing").await
    else {
        return;
    };
    relay.set(Rule::Answer(|line| line.contains("partNumber=2").then_some((403, "AccessDenied"))));
    let key = bench.artifact("report");
    let mut writer = bench.blobs.writer(&key);
    let written = writer.write(&vec![b'x'; 16 * MIB]).await;
    let failed = match written {
        Ok(()) => writer.finish().await.map(drop),
        Err(error) => Err(error),
    };
    let problem = |error: BlobError| match error {
        BlobError::S3 { problem, .. } => Some(problem),
        _ => None,
    };
    let denied = failed.map_err(problem);
    assert!(matches!(denied, Err(Some(S3Problem::Denied { .. }))), "{denied:?}");
    bench.is_empty().await;
    assert_eq!(bench.blobs.get(&key, u64::MAX).await.expect("get"), None);
}

#[tokio::test]
async fn completion_with_a_lost_response_succeeds() {
    let Some((bench, relay)) = Bench::relayed("completion_with_a_lost_response_succeeds").await
    else {
        return;
    };
    relay.set(Rule::Lose(|line| line.starts_with("POST") && line.contains("uploadId=")));
    let key = bench.artifact("report");
    let mut writer = bench.blobs.writer(&key);
    writer.write(&vec![b'x'; 6 * MIB]).await.expect("write");
    let finishing = tokio::spawn(writer.finish());
    relay.touched(1).await;
    // The server may have completed it, so that the next attempt finds no such upload.
    until(async || bench.blobs.get(&key, u64::MAX).await.expect("get")).await;
    relay.set(Rule::Answer(|line| {
        (line.starts_with("POST") && line.contains("uploadId=")).then_some((404, "NoSuchUpload"))
    }));
    finishing.await.expect("no panic").expect("it is stored");
    assert_eq!(bench.names().await, [key.as_str()]);
}

#[tokio::test]
async fn cancelled_write_cannot_be_finished() {
    let Some((bench, relay)) = Bench::relayed("cancelled_write_cannot_be_finished").await else {
        return;
    };
    let key = bench.artifact("report");
    let mut writer = bench.blobs.writer(&key);
    relay.set(Rule::Stall);
    // More parts than may be in flight, so that the write has to wait.
    let bytes = vec![b'x'; 60 * MIB];
    tokio::select! {
        biased;
        done = writer.write(&bytes) => panic!("it did not wait: {done:?}"),
        () = std::future::ready(()) => {}
    }
    relay.set(Rule::Pass);
    let finished = writer.finish().await;
    assert!(matches!(finished, Err(BlobError::Interrupted)));
    bench.is_empty().await;
    assert_eq!(bench.blobs.get(&key, u64::MAX).await.expect("get"), None);
}

#[tokio::test]
async fn stale_uploads_are_aborted_and_foreign_ones_are_not() {
    let Some(config) = server("stale_uploads_are_aborted_and_foreign_ones_are_not") else {
        return;
    };
    let own = OwnBuckets::on(config);
    let config = &own.0;
    let blobs = Blobs::s3(config.clone()).await.expect("an S3 server");
    let (client, bucket) = (client(config), &config.bucket_executions);
    let dead = "acme/executions/7/files/report";
    for key in [dead, "another-program/file", "acme/backups/7"] {
        client.create_multipart_upload().bucket(bucket).key(key).send().await.expect("begun");
    }
    // It may belong to a live process.
    assert_eq!(blobs.abort_unfinished(Duration::from_secs(86_400)).await.expect("swept"), 0);
    assert_eq!(uploads(config, bucket, "").await.len(), 3);
    assert_eq!(blobs.abort_unfinished(Duration::ZERO).await.expect("swept"), 1);
    let left = uploads(config, bucket, "").await;
    assert_eq!((left.len(), left.iter().any(|(key, _)| key == dead)), (2, false));
    for (key, id) in left {
        client
            .abort_multipart_upload()
            .bucket(bucket)
            .key(key)
            .upload_id(id)
            .send()
            .await
            .expect("cleaned");
    }
}
