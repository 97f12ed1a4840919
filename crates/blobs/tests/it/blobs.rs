//! Behaviour that both backends share.

use blobs::{BlobError, BlobKey};
use bytes::Bytes;
use tokio::io::AsyncReadExt;

use crate::support::{Bench, on_both};

const HELLO_SHA256: &str = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824";

on_both!(
    put_blob_is_read_back, put_replaces_an_existing_blob, empty_blob_exists, missing_blob_is_none,
    get_enforces_its_maximum, range_is_read_alone, corrupt_blob_fails_before_the_last_bytes,
    hostile_names_stay_within_the_storage, similar_names_are_different_blobs,
    ping_succeeds_on_a_working_backend,
);

async fn put_blob_is_read_back(bench: Bench) {
    for key in [bench.skill("sha256:1"), bench.artifact("a file")] {
        let stored = bench.blobs.put(&key, Bytes::from_static(b"hello")).await.expect("put");
        assert_eq!((stored.size, stored.sha256.as_str()), (5, HELLO_SHA256));
        assert_eq!(bench.blobs.get(&key, 5).await.expect("get").as_deref(), Some(&b"hello"[..]));

        let mut reader = bench.blobs.open(&key).await.expect("open").expect("a blob");
        let mut text = String::new();
        reader.stream.read_to_string(&mut text).await.expect("read");
        assert_eq!((reader.size, text.as_str()), (5, "hello"));
    }
}

async fn put_replaces_an_existing_blob(bench: Bench) {
    let key = bench.archive();
    for text in ["one", "two", "three"] {
        bench.blobs.put(&key, Bytes::from(text)).await.expect("put");
    }
    assert_eq!(bench.blobs.get(&key, 100).await.expect("get").as_deref(), Some(&b"three"[..]));
    assert_eq!(bench.names().await, [key.as_str()]);
}

async fn empty_blob_exists(bench: Bench) {
    let key = bench.artifact("empty");
    bench.blobs.put(&key, Bytes::new()).await.expect("put");
    assert_eq!(bench.blobs.get(&key, 0).await.expect("get"), Some(Bytes::new()));
    assert_eq!(bench.blobs.open(&key).await.expect("open").expect("a blob").size, 0);
}

async fn missing_blob_is_none(bench: Bench) {
    for key in [bench.skill("nothing"), bench.artifact("nothing")] {
        assert_eq!(bench.blobs.get(&key, 100).await.expect("get"), None);
        assert!(bench.blobs.open(&key).await.expect("open").is_none());
    }
}

async fn get_enforces_its_maximum(bench: Bench) {
    let key = bench.skill("big");
    bench.blobs.put(&key, Bytes::from(vec![0; 101])).await.expect("put");
    let refused = bench.blobs.get(&key, 100).await;
    assert!(matches!(refused, Err(BlobError::TooLarge { size: 101, max: 100 })));
}

async fn range_is_read_alone(bench: Bench) {
    let key = bench.artifact("part");
    bench.blobs.put(&key, Bytes::from_static(b"0123456789")).await.expect("stored");
    let read = async |start, length| {
        let reader = bench.blobs.open_range(&key, start, length).await?.expect("it is there");
        assert_eq!(reader.size, length);
        reader.into_bytes(100).await
    };
    for (start, length, part) in [(0, 10, "0123456789"), (3, 4, "3456"), (9, 1, "9"), (4, 0, "")] {
        assert_eq!(read(start, length).await.expect("read"), part.as_bytes(), "{start} {length}");
    }
    for (start, length) in [(0, 11), (9, 2), (20, 1)] {
        assert!(read(start, length).await.is_err(), "{start} {length}: it is shorter");
    }
    let missing = bench.artifact("nothing");
    assert!(bench.blobs.open_range(&missing, 0, 1).await.expect("answered").is_none());
}

async fn corrupt_blob_fails_before_the_last_bytes(bench: Bench) {
    let key = bench.artifact("part");
    let stored = bench.blobs.put(&key, Bytes::from_static(b"0123456789")).await.expect("stored");
    let open = async || bench.blobs.open(&key).await.expect("answered").expect("it is there");
    let bytes =
        open().await.verified(&stored.sha256).into_bytes(10).await.expect("as they were stored");
    assert_eq!(bytes, &b"0123456789"[..]);
    bench.blobs.put(&key, Bytes::from_static(b"0123456788")).await.expect("stored");
    assert!(open().await.verified(&stored.sha256).into_bytes(10).await.is_err());
    assert!(open().await.into_bytes(10).await.is_ok(), "nobody else looks");
}

async fn hostile_names_stay_within_the_storage(bench: Bench) {
    let long = "n".repeat(4000);
    let names = [
        "..",
        "../../../../escape",
        "/etc/escape",
        "a",
        "a/b",
        "a/b/c",
        ".unfinished",
        "",
        "nul\0inside",
        "a?b&c=d#e",
        "a+b c%20d",
        "ünïcödé 😀",
        "line\r\nbreak",
        "<xml>&amp;",
        long.as_str(),
    ];
    for name in names {
        bench.blobs.put(&bench.artifact(name), Bytes::from(name.to_owned())).await.expect(name);
    }
    for name in names {
        let bytes =
            bench.blobs.get(&bench.artifact(name), 5000).await.expect("get").expect("a blob");
        assert_eq!(bytes, name.as_bytes());
    }
    let inside = format!("{}/executions/7/files/", bench.tenant);
    let stored = bench.names().await;
    assert_eq!(stored.len(), names.len());
    assert!(stored.iter().all(|name| name.starts_with(&inside)), "{stored:?}");
}

async fn similar_names_are_different_blobs(bench: Bench) {
    let names = ["a", "A", "a ", " a", "a+", "a%20", "a%2520", "a~", "a.", "ä", "a\u{308}"];
    for name in names {
        bench.blobs.put(&bench.artifact(name), Bytes::from(name)).await.expect(name);
    }
    for name in names {
        let bytes =
            bench.blobs.get(&bench.artifact(name), 100).await.expect("get").expect("a blob");
        assert_eq!(bytes, name.as_bytes());
    }
    let other = BlobKey::artifact(&bench.tenant, 8, "a");
    assert_eq!(bench.blobs.get(&other, 100).await.expect("get"), None);
}

async fn ping_succeeds_on_a_working_backend(bench: Bench) {
    bench.blobs.ping().await.expect("it works");
}
