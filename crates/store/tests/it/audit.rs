use serde_json::json;
use store::{NewAuditRecord, PageRequest, StoreError};
use uuid::Uuid;

use crate::support::{TestStore, acme, on_both, other};

on_both!(audit_log_is_listed_newest_first, audit_log_outlives_its_tenant);

fn entry(action: &str) -> NewAuditRecord {
    NewAuditRecord {
        actor: Some(Uuid::now_v7()),
        action: action.into(),
        object: "echo@1.0.0".into(),
        detail: json!({ "digest": "sha256:1" }),
        request_id: Some("req-1".into()),
    }
}

async fn audit_log_is_listed_newest_first(store: TestStore) {
    let new: Vec<_> = ["one", "two", "three"].map(entry).into();
    for entry in &new {
        store.append_audit_record(&acme(), entry).await.expect("appended");
    }
    let trail = store.list_audit_records(&acme(), &PageRequest::default()).await.expect("listed");
    for (row, new) in trail.iter().zip(new.iter().rev()) {
        assert_eq!((&row.actor, &row.action, &row.object), (&new.actor, &new.action, &new.object));
        assert_eq!((&row.detail, &row.request_id), (&new.detail, &new.request_id));
    }
    let rest = store.list_audit_records(&acme(), &PageRequest::after(trail[0].cursor(), 50)).await;
    assert_eq!(rest.expect("listed"), trail[1..]);
    let refused =
        store.list_audit_records(&acme(), &PageRequest::after("garbage".into(), 50)).await;
    assert!(matches!(refused, Err(StoreError::InvalidCursor)));
}

async fn audit_log_outlives_its_tenant(store: TestStore) {
    store.append_audit_record(&other(), &entry("tenant.delete")).await.expect("appended");
    assert!(store.delete_tenant(&other()).await.expect("deleted"));
    let trail = store.list_audit_records(&other(), &PageRequest::default()).await.expect("listed");
    assert_eq!(trail.len(), 1);
}
