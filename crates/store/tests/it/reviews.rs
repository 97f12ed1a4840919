use store::{NewSkill, PageRequest, ReviewDecision, SkillStatus, StoreError, VersionPolicy};

use crate::support::{TestStore, acme, new_skill, on_both, other};

on_both!(
    held_version_is_latest_only_after_approval,
    decision_applies_to_the_digest_and_stays,
    replaced_content_is_not_approved,
);

async fn hold(store: &TestStore, version: &str, digest: &str) {
    let findings = serde_json::json!([{ "code": "miner", "severity": "error" }]);
    let held =
        NewSkill { status: SkillStatus::Review, findings, ..new_skill("echo", version, digest) };
    store.put_skill(&acme(), &held, VersionPolicy::Mutable).await.expect("put");
}

async fn latest(store: &TestStore) -> Option<String> {
    store.get_skill(&acme(), "echo", "latest").await.expect("readable").map(|row| row.version)
}

async fn held_version_is_latest_only_after_approval(store: TestStore) {
    hold(&store, "1.0.0", "sha256:1").await;
    assert_eq!(latest(&store).await, None);
    let listed = store.list_skills(&acme(), &PageRequest::default()).await.expect("listed");
    assert_eq!((listed.len(), listed[0].head.status), (1, SkillStatus::Review));
    assert_eq!(listed[0].findings.error, 1);

    store.publish(&acme(), "echo", "2.0.0", "sha256:2").await;
    hold(&store, "3.0.0", "sha256:3").await;
    assert_eq!(latest(&store).await.as_deref(), Some("2.0.0"));
    let listed = store.list_skills(&acme(), &PageRequest::default()).await.expect("listed");
    assert_eq!((listed.len(), listed[0].head.version.as_str()), (1, "2.0.0"));

    let approve = async |tenant| {
        store.review_skill(&tenant, "echo", "3.0.0", None, ReviewDecision::Approved).await
    };
    assert_eq!(approve(other()).await.expect("answered"), None, "not another tenant's to approve");
    let row = approve(acme()).await.expect("answered").expect("a skill");
    assert_eq!(row.status, SkillStatus::Available);
    assert_eq!(latest(&store).await.as_deref(), Some("3.0.0"));
    let stored = store.get_skill(&acme(), "echo", "3.0.0").await.expect("readable");
    assert_eq!(stored, Some(row));
}

async fn decision_applies_to_the_digest_and_stays(store: TestStore) {
    let status =
        async |digest: &str| store.content_status(&acme(), digest).await.expect("answered");
    assert_eq!(status("sha256:1").await, SkillStatus::Available, "there is no decision");
    hold(&store, "1.0.0", "sha256:1").await;
    assert_eq!(status("sha256:1").await, SkillStatus::Review);
    let review = async |verdict| {
        store.review_skill(&acme(), "echo", "1.0.0", None, verdict).await.expect("answered")
    };
    review(ReviewDecision::Approved).await;
    assert_eq!(status("sha256:1").await, SkillStatus::Available);
    assert_eq!(
        store.review_decision(&acme(), "sha256:1").await.expect("answered"),
        Some(ReviewDecision::Approved)
    );
    assert_eq!(store.review_decision(&other(), "sha256:1").await.expect("answered"), None);

    // Rejecting stops an available skill, and the decision outlives the skill.
    review(ReviewDecision::Rejected).await;
    store.delete_skill(&acme(), "echo", "1.0.0").await.expect("deleted");
    assert_eq!(status("sha256:1").await, SkillStatus::Rejected);
    let missing =
        store.review_skill(&acme(), "echo", "1.0.0", None, ReviewDecision::Approved).await;
    assert_eq!(missing.expect("answered"), None);
}

async fn replaced_content_is_not_approved(store: TestStore) {
    hold(&store, "1.0.0", "sha256:1").await;
    hold(&store, "1.0.0", "sha256:2").await;
    let stale = store
        .review_skill(&acme(), "echo", "1.0.0", Some("sha256:1"), ReviewDecision::Approved)
        .await;
    assert!(matches!(stale, Err(StoreError::Conflict(_))), "{stale:?}");
    assert_eq!(latest(&store).await, None);
    assert_eq!(store.review_decision(&acme(), "sha256:1").await.expect("answered"), None);
}
