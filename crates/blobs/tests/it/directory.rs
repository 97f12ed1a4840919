use std::os::unix::fs::PermissionsExt;

use blobs::{BlobError, Blobs, Key, Prefix};
use bytes::Bytes;
use tokio::io::AsyncReadExt;

use crate::{blobs, files};

const HELLO_SHA256: &str = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824";

#[tokio::test]
async fn what_is_put_is_got() {
    let (blobs, _dir) = blobs();
    let key = Key::skill("acme", "sha256:1");
    let stored = blobs.put(&key, Bytes::from_static(b"hello")).await.expect("put");
    assert_eq!((stored.size, stored.sha256.as_str()), (5, HELLO_SHA256));
    assert_eq!(blobs.get(&key, 5).await.expect("get").as_deref(), Some(&b"hello"[..]));

    let mut reader = blobs.open(&key).await.expect("open").expect("a blob");
    let mut text = String::new();
    reader.stream.read_to_string(&mut text).await.expect("read");
    assert_eq!((reader.size, text.as_str()), (5, "hello"));
}

#[tokio::test]
async fn a_put_replaces() {
    let (blobs, dir) = blobs();
    let key = Key::archive("acme", 7);
    for text in ["one", "two", "three"] {
        blobs.put(&key, Bytes::from(text)).await.expect("put");
    }
    assert_eq!(blobs.get(&key, 100).await.expect("get").as_deref(), Some(&b"three"[..]));
    assert_eq!(files(&dir).len(), 1);
}

#[tokio::test]
async fn an_empty_blob_is_a_blob() {
    let (blobs, _dir) = blobs();
    let key = Key::artifact("acme", 7, "empty");
    blobs.put(&key, Bytes::new()).await.expect("put");
    assert_eq!(blobs.get(&key, 0).await.expect("get"), Some(Bytes::new()));
}

#[tokio::test]
async fn a_missing_blob_is_none() {
    let (blobs, _dir) = blobs();
    let key = Key::artifact("acme", 7, "nothing");
    assert_eq!(blobs.get(&key, 100).await.expect("get"), None);
    assert!(blobs.open(&key).await.expect("open").is_none());
    assert!(!blobs.delete(&key).await.expect("delete"));
    let prefix = Prefix::execution("acme", 7);
    assert!(!blobs.delete_prefix(&prefix).await.expect("delete"));
}

#[tokio::test]
async fn get_keeps_to_its_bound() {
    let (blobs, _dir) = blobs();
    let key = Key::skill("acme", "big");
    blobs.put(&key, Bytes::from(vec![0; 101])).await.expect("put");
    let refused = blobs.get(&key, 100).await;
    assert!(matches!(refused, Err(BlobError::TooLarge { size: 101, max: 100 })));
}

#[tokio::test]
async fn hostile_names_are_stored_inside() {
    let (blobs, dir) = blobs();
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
        long.as_str(),
    ];
    for name in names {
        let key = Key::artifact("acme", 7, name);
        blobs.put(&key, Bytes::from(name.to_owned())).await.expect(name);
    }
    for name in names {
        let key = Key::artifact("acme", 7, name);
        let bytes = blobs.get(&key, 5000).await.expect("get").expect("a blob");
        assert_eq!(bytes, name.as_bytes());
    }
    let inside = dir.path().join("blobs/acme/executions/7/files");
    let inside = inside.display().to_string();
    let files = files(&dir);
    assert_eq!(files.len(), names.len());
    assert!(files.iter().all(|file| file.starts_with(&inside)), "{files:?}");
}

#[tokio::test]
async fn delete_removes_one_blob() {
    let (blobs, dir) = blobs();
    let (one, two) = (Key::artifact("acme", 7, "1"), Key::artifact("acme", 7, "2"));
    blobs.put(&one, Bytes::from_static(b"1")).await.expect("put");
    blobs.put(&two, Bytes::from_static(b"2")).await.expect("put");
    assert!(blobs.delete(&one).await.expect("delete"));
    assert_eq!(blobs.get(&one, 10).await.expect("get"), None);
    assert!(blobs.get(&two, 10).await.expect("get").is_some());
    assert_eq!(files(&dir).len(), 1);
}

#[tokio::test]
async fn delete_prefix_removes_its_own_and_no_other() {
    let (blobs, dir) = blobs();
    let gone = [Key::artifact("acme", 7, "a"), Key::artifact("acme", 7, "b/c"), Key::archive("acme", 7)];
    // Siblings whose names begin alike must stay.
    let kept = [Key::archive("acme", 77), Key::archive("acme2", 7), Key::skill("acme", "7")];
    for key in gone.iter().chain(&kept) {
        blobs.put(key, Bytes::from_static(b"x")).await.expect("put");
    }
    assert!(blobs.delete_prefix(&Prefix::execution("acme", 7)).await.expect("delete"));
    for key in &gone {
        assert_eq!(blobs.get(key, 10).await.expect("get"), None, "{key}");
    }
    for key in &kept {
        assert!(blobs.get(key, 10).await.expect("get").is_some(), "{key}");
    }
    assert!(blobs.delete_prefix(&Prefix::tenant("acme")).await.expect("delete"));
    assert_eq!(files(&dir).len(), 1, "only acme2's blob is left");
}

#[tokio::test]
async fn only_the_owner_may_read() {
    let (blobs, dir) = blobs();
    blobs.put(&Key::archive("acme", 7), Bytes::from_static(b"x")).await.expect("put");
    let mode = |path: &str| std::fs::metadata(path).expect("it exists").permissions().mode() & 0o777;
    assert_eq!(mode(&files(&dir)[0]), 0o600);
    assert_eq!(mode(&dir.path().join("blobs/acme").display().to_string()), 0o700);
}

#[tokio::test]
async fn ping_tells_a_working_directory_from_a_lost_one() {
    let (blobs, dir) = blobs();
    blobs.ping().await.expect("a working directory");
    std::fs::remove_dir_all(dir.path().join("blobs")).expect("remove");
    assert!(blobs.ping().await.is_err());
}

#[tokio::test]
async fn opening_again_finds_the_blobs_and_drops_what_a_dead_process_left() {
    let (blobs, dir) = blobs();
    let key = Key::archive("acme", 7);
    blobs.put(&key, Bytes::from_static(b"x")).await.expect("put");
    let unfinished = dir.path().join("blobs/.unfinished");
    std::fs::write(unfinished.join(".tmp1"), "half").expect("a file");
    std::fs::create_dir_all(unfinished.join("deleted-1/tree")).expect("a directory");
    std::fs::write(unfinished.join("deleted-1/tree/file"), "gone").expect("a file");

    let again = Blobs::directory(dir.path().join("blobs")).expect("open");
    assert!(again.get(&key, 10).await.expect("get").is_some());
    assert_eq!(std::fs::read_dir(unfinished).expect("a directory").count(), 0);
}

#[test]
fn a_root_that_cannot_be_made_is_an_error() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    assert!(Blobs::directory(file.path().join("below")).is_err());
}
