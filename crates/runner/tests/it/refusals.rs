//! What may not run costs no sandbox; what makes sense is recorded, what does not is an error.

use runner::{Caller, RunError};
use store::{PageRequest, Status};
use tempfile::TempDir;
use uuid::Uuid;

use crate::support::{Bench, acme, caller, open, request, s3};

#[tokio::test]
async fn refused_requests_are_recorded_without_a_sandbox() {
    let bench = Bench::new().await;
    let skill_md = "---\nname: demo\ndescription: A demonstration.\n\
        input_schema: {type: object, properties: {n: {type: integer}}}\n---\n";
    bench.publish(&[("SKILL.md", skill_md), ("main.sh", "true")]).await;
    let cases = [
        (r#"{"skill":"demo","env":{"ok":"1","http_Proxy":"x"}}"#, "http_Proxy"),
        (r#"{"skill":"demo","input":{"n":"x"}}"#, "#/n: "),
        (r#"{"skill":"demo","version":"9.9.9"}"#, "has no version 9.9.9"),
        (r#"{"skill":"nobody","version":"1.0.0"}"#, "has no version 1.0.0"),
        (r#"{"skill":"demo","script":"other.py"}"#, "main.sh"),
        (r#"{"skill":"demo","input_files":["0193"]}"#, "0193"),
    ];
    for (json, expected) in cases {
        let run = bench.run(json).await;
        assert_eq!(
            (run.status, run.outcome.as_deref()),
            (Status::Failed, Some("refused")),
            "{json}"
        );
        assert!(
            run.error.as_ref().is_some_and(|error| error.contains(expected)),
            "{json}: {:?}",
            run.error
        );
        assert_eq!(bench.stored(run.id).await.error, run.error);
    }
    assert_eq!(bench.launcher.launches(), 0);

    let id = bench.runner.submit(&caller(), request(cases[2].0), None).await.expect("accepted");
    assert_eq!(bench.stored(id).await.outcome.as_deref(), Some("refused"));
}

#[tokio::test]
async fn nonsense_leaves_no_trace() {
    let bench = Bench::new().await;
    bench.script("main.sh", "true").await;
    assert!(matches!(bench.try_run(r#"{"skill":"nobody"}"#).await, Err(RunError::UnknownSkill)));
    let invalid = bench.try_run(r#"{"skill":"demo","env":{"A=B":"x"}}"#).await;
    assert!(matches!(invalid, Err(RunError::InvalidRequest(_))));
    let restricted = Caller { skills: Some(vec!["other".to_owned()]), ..caller() };
    let forbidden = bench.runner.execute(&restricted, request(r#"{"skill":"demo"}"#), None).await;
    assert!(matches!(forbidden, Err(RunError::ScopeSkill)));
    let elsewhere = Caller { tenant: "other".parse().expect("a name"), ..caller() };
    let other = bench.runner.execute(&elsewhere, request(r#"{"skill":"demo"}"#), None).await;
    assert!(matches!(other, Err(RunError::UnknownSkill)));
    for status in [Status::Failed, Status::Success, Status::Running, Status::Queued] {
        assert!(bench.with_status(status).await.is_empty());
    }
}

#[tokio::test]
async fn an_archive_with_one_flipped_bit_is_not_run() {
    with_one_flipped_bit(Bench::new().await).await;
}

#[tokio::test]
async fn an_object_with_one_flipped_bit_is_not_run() {
    let Some(blobs) = s3("an_object_with_one_flipped_bit_is_not_run").await else { return };
    let data = TempDir::new().expect("a temporary directory");
    let (store, _) = open(data.path()).await;
    store.ensure_tenant(&acme()).await.expect("a tenant");
    with_one_flipped_bit(Bench::on(data, store, blobs, |_| {}).await).await;
}

async fn with_one_flipped_bit(bench: Bench) {
    // The text is this run's own, and so is the digest: the bucket is not.
    let word = Uuid::new_v4().to_string();
    bench.script("main.sh", &format!("echo genuine {word}")).await;
    let row =
        bench.store.get_skill(&acme(), "demo", "latest").await.expect("answered").expect("a skill");
    let key = blobs::BlobKey::skill("acme", &row.digest);
    let genuine = bench.blobs.get(&key, 1 << 20).await.expect("answered").expect("an archive");
    let mut damaged = genuine.to_vec();
    let at = damaged.windows(7).position(|window| window == b"genuine").expect("the script");
    damaged[at] ^= 1;
    bench.blobs.put(&key, damaged.into()).await.expect("stored");
    let run = bench.run(r#"{"skill":"demo"}"#).await;
    let launches = bench.launcher.launches();
    bench.blobs.put(&key, genuine).await.expect("stored");
    let healed = bench.run(r#"{"skill":"demo"}"#).await;
    bench.blobs.delete(&key).await.expect("deleted");

    assert_eq!((run.status, run.outcome.as_deref()), (Status::Failed, Some("refused")));
    assert!(run.error.is_some_and(|error| error.contains("digest")));
    assert_eq!(launches, 0);
    assert_eq!(
        (healed.status, healed.logs.contains(&word)),
        (Status::Success, true),
        "nothing damaged is cached"
    );
    let trail =
        bench.store.list_audit_records(&acme(), &PageRequest::default()).await.expect("a trail");
    let trail: Vec<_> = trail
        .iter()
        .map(|entry| (entry.action.as_str(), entry.object.as_str(), entry.actor))
        .collect();
    assert_eq!(trail, [("skill.altered", row.digest.as_str(), None)]);
}
