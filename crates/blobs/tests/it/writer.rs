use blobs::BlobError;
use bytes::Bytes;

use crate::support::{Bench, on_both};

/// More than a writer buffers, so that it has created a file or started a multipart upload.
const LONG: usize = 11_000_000;

on_both!(
    blob_is_invisible_before_finish,
    blob_written_in_pieces_equals_the_whole,
    every_length_around_a_part_boundary_is_complete,
    dropped_writer_leaves_nothing,
    dropped_writer_keeps_the_old_blob,
    parallel_writers_of_one_key_leave_one_complete_blob,
);

async fn blob_is_invisible_before_finish(bench: Bench) {
    let (blobs, key) = (&bench.blobs, bench.artifact("report"));
    let mut writer = blobs.writer(&key);
    writer.write(&vec![b'x'; LONG]).await.expect("write");
    assert_eq!(blobs.get(&key, u64::MAX).await.expect("get"), None);
    let stored = writer.finish().await.expect("finish");
    assert_eq!(stored.size, LONG as u64);
    let bytes = blobs.get(&key, u64::MAX).await.expect("get").expect("a blob");
    assert_eq!(bytes.len(), LONG);
}

async fn blob_written_in_pieces_equals_the_whole(bench: Bench) {
    let blobs = &bench.blobs;
    let (pieces, whole) = (bench.artifact("pieces"), bench.artifact("whole"));
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

/// The minimum part size of S3.
async fn every_length_around_a_part_boundary_is_complete(bench: Bench) {
    const PART: usize = 5 << 20;
    let bytes: Vec<u8> = (0..=2 * PART).map(|n| (n % 251) as u8).collect();
    for length in [1, PART - 1, PART, PART + 1, 2 * PART - 1, 2 * PART, 2 * PART + 1] {
        let key = bench.artifact(&length.to_string());
        let stored =
            bench.blobs.put(&key, Bytes::copy_from_slice(&bytes[..length])).await.expect("put");
        assert_eq!(stored.size, length as u64);
        let read = bench.blobs.get(&key, stored.size).await.expect("get").expect("a blob");
        assert!(read == bytes[..length], "{length}");
    }
}

async fn dropped_writer_leaves_nothing(bench: Bench) {
    for size in [10, LONG] {
        let mut writer = bench.blobs.writer(&bench.artifact("report"));
        writer.write(&vec![b'x'; size]).await.expect("write");
        drop(writer);
        bench.is_empty().await;
    }
}

async fn dropped_writer_keeps_the_old_blob(bench: Bench) {
    let (blobs, key) = (&bench.blobs, bench.artifact("report"));
    blobs.put(&key, Bytes::from_static(b"old")).await.expect("put");
    let mut writer = blobs.writer(&key);
    writer.write(&vec![b'x'; LONG]).await.expect("write");
    drop(writer);
    assert_eq!(blobs.get(&key, 10).await.expect("get").as_deref(), Some(&b"old"[..]));
}

#[test]
fn cancelled_write_cannot_be_finished() {
    // The only blocking thread is kept busy, so that the write is in progress when its future is
    // dropped.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .max_blocking_threads(1)
        .build()
        .expect("a runtime");
    let (release, wait) = std::sync::mpsc::channel::<()>();
    runtime.spawn_blocking(move || wait.recv());
    let bench = Bench::directory();
    let (blobs, key) = (&bench.blobs, bench.artifact("report"));
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

async fn parallel_writers_of_one_key_leave_one_complete_blob(bench: Bench) {
    let key = bench.skill("digest");
    let mut writers = tokio::task::JoinSet::new();
    for letter in b'a'..b'e' {
        let (blobs, key) = (bench.blobs.clone(), key.clone());
        writers.spawn(async move { blobs.put(&key, Bytes::from(vec![letter; LONG])).await });
    }
    for stored in writers.join_all().await {
        stored.expect("put");
    }
    let bytes = bench.blobs.get(&key, u64::MAX).await.expect("get").expect("a blob");
    assert!(bytes.len() == LONG && bytes.iter().all(|b| *b == bytes[0]));
    assert_eq!(bench.names().await, [key.as_str()]);
}
