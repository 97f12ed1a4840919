use serde_json::json;
use store::{NewSkill, PageRequest, SkillFileRow, SkillMetadata, VersionPolicy};

use crate::support::{TestStore, acme, new_skill, on_both, other};

on_both!(
    metadata_gives_document_sizes_without_documents,
    lists_count_findings_by_severity,
    callable_skills_have_schemas_unless_too_long,
    files_are_found_by_path_within_their_digest,
    files_of_unknown_digests_are_not_stored,
);

async fn put(store: &TestStore, new: &NewSkill) {
    store.put_skill(&acme(), new, VersionPolicy::Mutable).await.expect("put");
}

async fn metadata_gives_document_sizes_without_documents(store: TestStore) {
    let long = "ä".repeat(SkillMetadata::DESCRIPTION_CHARS + 1);
    let manifest =
        json!({ "idempotent": true, "instructions": "x".repeat(10_000), "nul": "\u{0}" });
    put(
        &store,
        &NewSkill { manifest, description: long.clone(), ..new_skill("echo", "1.0.0", "sha256:1") },
    )
    .await;
    put(&store, &new_skill("other", "1.0.0", "sha256:2")).await;

    let head =
        store.find_skill(&acme(), "echo", "latest").await.expect("readable").expect("a skill");
    assert_eq!(head.description.chars().count(), SkillMetadata::DESCRIPTION_CHARS);
    assert!(
        head.description.len() as u64 <= SkillMetadata::MAX_BYTES
            && long.starts_with(&head.description)
    );
    assert!(
        head.idempotent && (10_000..12_000).contains(&head.documents_bytes),
        "{}",
        head.documents_bytes
    );
    let exact =
        store.find_skill(&acme(), "other", "1.0.0").await.expect("readable").expect("a skill");
    assert!(!exact.idempotent);
    for (name, version) in [("echo", "2.0.0"), ("none", "latest")] {
        assert_eq!(store.find_skill(&acme(), name, version).await.expect("readable"), None);
    }
    assert_eq!(store.find_skill(&other(), "echo", "latest").await.expect("readable"), None);
    let heads = store.list_skill_metadata(&acme(), &PageRequest::default()).await.expect("listed");
    assert_eq!(heads, [head, exact]);
}

async fn lists_count_findings_by_severity(store: TestStore) {
    let says = |severity: &str| json!({ "code": "c", "severity": severity, "message": "\"severity\":\"error\"" });
    let findings = json!([says("warning"), says("info"), says("warning"), says("error")]);
    put(&store, &NewSkill { findings, ..new_skill("echo", "1.0.0", "sha256:1") }).await;
    for listed in [
        store.list_skills(&acme(), &PageRequest::default()).await.expect("listed"),
        store.list_versions(&acme(), "echo", &PageRequest::default()).await.expect("listed"),
    ] {
        let counts = listed[0].findings;
        assert_eq!((listed.len(), counts.error, counts.warning, counts.info), (1, 1, 2, 1));
    }
}

async fn callable_skills_have_schemas_unless_too_long(store: TestStore) {
    let schema =
        json!({ "type": "object", "title": "ä\u{0}\"", "maxProperties": 12345678901234567890u64 });
    let long = json!({ "title": "x".repeat(70_000) });
    for (name, manifest) in [
        ("a", json!({ "input_schema": schema })),
        ("b", json!({ "input_schema": long })),
        ("c", json!({})),
    ] {
        put(&store, &NewSkill { manifest, ..new_skill(name, "1.0.0", "sha256:1") }).await;
    }
    put(
        &store,
        &NewSkill {
            manifest: json!({ "input_schema": null }),
            ..new_skill("d", "1.0.0", "sha256:1")
        },
    )
    .await;
    let callable =
        store.list_callable_skills(&acme(), &PageRequest::default()).await.expect("listed");
    let schemas: Vec<_> = callable.into_iter().map(|skill| skill.input_schema).collect();
    assert_eq!(schemas, [Some(schema), None, None, None]);
}

fn file(path: &str, position: u64) -> SkillFileRow {
    let sha256 = "0".repeat(64);
    SkillFileRow {
        path: path.into(),
        position,
        size_bytes: 5,
        executable: true,
        is_text: false,
        sha256,
    }
}

async fn files_are_found_by_path_within_their_digest(store: TestStore) {
    store.publish(&acme(), "echo", "1.0.0", "sha256:1").await;
    store.publish(&other(), "echo", "1.0.0", "sha256:1").await;
    let files: Vec<_> = (0..450u64).map(|n| file(&format!("dir/{n:03}"), n * 5)).collect();
    for _ in 0..2 {
        store.put_skill_files(&acme(), "sha256:1", &files).await.expect("put, and put again");
    }
    assert_eq!(store.list_skill_files(&acme(), "sha256:1").await.expect("listed"), files);
    assert_eq!(store.count_skill_files(&acme(), "sha256:1").await.expect("counted"), 450);
    let found = async |tenant, digest, path| {
        store.get_skill_file(&tenant, digest, path).await.expect("readable")
    };
    assert_eq!(found(acme(), "sha256:1", "dir/007").await.as_ref(), Some(&files[7]));
    assert_eq!(found(acme(), "sha256:1", "dir/7").await, None);
    assert_eq!(found(acme(), "sha256:2", "dir/007").await, None);
    assert_eq!(
        found(other(), "sha256:1", "dir/007").await,
        None,
        "not another tenant's, though its content is equal"
    );
    store.delete_skill_files(&acme(), "sha256:1").await.expect("forgotten");
    assert_eq!(store.count_skill_files(&acme(), "sha256:1").await.expect("counted"), 0);
}

async fn files_of_unknown_digests_are_not_stored(store: TestStore) {
    store.put_skill_files(&acme(), "sha256:1", &[file("a", 0)]).await.expect("answered");
    assert_eq!(store.count_skill_files(&acme(), "sha256:1").await.expect("counted"), 0);
}
