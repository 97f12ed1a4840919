use blobs::{BlobError, BlobKey, BlobPrefix, StoredBlob};
use bytes::Bytes;
use tokio::task::JoinSet;

use crate::relay::Rule;
use crate::support::{Bench, on_both};

on_both!(
    delete_removes_one_blob, deleting_a_missing_blob_succeeds,
    delete_prefix_deletes_only_its_own_blobs, delete_prefix_deletes_more_than_one_page
);

async fn delete_removes_one_blob(bench: Bench) {
    let (one, two) = (bench.artifact("1"), bench.artifact("2"));
    bench.blobs.put(&one, Bytes::from_static(b"1")).await.expect("put");
    bench.blobs.put(&two, Bytes::from_static(b"2")).await.expect("put");
    bench.blobs.delete(&one).await.expect("delete");
    assert_eq!(bench.blobs.get(&one, 10).await.expect("get"), None);
    assert_eq!(bench.names().await, [two.as_str()]);
}

async fn deleting_a_missing_blob_succeeds(bench: Bench) {
    bench.blobs.delete(&bench.artifact("nothing")).await.expect("delete");
    bench.blobs.delete_prefix(&BlobPrefix::execution(&bench.tenant, 7)).await.expect("delete");
    bench.blobs.delete_prefix(&BlobPrefix::tenant(&bench.tenant)).await.expect("delete");
}

async fn delete_prefix_deletes_only_its_own_blobs(bench: Bench) {
    let tenant = &bench.tenant;
    let gone = [bench.artifact("a"), bench.artifact("b/c"), bench.archive()];
    // Siblings with a common name prefix must stay.
    let kept = [
        BlobKey::archive(tenant, 77),
        BlobKey::archive(&format!("{tenant}2"), 7),
        bench.skill("7"),
    ];
    for key in gone.iter().chain(&kept) {
        bench.blobs.put(key, Bytes::from_static(b"x")).await.expect("put");
    }
    bench.blobs.delete_prefix(&BlobPrefix::execution(tenant, 7)).await.expect("delete");
    for key in &gone {
        assert_eq!(bench.blobs.get(key, 10).await.expect("get"), None, "{key}");
    }
    for key in &kept {
        assert!(bench.blobs.get(key, 10).await.expect("get").is_some(), "{key}");
    }
    bench.blobs.delete_prefix(&BlobPrefix::tenant(tenant)).await.expect("delete");
    for key in &kept {
        let left = bench.blobs.get(key, 10).await.expect("get").is_some();
        assert_eq!(left, !key.belongs_to(tenant), "{key}");
    }
    bench.blobs.delete(&kept[1]).await.expect("delete");
}

async fn delete_prefix_deletes_more_than_one_page(bench: Bench) {
    put_many(&bench, 1005).await;
    bench.blobs.delete_prefix(&BlobPrefix::execution(&bench.tenant, 7)).await.expect("delete");
    assert_eq!(bench.names().await, [""; 0]);
}

#[tokio::test]
async fn server_without_bulk_delete_is_supported() {
    let test = "server_without_bulk_delete_is_supported";
    let Some((bench, relay)) = Bench::relayed(test).await else { return };
    put_many(&bench, 5).await;
    relay.set(Rule::Answer(|line| {
        (line.starts_with("POST") && line.contains("delete")).then_some((501, "NotImplemented"))
    }));
    bench.blobs.delete_prefix(&BlobPrefix::execution(&bench.tenant, 7)).await.expect("delete");
    relay.touched(1).await;
    assert_eq!(bench.names().await, [""; 0]);
}

async fn put_many(bench: &Bench, count: usize) {
    let mut puts: JoinSet<Result<StoredBlob, BlobError>> = JoinSet::new();
    for number in 0..count {
        if puts.len() >= 16 {
            puts.join_next().await.expect("one").expect("no panic").expect("put");
        }
        let (blobs, key) = (bench.blobs.clone(), bench.artifact(&number.to_string()));
        puts.spawn(async move { blobs.put(&key, Bytes::from_static(b"x")).await });
    }
    for stored in puts.join_all().await {
        stored.expect("put");
    }
    assert_eq!(bench.names().await.len(), count);
}
