use blobs::{BlobError, Key};
use bytes::Bytes;

use crate::{blobs, files};

/// More than a writer holds in memory, so that it has spilled to a file.
const LONG: usize = 1_000_000;

#[tokio::test]
async fn nothing_is_visible_before_the_end() {
    let (blobs, _dir) = blobs();
    let key = Key::artifact("acme", 7, "report");
    let mut writer = blobs.writer(&key);
    writer.write(&vec![b'x'; LONG]).await.expect("write");
    assert_eq!(blobs.get(&key, u64::MAX).await.expect("get"), None);
    let stored = writer.finish().await.expect("finish");
    assert_eq!(stored.size, LONG as u64);
    let bytes = blobs.get(&key, u64::MAX).await.expect("get").expect("a blob");
    assert_eq!(bytes.len(), LONG);
}

#[tokio::test]
async fn pieces_make_the_same_blob_as_the_whole() {
    let (blobs, _dir) = blobs();
    let (pieces, whole) = (Key::artifact("acme", 7, "pieces"), Key::artifact("acme", 7, "whole"));
    let bytes: Vec<u8> = (0..LONG).map(|n| (n % 251) as u8).collect();
    let mut writer = blobs.writer(&pieces);
    for piece in bytes.chunks(70_001) {
        writer.write(piece).await.expect("write");
    }
    assert_eq!(writer.size(), LONG as u64);
    let stored = writer.finish().await.expect("finish");
    assert_eq!(stored, blobs.put(&whole, Bytes::from(bytes.clone())).await.expect("put"));
    let read = blobs.get(&pieces, u64::MAX).await.expect("get").expect("a blob");
    assert_eq!(read, bytes);
}

#[tokio::test]
async fn a_dropped_writer_leaves_nothing() {
    let (blobs, dir) = blobs();
    let key = Key::artifact("acme", 7, "report");
    for size in [10, LONG] {
        let mut writer = blobs.writer(&key);
        writer.write(&vec![b'x'; size]).await.expect("write");
        drop(writer);
        assert_eq!(files(&dir), [""; 0]);
    }
}

#[tokio::test]
async fn a_dropped_writer_leaves_the_old_blob() {
    let (blobs, _dir) = blobs();
    let key = Key::artifact("acme", 7, "report");
    blobs.put(&key, Bytes::from_static(b"old")).await.expect("put");
    let mut writer = blobs.writer(&key);
    writer.write(&vec![b'x'; LONG]).await.expect("write");
    drop(writer);
    assert_eq!(blobs.get(&key, 10).await.expect("get").as_deref(), Some(&b"old"[..]));
}

#[test]
fn an_abandoned_write_cannot_be_finished() {
    // The only thread that may block is kept busy, so that the write is certain to be under way
    // when its caller goes away.
    let runtime = tokio::runtime::Builder::new_current_thread().max_blocking_threads(1).build().expect("a runtime");
    let (release, wait) = std::sync::mpsc::channel::<()>();
    runtime.spawn_blocking(move || wait.recv());
    let (blobs, _dir) = blobs();
    let key = Key::artifact("acme", 7, "report");
    runtime.block_on(async {
        let mut writer = blobs.writer(&key);
        let bytes = vec![b'x'; LONG];
        tokio::select! {
            biased;
            done = writer.write(&bytes) => panic!("it did not wait: {done:?}"),
            () = std::future::ready(()) => {}
        }
        release.send(()).expect("the thread waits");
        let finished = writer.finish().await;
        assert!(matches!(finished, Err(BlobError::Interrupted)));
        assert_eq!(blobs.get(&key, u64::MAX).await.expect("get"), None);
    });
}

#[tokio::test]
async fn parallel_writers_of_one_key_end_with_one_whole_blob() {
    let (blobs, dir) = blobs();
    let key = Key::skill("acme", "digest");
    let mut writers = tokio::task::JoinSet::new();
    for letter in b'a'..b'i' {
        let (blobs, key) = (blobs.clone(), key.clone());
        writers.spawn(async move { blobs.put(&key, Bytes::from(vec![letter; LONG])).await });
    }
    for stored in writers.join_all().await {
        stored.expect("put");
    }
    let bytes = blobs.get(&key, u64::MAX).await.expect("get").expect("a blob");
    assert!(bytes.len() == LONG && bytes.iter().all(|b| *b == bytes[0]));
    assert_eq!(files(&dir).len(), 1);
}
