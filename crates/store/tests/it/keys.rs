use store::{NewApiKey, PageRequest, Scope, StoreError, TenantId, now};
use uuid::Uuid;

use crate::support::{TestStore, acme, on_both, other};

on_both!(
    key_is_found_by_its_hash,
    duplicate_hash_is_a_conflict,
    revoked_key_stays_revoked,
    keys_are_listed_newest_first,
    service_keys_are_listed_only_on_request,
    only_an_active_service_key_with_scope_admin_counts,
);

pub(crate) fn new_key(tenant: &TenantId, hash: &str) -> NewApiKey {
    NewApiKey {
        tenant: tenant.clone(),
        name: "ci".into(),
        prefix: "sk-abcde".into(),
        hash: hash.into(),
        scopes: vec![Scope::Execute, Scope::Read],
        service: false,
        skills: None,
        expires_at: None,
    }
}

async fn key_is_found_by_its_hash(store: TestStore) {
    assert_eq!(store.count_keys().await.expect("counted"), 0);
    let new = NewApiKey {
        service: true,
        skills: Some(vec!["echo".into()]),
        expires_at: Some(now() + 1_000_000),
        ..new_key(&acme(), "hash")
    };
    let made = store.insert_key(&new).await.expect("a key");
    assert_eq!(store.find_key("hash").await.expect("readable"), Some(made.clone()));
    assert_eq!(store.find_key("hush").await.expect("readable"), None);
    assert_eq!(store.count_keys().await.expect("counted"), 1);
    assert!(made.is_active(now()));
    assert!(!made.is_active(now() + 2_000_000));
}

async fn duplicate_hash_is_a_conflict(store: TestStore) {
    store.insert_key(&new_key(&acme(), "hash")).await.expect("a key");
    let again = store.insert_key(&new_key(&other(), "hash")).await;
    assert!(matches!(again, Err(StoreError::Conflict(_))));
}

async fn revoked_key_stays_revoked(store: TestStore) {
    let key = store.insert_key(&new_key(&acme(), "hash")).await.expect("a key");
    assert!(store.revoke_key(&acme(), key.id).await.expect("revoked"));
    let first = store.find_key("hash").await.expect("readable").expect("still listed");
    assert!(!first.is_active(now()));
    assert!(store.revoke_key(&acme(), key.id).await.expect("revoked"));
    let again = store.find_key("hash").await.expect("readable").expect("still listed");
    assert_eq!(again.revoked_at, first.revoked_at);
    assert_eq!(store.count_keys().await.expect("counted"), 1);
    assert!(!store.revoke_key(&acme(), Uuid::now_v7()).await.expect("no such key"));
}

async fn keys_are_listed_newest_first(store: TestStore) {
    let mut made = Vec::new();
    for n in 0..5 {
        made.push(store.insert_key(&new_key(&acme(), &format!("hash{n}"))).await.expect("a key"));
    }
    made.reverse();
    let first = store.list_keys(&acme(), true, &PageRequest::first(2)).await.expect("listed");
    assert_eq!(first, made[..2]);
    let rest = store.list_keys(&acme(), true, &PageRequest::after(first[1].cursor(), 50)).await;
    assert_eq!(rest.expect("listed"), made[2..]);
}

async fn service_keys_are_listed_only_on_request(store: TestStore) {
    let plain = store.insert_key(&new_key(&acme(), "plain")).await.expect("a key");
    let service = NewApiKey { service: true, ..new_key(&acme(), "service") };
    let service = store.insert_key(&service).await.expect("a key");
    let page = PageRequest::default();
    assert_eq!(
        store.list_keys(&acme(), false, &page).await.expect("listed"),
        std::slice::from_ref(&plain)
    );
    assert_eq!(
        store.list_keys(&acme(), true, &page).await.expect("listed"),
        [service.clone(), plain]
    );
    assert_eq!(store.get_key(&acme(), service.id).await.expect("readable"), Some(service.clone()));
    assert_eq!(store.get_key(&other(), service.id).await.expect("readable"), None);
}

async fn only_an_active_service_key_with_scope_admin_counts(store: TestStore) {
    let admin = |hash: &str, service, expires_at| NewApiKey {
        scopes: vec![Scope::Admin],
        service,
        expires_at,
        ..new_key(&acme(), hash)
    };
    let useless = [
        admin("plain", false, None),
        admin("expired", true, Some(now() - 1)),
        NewApiKey { service: true, ..new_key(&acme(), "reader") },
    ];
    for key in useless {
        store.insert_key(&key).await.expect("a key");
        assert!(!store.has_active_service_key().await.expect("readable"), "{}", key.hash);
    }
    let key =
        store.insert_key(&admin("good", true, Some(now() + 60_000_000))).await.expect("a key");
    assert!(store.has_active_service_key().await.expect("readable"));
    store.revoke_key(&acme(), key.id).await.expect("revoked");
    assert!(!store.has_active_service_key().await.expect("readable"));
}
