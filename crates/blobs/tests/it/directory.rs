//! Behaviour of the directory backend.

use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use blobs::Blobs;
use bytes::Bytes;

use crate::support::Bench;

#[tokio::test]
async fn only_the_owner_may_read() {
    let bench = Bench::directory();
    let key = bench.archive();
    bench.blobs.put(&key, Bytes::from_static(b"x")).await.expect("put");
    let root = bench.dir().join("blobs");
    let mode = |path: &str| {
        std::fs::metadata(root.join(path)).expect("it exists").permissions().mode() & 0o777
    };
    assert_eq!(mode(key.as_str()), 0o600);
    assert_eq!(mode("acme"), 0o700);
}

#[tokio::test]
async fn ping_detects_a_removed_directory() {
    let bench = Bench::directory();
    bench.blobs.ping().await.expect("a working directory");
    std::fs::remove_dir_all(bench.dir().join("blobs")).expect("remove");
    assert!(bench.blobs.ping().await.is_err());
}

#[tokio::test]
async fn reopening_keeps_blobs_and_removes_unfinished_files() {
    let bench = Bench::directory();
    let key = bench.archive();
    bench.blobs.put(&key, Bytes::from_static(b"x")).await.expect("put");
    let unfinished = bench.dir().join("blobs/.unfinished");
    std::fs::write(unfinished.join(".tmp1"), "half").expect("a file");
    std::fs::create_dir_all(unfinished.join("deleted-1/tree")).expect("a directory");
    std::fs::write(unfinished.join("deleted-1/tree/file"), "gone").expect("a file");

    let again = Blobs::directory(bench.dir().join("blobs")).expect("open");
    assert!(again.get(&key, 10).await.expect("get").is_some());
    assert_eq!(std::fs::read_dir(unfinished).expect("a directory").count(), 0);
}

#[tokio::test]
async fn directory_has_no_presigned_urls() {
    let bench = Bench::directory();
    let url = bench.blobs.presign(
        &bench.archive(),
        "a.tar.gz",
        "application/gzip",
        Duration::from_secs(60),
    );
    assert_eq!(url.expect("answered"), None);
}

#[test]
fn root_that_cannot_be_created_is_an_error() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    assert!(Blobs::directory(file.path().join("below")).is_err());
}
