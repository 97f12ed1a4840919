//! How fast an object store is through this crate: small blobs one after the other, a large one as
//! a stream.
//!
//! `cargo run --release -p blobs --example s3_speed -- <endpoint> <access key> <secret key>`

use std::time::{Duration, Instant};

use blobs::{BlobError, BlobKey, BlobPrefix, Blobs, S3Config};
use bytes::Bytes;
use tokio::io::AsyncReadExt;

const ROUNDS: usize = 300;
const SMALL: usize = 4096;
const LARGE: u64 = 256 << 20;
const TENANT: &str = "s3-speed";

#[tokio::main]
async fn main() -> Result<(), BlobError> {
    let mut arguments = std::env::args().skip(1);
    let mut next =
        || arguments.next().expect("usage: s3_speed <endpoint> <access key> <secret key>");
    let config = S3Config {
        endpoint: next(),
        access_key: next(),
        secret_key: next(),
        region: "us-east-1".to_owned(),
        bucket_skills: "skillbox-speed".to_owned(),
        bucket_executions: "skillbox-speed".to_owned(),
        skills_read_only: false,
        public_url: None,
    };
    let blobs = Blobs::s3(config).await?;
    let measured = measure(&blobs).await;
    blobs.delete_prefix(&BlobPrefix::tenant(TENANT)).await?;
    measured
}

async fn measure(blobs: &Blobs) -> Result<(), BlobError> {
    let (mut put, mut get, mut delete, mut ping) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        let key = BlobKey::artifact(TENANT, round, "small");
        timed(&mut put, blobs.put(&key, Bytes::from_static(&[b'x'; SMALL]))).await?;
        timed(&mut get, blobs.get(&key, SMALL as u64)).await?;
        timed(&mut delete, blobs.delete(&key)).await?;
        timed(&mut ping, blobs.ping()).await?;
    }
    for (name, times) in [("put", put), ("get", get), ("delete", delete), ("ping", ping)] {
        report(name, times);
    }
    large(blobs).await
}

async fn large(blobs: &Blobs) -> Result<(), BlobError> {
    let (key, piece) = (BlobKey::archive(TENANT, "large"), vec![b'x'; 64 * 1024]);
    let began = Instant::now();
    let mut writer = blobs.writer(&key);
    while writer.size() < LARGE {
        writer.write(&piece).await?;
    }
    writer.finish().await?;
    println!("upload   {:6.0} MiB/s", rate(began));

    let began = Instant::now();
    let mut reader = blobs.open(&key).await?.expect("it was stored");
    let mut buffer = vec![0; 64 * 1024];
    while reader.stream.read(&mut buffer).await.expect("readable") > 0 {}
    println!("download {:6.0} MiB/s", rate(began));
    Ok(())
}

fn rate(began: Instant) -> f64 {
    (LARGE >> 20) as f64 / began.elapsed().as_secs_f64()
}

async fn timed<T>(
    times: &mut Vec<Duration>,
    call: impl Future<Output = Result<T, BlobError>>,
) -> Result<T, BlobError> {
    let began = Instant::now();
    let done = call.await;
    times.push(began.elapsed());
    done
}

fn report(name: &str, mut times: Vec<Duration>) {
    times.sort();
    let ms = |at: usize| times[at].as_secs_f64() * 1e3;
    println!(
        "{name:8} p50 {:6.2} ms   p99 {:6.2} ms",
        ms(times.len() / 2),
        ms(times.len() * 99 / 100)
    );
}
