//! Publish and unpublish: no row without its archive, no archive without its row.

use std::sync::Arc;

use catalogue::CatalogueError;
use store::{PutSkillResult, StoreError, TenantPolicy, VersionPolicy};

use crate::support::{Bench, SKILL_MD, acme, package};

#[tokio::test]
async fn a_refused_version_leaves_no_archive() {
    let bench = Bench::new().await;
    let PutSkillResult::Created(first) =
        bench.publish(&[("SKILL.md", SKILL_MD), ("main.sh", "echo one")]).await
    else {
        panic!("not created")
    };
    let other = package(&[("SKILL.md", SKILL_MD), ("main.sh", "echo two")]);
    let digest = other.digest.clone();
    let immutable = TenantPolicy { versions: VersionPolicy::Immutable, ..TenantPolicy::default() };
    let refused = bench.catalogue.publish(None, &acme(), other, &[], &immutable).await;
    assert!(
        matches!(refused, Err(CatalogueError::Store(StoreError::VersionExists))),
        "{refused:?}"
    );
    assert!(!bench.has_archive(&digest).await);
    let row = bench.store.get_skill(&acme(), "demo", "1.0.0").await.expect("read").expect("a row");
    assert_eq!(row.digest, first.digest);
}

#[tokio::test]
async fn an_unusable_schema_is_an_error_for_the_author() {
    let bench = Bench::new().await;
    let skill_md =
        "---\nname: demo\ndescription: A demonstration.\ninput_schema: {$ref: '#'}\n---\n";
    let package = package(&[("SKILL.md", skill_md), ("main.sh", "true")]);
    let digest = package.digest.clone();
    let policy = TenantPolicy::default();
    let refused = bench.catalogue.publish(None, &acme(), package, &[], &policy).await;
    assert!(
        matches!(&refused, Err(CatalogueError::InvalidSkill(why)) if why.contains("input_schema")),
        "{refused:?}"
    );
    assert!(!bench.has_archive(&digest).await);
}

#[tokio::test]
async fn content_published_and_unpublished_concurrently_never_lacks_its_archive() {
    let bench = Arc::new(Bench::new().await);
    let skill_md = SKILL_MD.replace("---\nDo it", "version: 2.0.0\n---\nDo it");
    for round in 0..10 {
        // Two versions of one name differ in their content, so the same version is published again
        // and again.
        bench.publish(&[("SKILL.md", &skill_md), ("main.sh", "echo same")]).await;
        let (publishing, text) = (Arc::clone(&bench), skill_md.clone());
        let publish = tokio::spawn(async move {
            publishing.publish(&[("SKILL.md", &text), ("main.sh", "echo same")]).await
        });
        let removing = Arc::clone(&bench);
        let remove = tokio::spawn(async move {
            removing.catalogue.unpublish(None, &acme(), "demo", "2.0.0").await
        });
        let (published, removed) = tokio::join!(publish, remove);
        published.expect("no panic");
        removed.expect("no panic").expect("unpublished");
        let row = bench.store.get_skill(&acme(), "demo", "2.0.0").await.expect("read");
        if let Some(row) = row {
            assert!(bench.has_archive(&row.digest).await, "round {round}");
        }
    }
}
