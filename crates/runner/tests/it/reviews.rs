//! Skills in which the scanner found something, under each policy.

use catalogue::CatalogueError;
use runner::RunError;
use skill::Finding;
use store::{PutSkillResult, ReviewDecision, ScanPolicy, SkillStatus, Status, TenantPolicy};

use crate::support::{Bench, SKILL_MD, acme, caller, package, request};

const MINER: &str = "echo ran # ./x -o\n: stratum+tcp://pool.example:3333\n";

async fn publish(
    bench: &Bench,
    script: &str,
    scan: ScanPolicy,
) -> Result<PutSkillResult, CatalogueError> {
    let package = package(&[("SKILL.md", SKILL_MD), ("main.sh", script)]);
    let scanned: Vec<Finding> = skill::scan(&package.files, package.entrypoint.as_ref());
    let policy = TenantPolicy { scan, ..TenantPolicy::default() };
    bench
        .catalogue
        .publish(None, &acme(), package, &scanned, &policy)
        .await
        .map(|published| published.put)
}

async fn review(bench: &Bench, verdict: ReviewDecision) {
    let row =
        bench.store.review_skill(&acme(), "demo", "1.0.0", None, verdict).await.expect("answered");
    assert!(row.is_some());
}

#[tokio::test]
async fn a_held_skill_runs_only_when_it_is_approved_and_then_for_good() {
    let bench = Bench::new().await;
    let PutSkillResult::Created(held) =
        publish(&bench, MINER, ScanPolicy::Review).await.expect("stored")
    else {
        panic!("not created")
    };
    assert_eq!((held.status, &held.findings[0]["code"]), (SkillStatus::Review, &"miner".into()));
    assert!(matches!(bench.try_run(r#"{"skill":"demo"}"#).await, Err(RunError::UnknownSkill)));
    let refused = bench.run(r#"{"skill":"demo","version":"1.0.0"}"#).await;
    assert_eq!((refused.status, refused.outcome.as_deref()), (Status::Failed, Some("refused")));
    assert!(refused.error.is_some_and(|error| error.contains("held for review")));
    assert_eq!(bench.launcher.launches(), 0);

    review(&bench, ReviewDecision::Approved).await;
    assert_eq!(bench.run(r#"{"skill":"demo"}"#).await.logs, "ran\n");
    // Other content is held again; the approved one stays approved, also after it was gone.
    let PutSkillResult::Replaced { row, .. } =
        publish(&bench, &format!("{MINER}#"), ScanPolicy::Review).await.expect("stored")
    else {
        panic!("not replaced")
    };
    assert_eq!(row.status, SkillStatus::Review);
    publish(&bench, MINER, ScanPolicy::Review).await.expect("stored");
    assert_eq!(bench.run(r#"{"skill":"demo"}"#).await.logs, "ran\n");
}

#[tokio::test]
async fn what_waits_does_not_run_once_its_skill_is_rejected() {
    let bench = Bench::with(|config| config.slots = 1).await;
    bench.script("main.sh", "echo \"$SANDBOX_INPUT\"").await;
    bench.launcher.close();
    let first = bench.spawn(r#"{"skill":"demo","input":1}"#, None);
    bench.one(Status::Running).await;
    let waiting = bench
        .runner
        .submit(&caller(), request(r#"{"skill":"demo","input":2}"#), None)
        .await
        .expect("accepted");
    review(&bench, ReviewDecision::Rejected).await;
    bench.launcher.open();
    assert_eq!(
        first.await.expect("no panic").expect("an execution").logs,
        "1\n",
        "what runs is left alone"
    );
    let ended = bench.one(Status::Failed).await;
    assert_eq!((ended.id, ended.outcome.as_deref()), (waiting, Some("refused")));
    assert!(ended.error.is_some_and(|error| error.contains("rejected by a reviewer")));
    assert_eq!(bench.launcher.launches(), 1);
}
