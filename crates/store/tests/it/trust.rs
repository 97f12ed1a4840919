//! Trusted keys, revocations, signatures and newest versions, for each tenant separately.

use store::{
    NewSignature, NewTrustedKey, PageRequest, SignaturePolicy, Status, StoreError, TenantPolicy,
    VersionPolicy,
};

use crate::support::{TestStore, acme, finished, new_skill, on_both, other};

on_both!(
    trusted_keys_are_added_once_and_revoked_for_good,
    digests_are_revoked_and_unrevoked,
    trust_record_is_read_in_one_snapshot,
    only_a_trusted_signature_replaces_another,
    newest_signed_version_never_decreases,
    parallel_uploads_leave_the_highest_version,
    trust_is_deleted_with_its_tenant,
    receipt_is_stored_byte_for_byte,
);

fn new_key(id: &str) -> NewTrustedKey {
    NewTrustedKey { key_id: id.into(), public_key: format!("public {id}"), comment: "ci".into() }
}

async fn trusted_keys_are_added_once_and_revoked_for_good(store: TestStore) {
    for id in ["B", "A", "C"] {
        store.add_trusted_key(&acme(), &new_key(id)).await.expect("added");
    }
    let again = store.add_trusted_key(&acme(), &new_key("A")).await;
    assert!(matches!(again, Err(StoreError::Conflict(_))), "{again:?}");
    let ids = async |page: PageRequest| {
        let keys = store.list_trusted_keys(&acme(), &page).await.expect("a list");
        keys.into_iter().map(|key| key.key_id).collect::<Vec<_>>()
    };
    assert_eq!(ids(PageRequest::default()).await, ["A", "B", "C"]);
    assert_eq!(ids(PageRequest::after("A".into(), 1)).await, ["B"]);

    assert!(store.revoke_trusted_key(&acme(), "A").await.expect("revoked"));
    let revoked =
        store.trusted_key(&acme(), "A").await.expect("answered").expect("it keeps its row");
    assert!(revoked.revoked_at.is_some_and(|at| at >= revoked.added_at));
    assert!(store.revoke_trusted_key(&acme(), "A").await.expect("again"));
    assert_eq!(store.trusted_key(&acme(), "A").await.expect("answered"), Some(revoked));
    assert!(matches!(
        store.add_trusted_key(&acme(), &new_key("A")).await,
        Err(StoreError::Conflict(_))
    ));

    // Another tenant is not affected.
    assert_eq!(store.trusted_key(&other(), "A").await.expect("answered"), None);
    assert!(!store.revoke_trusted_key(&other(), "B").await.expect("answered"));
    assert!(store.add_trusted_key(&other(), &new_key("A")).await.is_ok());
}

async fn digests_are_revoked_and_unrevoked(store: TestStore) {
    let revoked = async || {
        store
            .get_trust_record(&acme(), "echo", "1.0.0", "sha256:1")
            .await
            .expect("trust")
            .digest_revoked
    };
    assert!(!revoked().await);
    let first = store.revoke_digest(&acme(), "sha256:1", "stolen key").await.expect("revoked");
    let again = store.revoke_digest(&acme(), "sha256:1", "a better reason").await.expect("revoked");
    assert_eq!((again.revoked_at, again.reason.as_str()), (first.revoked_at, "a better reason"));
    assert!(revoked().await);
    assert!(
        !store
            .get_trust_record(&other(), "echo", "1.0.0", "sha256:1")
            .await
            .expect("trust")
            .digest_revoked
    );
    assert!(!store.unrevoke_digest(&other(), "sha256:1").await.expect("answered"));
    let page = PageRequest::default();
    assert_eq!(store.list_revoked_digests(&acme(), &page).await.expect("a list"), [again]);
    assert!(store.unrevoke_digest(&acme(), "sha256:1").await.expect("taken back"));
    assert!(!store.unrevoke_digest(&acme(), "sha256:1").await.expect("answered"));
    assert!(!revoked().await);
}

async fn put(store: &TestStore, version: &str, digest: &str, text: &str, trusted: bool) {
    let mut new = new_skill("echo", version, digest);
    new.signature = Some(NewSignature { text: text.into(), trusted });
    store.put_skill(&acme(), &new, VersionPolicy::Mutable).await.expect("put");
}

async fn trust_record_is_read_in_one_snapshot(store: TestStore) {
    let unknown = "nobody".parse().expect("a name");
    assert!(matches!(
        store.get_trust_record(&unknown, "echo", "1.0.0", "x").await,
        Err(StoreError::NotFound)
    ));
    let nothing =
        store.get_trust_record(&acme(), "echo", "1.0.0", "sha256:1").await.expect("trust");
    assert_eq!(
        (nothing.policy, nothing.signature, nothing.newest),
        (SignaturePolicy::Off, None, None)
    );

    let policy = TenantPolicy { signatures: SignaturePolicy::Require, ..TenantPolicy::default() };
    assert!(store.update_tenant_policy(&acme(), &policy).await.expect("updated"));
    assert_eq!(store.get_tenant(&acme()).await.expect("answered").expect("acme").policy, policy);
    put(&store, "1.0.0", "sha256:1", "signature one", true).await;
    let trust = store.get_trust_record(&acme(), "echo", "1.0.0", "sha256:1").await.expect("trust");
    assert_eq!(trust.policy, SignaturePolicy::Require);
    assert_eq!(trust.signature.as_deref(), Some("signature one"));
    assert_eq!(trust.newest.expect("known").version, "1.0.0");
    // A signature belongs to one name, version and digest of one tenant.
    for (tenant, name, version, digest) in [
        (acme(), "echo", "1.0.0", "sha256:2"),
        (acme(), "echo", "1.0.1", "sha256:1"),
        (acme(), "ohce", "1.0.0", "sha256:1"),
        (other(), "echo", "1.0.0", "sha256:1"),
    ] {
        let trust = store.get_trust_record(&tenant, name, version, digest).await.expect("trust");
        assert_eq!(trust.signature, None, "{tenant} {name} {version} {digest}");
    }
    // It outlives the skill's row, and is deleted with the archive.
    store.delete_skill(&acme(), "echo", "1.0.0").await.expect("deleted");
    let signature = async || {
        store.get_trust_record(&acme(), "echo", "1.0.0", "sha256:1").await.expect("trust").signature
    };
    assert!(signature().await.is_some());
    store.delete_signatures(&acme(), "sha256:1").await.expect("forgotten");
    assert_eq!(signature().await, None);
}

async fn only_a_trusted_signature_replaces_another(store: TestStore) {
    let signature = async || {
        store.get_trust_record(&acme(), "echo", "1.0.0", "sha256:1").await.expect("trust").signature
    };
    store.publish(&acme(), "echo", "1.0.0", "sha256:1").await;
    assert_eq!(signature().await, None);
    for (text, trusted, expected) in [
        ("doubtful", false, "doubtful"),
        ("worse", false, "doubtful"),
        ("good", true, "good"),
        ("bad", false, "good"),
        ("better", true, "better"),
    ] {
        put(&store, "1.0.0", "sha256:1", text, trusted).await;
        assert_eq!(signature().await.as_deref(), Some(expected), "after {text}");
    }
    // An upload of the same content without a signature keeps the stored one.
    store.publish(&acme(), "echo", "1.0.0", "sha256:1").await;
    assert_eq!(signature().await.as_deref(), Some("better"));
}

async fn newest(store: &TestStore) -> Option<String> {
    store
        .get_trust_record(&acme(), "echo", "0.0.0", "none")
        .await
        .expect("trust")
        .newest
        .map(|newest| newest.version)
}

async fn newest_signed_version_never_decreases(store: TestStore) {
    for (version, trusted, expected) in [
        ("9.0.0", false, None),
        ("1.9.0", true, Some("1.9.0")),
        ("1.10.0", true, Some("1.10.0")),
        ("1.2.0", true, Some("1.10.0")),
        ("3.0.0", false, Some("1.10.0")),
        ("2.0.0-rc.1", true, Some("2.0.0-rc.1")),
    ] {
        put(&store, version, "sha256:1", "text", trusted).await;
        assert_eq!(newest(&store).await.as_deref(), expected, "after {version}");
    }
    let listed = store.list_newest_signed(&acme(), &PageRequest::default()).await.expect("a list");
    assert_eq!(listed.len(), 1);
    assert!(listed[0].is_newer_than("1.10.0") && !listed[0].is_newer_than("2.0.0"));
    assert_eq!(
        store.list_newest_signed(&other(), &PageRequest::default()).await.expect("a list"),
        []
    );
    assert!(!store.reset_newest_signed(&other(), "echo").await.expect("answered"));
    assert!(store.reset_newest_signed(&acme(), "echo").await.expect("forgotten"));
    assert_eq!(newest(&store).await, None);
}

async fn parallel_uploads_leave_the_highest_version(store: TestStore) {
    let store = std::sync::Arc::new(store);
    let uploads = (0..12).map(|number| {
        let store = std::sync::Arc::clone(&store);
        tokio::spawn(async move {
            put(&store, &format!("1.{number}.0"), "sha256:1", "text", true).await
        })
    });
    for upload in uploads.collect::<Vec<_>>() {
        upload.await.expect("uploaded");
    }
    assert_eq!(newest(&store).await.as_deref(), Some("1.11.0"));
}

async fn trust_is_deleted_with_its_tenant(store: TestStore) {
    put(&store, "1.0.0", "sha256:1", "text", true).await;
    store.add_trusted_key(&acme(), &new_key("A")).await.expect("added");
    store.revoke_digest(&acme(), "sha256:2", "").await.expect("revoked");
    assert!(matches!(store.delete_tenant(&acme()).await, Err(StoreError::Conflict(_))));
    // It was not deleted, so it kept everything.
    assert!(store.trusted_key(&acme(), "A").await.expect("answered").is_some());
    store.delete_skill(&acme(), "echo", "1.0.0").await.expect("deleted");
    assert!(store.delete_tenant(&acme()).await.expect("deleted"));
    store.ensure_tenant(&acme()).await.expect("a new one");
    assert_eq!(store.trusted_key(&acme(), "A").await.expect("answered"), None);
}

async fn receipt_is_stored_byte_for_byte(store: TestStore) {
    let lease = store.run(&acme()).await;
    let id = lease.execution_id;
    assert_eq!(store.get_receipt(&acme(), id).await.expect("answered"), None);
    let text = r#"{"payload":"{\"a\":\"ü\"}"}"#;
    let done = store::FinishedExecution { receipt: Some(text.into()), ..finished(Status::Success) };
    assert!(store.finish(&lease, &done).await.expect("finished"));
    assert_eq!(store.get_receipt(&acme(), id).await.expect("answered").as_deref(), Some(text));
    assert_eq!(store.get_receipt(&other(), id).await.expect("answered"), None);
}
