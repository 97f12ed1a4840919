use store::{PageRequest, ScanPolicy, StoreError, TenantId, TenantPolicy, VersionPolicy};

use crate::keys::new_key;
use crate::support::{TestStore, acme, on_both, other};

on_both!(
    ensure_creates_a_tenant_once, create_rejects_an_existing_tenant, policy_is_stored_and_updated,
    tenants_are_listed_by_id_and_page, only_an_empty_tenant_can_be_deleted,
    missing_tenant_owns_nothing,
);

fn fresh() -> TenantId {
    TenantId::try_from("fresh").expect("a good name")
}

async fn ensure_creates_a_tenant_once(store: TestStore) {
    let store = std::sync::Arc::new(store);
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let store = store.clone();
        tasks.spawn(async move { store.ensure_tenant(&fresh()).await.expect("a tenant") });
    }
    let tenants = tasks.join_all().await;
    assert!(tenants.iter().all(|tenant| *tenant == tenants[0]), "{tenants:?}");
    assert_eq!(tenants[0].policy, TenantPolicy::default());
}

async fn create_rejects_an_existing_tenant(store: TestStore) {
    store.create_tenant(&fresh(), TenantPolicy::default()).await.expect("created");
    let again = store.create_tenant(&fresh(), TenantPolicy::default()).await;
    assert!(matches!(again, Err(StoreError::Conflict(_))));
}

async fn policy_is_stored_and_updated(store: TestStore) {
    let strict = TenantPolicy {
        versions: VersionPolicy::Immutable,
        scan: ScanPolicy::Review,
        max_concurrent: Some(3),
        max_queued: Some(5),
        rate_per_minute: Some(7),
        max_file_bytes: Some(1_000_000),
        max_stored_bytes: Some(u64::from(u32::MAX)),
        weight: 9,
        signatures: store::SignaturePolicy::Warn,
    };
    let made = store.create_tenant(&fresh(), strict.clone()).await.expect("created");
    assert_eq!(store.get_tenant(&fresh()).await.expect("readable"), Some(made));
    let loose = TenantPolicy::default();
    assert!(store.update_tenant_policy(&fresh(), &loose).await.expect("updated"));
    let found = store.get_tenant(&fresh()).await.expect("readable").expect("a tenant");
    assert_eq!(found.policy, loose);

    let nobody = TenantId::try_from("nobody").expect("a good name");
    assert!(!store.update_tenant_policy(&nobody, &strict).await.expect("updated"));
    assert_eq!(store.get_tenant(&nobody).await.expect("readable"), None);
}

async fn tenants_are_listed_by_id_and_page(store: TestStore) {
    store.ensure_tenant(&fresh()).await.expect("a tenant");
    let all = store.list_tenants(&PageRequest::default()).await.expect("listed");
    let names: Vec<_> = all.iter().map(|tenant| tenant.id.as_str()).collect();
    assert_eq!(names, ["acme", "fresh", "other"]);
    let rest = store.list_tenants(&PageRequest::after(all[0].cursor(), 1)).await.expect("listed");
    assert_eq!(rest, all[1..2]);
}

async fn only_an_empty_tenant_can_be_deleted(store: TestStore) {
    store.publish(&acme(), "echo", "1.0.0", "sha256:1").await;
    let key = store.insert_key(&new_key(&other(), "hash")).await.expect("a key");
    for tenant in [acme(), other()] {
        let refused = store.delete_tenant(&tenant).await;
        assert!(matches!(refused, Err(StoreError::Conflict(_))), "{tenant}");
    }
    assert!(store.find_key("hash").await.expect("readable").is_some());

    store.delete_skill(&acme(), "echo", "1.0.0").await.expect("deleted");
    store.revoke_key(&other(), key.id).await.expect("revoked");
    for tenant in [acme(), other()] {
        assert!(store.delete_tenant(&tenant).await.expect("deleted"), "{tenant}");
        assert!(!store.delete_tenant(&tenant).await.expect("deleted"), "{tenant}");
    }
}

async fn missing_tenant_owns_nothing(store: TestStore) {
    let refused = store.insert_key(&new_key(&fresh(), "hash")).await;
    assert!(matches!(refused, Err(StoreError::NotFound)), "{refused:?}");
    let new = crate::support::new_execution(&fresh(), store::InitialState::Queued);
    let refused = store.insert_execution(&new).await;
    assert!(matches!(refused, Err(StoreError::NotFound)), "{refused:?}");
    let new = crate::support::new_skill("echo", "1.0.0", "sha256:1");
    let refused = store.put_skill(&fresh(), &new, VersionPolicy::Mutable).await;
    assert!(matches!(refused, Err(StoreError::NotFound)), "{refused:?}");
}
