//! The object store is unreachable, silent or failing, and recovers.

use std::time::Duration;

use blobs::{BlobError, BlobPrefix, S3Problem};
use bytes::Bytes;
use tokio::io::AsyncReadExt;

use crate::relay::Rule;
use crate::support::Bench;

/// Longer than any call may take: makes a test with a hanging call fail.
const BOUND: Duration = Duration::from_secs(150);

async fn failure<T>(call: impl Future<Output = Result<T, BlobError>>) -> S3Problem {
    match tokio::time::timeout(BOUND, call).await.expect("it ends") {
        Err(BlobError::S3 { problem, .. }) => problem,
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("it worked"),
    }
}

#[tokio::test]
async fn unreachable_server_is_reported_and_used_again_later() {
    let Some((bench, mut relay)) =
        Bench::relayed("unreachable_server_is_reported_and_used_again_later").await
    else {
        return;
    };
    let (blobs, key) = (bench.blobs.clone(), bench.artifact("a"));
    blobs.put(&key, Bytes::from_static(b"before")).await.expect("put");
    relay.cut().await;
    let (large, prefix) = (bench.artifact("large"), BlobPrefix::tenant(&bench.tenant));
    let problems = tokio::join!(
        failure(blobs.ping()),
        failure(blobs.get(&key, 10)),
        failure(blobs.delete(&key)),
        failure(blobs.delete_prefix(&prefix)),
        failure(blobs.put(&key, Bytes::from_static(b"lost"))),
        failure(blobs.put(&large, Bytes::from(vec![0; 12 << 20]))),
    );
    let problems = [problems.0, problems.1, problems.2, problems.3, problems.4, problems.5];
    for problem in problems {
        assert!(
            matches!(&problem, S3Problem::Unreachable { endpoint, .. } if *endpoint == relay.url()),
            "{problem}"
        );
        assert!(problem.to_string().contains("check s3_endpoint"), "{problem}");
    }
    relay.restore().await;
    blobs.ping().await.expect("it is back");
    assert_eq!(blobs.get(&key, 10).await.expect("get").as_deref(), Some(&b"before"[..]));
    blobs.put(&key, Bytes::from_static(b"after")).await.expect("put");
}

#[tokio::test]
async fn silent_server_times_out_soon() {
    let Some((bench, relay)) = Bench::relayed("silent_server_times_out_soon").await else {
        return;
    };
    let key = bench.artifact("a");
    bench.blobs.put(&key, Bytes::from_static(b"x")).await.expect("put");
    relay.set(Rule::Stall);
    let (ping, get) = tokio::join!(failure(bench.blobs.ping()), failure(bench.blobs.get(&key, 10)));
    assert!(matches!(ping, S3Problem::Silent { .. }), "{ping}");
    assert!(matches!(get, S3Problem::Silent { .. }), "{get}");
    relay.set(Rule::Pass);
    bench.blobs.ping().await.expect("it speaks again");
}

#[tokio::test]
async fn stalled_body_ends_the_stream_with_an_error() {
    let Some((bench, relay)) = Bench::relayed("stalled_body_ends_the_stream_with_an_error").await
    else {
        return;
    };
    let key = bench.artifact("large");
    bench.blobs.put(&key, Bytes::from(vec![b'x'; 30 << 20])).await.expect("put");
    let mut reader = bench.blobs.open(&key).await.expect("open").expect("a blob");
    let mut buffer = vec![0; 1 << 20];
    reader.stream.read_exact(&mut buffer).await.expect("the beginning");
    relay.set(Rule::Stall);
    let rest = tokio::time::timeout(BOUND, reader.stream.read_to_end(&mut buffer)).await;
    assert!(rest.expect("it ends").is_err());
    relay.set(Rule::Pass);
    assert_eq!(
        bench.blobs.get(&key, u64::MAX).await.expect("get").expect("a blob").len(),
        30 << 20
    );
}

#[tokio::test]
async fn upload_survives_a_short_outage() {
    let Some((bench, relay)) = Bench::relayed("upload_survives_a_short_outage").await else {
        return;
    };
    for (key, size) in [(bench.artifact("small"), 10), (bench.artifact("large"), 12 << 20)] {
        relay.set(Rule::Answer(|_| Some((503, "SlowDown"))));
        let (blobs, to) = (bench.blobs.clone(), key.clone());
        let before = relay.so_far();
        let put = tokio::spawn(async move { blobs.put(&to, Bytes::from(vec![b'x'; size])).await });
        relay.touched(before + 2).await;
        relay.set(Rule::Pass);
        assert_eq!(put.await.expect("no panic").expect("put").size, size as u64);
    }
}

#[tokio::test]
async fn permanently_failing_server_is_an_error() {
    let Some((bench, relay)) = Bench::relayed("permanently_failing_server_is_an_error").await
    else {
        return;
    };
    relay.set(Rule::Answer(|_| Some((503, "SlowDown"))));
    let problem = failure(bench.blobs.get(&bench.artifact("a"), 10)).await;
    assert!(matches!(problem, S3Problem::Failing { .. }), "{problem}");
    relay.set(Rule::Pass);
}
