//! A run from request to result.

use store::Status;

use crate::support::{Bench, acme, caller, detail, request, until};

const ECHO: &str = r#"
import json, os, sys
print("out"); print("err", file=sys.stderr); print("out again")
doc = json.loads(os.environ["SANDBOX_INPUT"])
assert doc == json.load(open("/sandbox/input.json"))
json.dump({"echo": doc, "cwd": os.getcwd()}, open(os.environ["SANDBOX_OUTPUT"], "w"), indent=2)
"#;

#[tokio::test]
async fn a_skill_turns_input_into_output_and_logs() {
    let bench = Bench::new().await;
    bench.script("main.py", ECHO).await;
    let run = bench.run(r#"{"skill":"demo","input":{"b":1.50,"a":[1, 2]}}"#).await;
    assert_eq!((run.status, run.error.as_deref()), (Status::Success, None), "{}", run.logs);
    assert_eq!(run.output.as_deref(), Some(r#"{"echo":{"b":1.5,"a":[1,2]},"cwd":"/sandbox"}"#));
    assert_eq!(run.logs, "out\nerr\nout again\n");
    assert_eq!(run.input.as_deref(), Some(r#"{"b":1.50,"a":[1,2]}"#));
    assert_eq!((run.outcome.as_deref(), run.exit_code, run.attempt), (Some("exited"), Some(0), 1));
    let detail = detail(&run);
    assert!(detail.usage.peak_memory_bytes > 0 && detail.timings.run_ms > 0.0, "{detail:?}");
    assert_eq!(
        detail.isolation.as_ref().and_then(|isolation| isolation["backend"].as_str()),
        Some("native")
    );
    assert_eq!((detail.stdout, detail.logs_truncated), (None, false));
}

#[tokio::test]
async fn the_answer_is_what_is_stored() {
    let bench = Bench::new().await;
    bench.script("main.py", ECHO).await;
    let answered = bench.run(r#"{"skill":"demo","input":[]}"#).await;
    let mut stored = bench.stored(answered.id).await;
    assert!((stored.created_at - answered.created_at).abs() < 60_000_000);
    stored.created_at = answered.created_at;
    stored.started_at = answered.started_at;
    stored.finished_at = answered.finished_at;
    stored.request = answered.request.clone();
    assert_eq!(stored, answered);
}

#[tokio::test]
async fn a_named_script_answers_its_streams_apart() {
    let bench = Bench::new().await;
    bench.script("tools/count.sh", "echo \"$@\"; cat; echo oops >&2; pwd; exit 3").await;
    let json = r#"{"skill":"demo","script":"tools/count.sh","args":["a b","c"],"stdin":"given\n","cwd":"skill"}"#;
    let run = bench.run(json).await;
    assert_eq!((run.status, run.exit_code), (Status::Failed, Some(3)));
    assert_eq!(run.error.as_deref(), Some("The script exited with code 3."));
    let detail = detail(&run);
    assert_eq!(detail.stdout.as_deref(), Some("a b c\ngiven\n/sandbox/scripts\n"));
    assert_eq!(detail.stderr.as_deref(), Some("oops\n"));
}

#[tokio::test]
async fn the_timeout_is_named_and_what_was_printed_is_kept() {
    let bench = Bench::new().await;
    bench.script("main.py", "import time\nprint('before')\ntime.sleep(600)").await;
    let run = bench.run(r#"{"skill":"demo","timeout_ms":1500}"#).await;
    assert_eq!((run.status, run.outcome.as_deref()), (Status::Timeout, Some("timed_out")));
    assert_eq!(run.error.as_deref(), Some("The script ran longer than its timeout of 1.5s."));
    assert_eq!(run.logs, "before\n");
}

#[tokio::test]
async fn env_reaches_the_script_and_is_not_written_down_when_it_runs_at_once() {
    let bench = Bench::new().await;
    bench.script("main.sh", "test \"$TOKEN\" = hunter2").await;
    bench.launcher.close();
    let run = bench.spawn(r#"{"skill":"demo","env":{"TOKEN":"hunter2"}}"#, None);
    let running = bench.one(Status::Running).await;
    assert!(!bench.stored(running.id).await.request.contains("hunter2"));
    bench.launcher.open();
    let run = run.await.expect("no panic").expect("an execution");
    assert_eq!(run.status, Status::Success, "{:?}", run.error);
    assert!(!bench.stored(run.id).await.request.contains("hunter2"));
}

#[tokio::test]
async fn env_reaches_a_script_that_had_to_queue() {
    let bench = Bench::new().await;
    bench.script("main.sh", "test \"$TOKEN\" = hunter2 && echo got it").await;
    let json = r#"{"skill":"demo","env":{"TOKEN":"hunter2"}}"#;
    let id = bench.runner.submit(&caller(), request(json), None).await.expect("accepted");
    assert_eq!(bench.one(Status::Success).await.id, id);
    assert_eq!(bench.stored(id).await.logs, "got it\n");
}

/// A request with a secret in a queue that nobody serves, and the row as a thief of the database
/// would see it.
async fn queued_secret() -> (Bench, uuid::Uuid, String) {
    let bench = Bench::new().await;
    bench.script("main.sh", "test \"$TOKEN\" = hunter2 && echo got it").await;
    bench.launcher.close();
    for _ in 0..2 {
        bench
            .runner
            .submit(&caller(), request(r#"{"skill":"demo"}"#), None)
            .await
            .expect("accepted");
    }
    bench.launcher.launched(2).await;
    let json = r#"{"skill":"demo","env":{"TOKEN":"hunter2"}}"#;
    let id = bench.runner.submit(&caller(), request(json), None).await.expect("accepted");
    let row = bench.stored(id).await;
    assert_eq!(row.status, Status::Queued);
    (bench, id, row.request)
}

/// Ends everything of a bench but what it stored, and starts another process on that.
async fn succeeded_by(bench: Bench, change: impl FnOnce(&mut runner::RunnerConfig)) -> Bench {
    let Bench { runner, store, blobs, data, .. } = bench;
    runner.drain(std::time::Duration::ZERO).await;
    Bench::on(data, store, blobs, change).await
}

/// Whether the files of the database, its log included, contain this text.
fn database_holds(bench: &Bench, text: &str) -> bool {
    let contains = |bytes: Vec<u8>| bytes.windows(text.len()).any(|part| part == text.as_bytes());
    ["db", "db-wal"]
        .iter()
        .any(|name| std::fs::read(bench.data.path().join(name)).is_ok_and(contains))
}

#[tokio::test]
async fn env_of_a_queued_run_is_encrypted_and_another_worker_opens_it() {
    let (bench, id, row) = queued_secret().await;
    assert!(!row.contains("hunter2") && !row.contains("TOKEN"), "{row}");
    assert!(!database_holds(&bench, "hunter2"));
    assert!(database_holds(&bench, "v1."), "the sealed text is there");
    let next = succeeded_by(bench, |_| ()).await;
    let done =
        until(async || Some(next.stored(id).await).filter(|row| row.status.is_terminal())).await;
    assert_eq!(
        (done.status, done.logs.as_str()),
        (Status::Success, "got it\n"),
        "{:?}",
        done.error
    );
}

#[tokio::test]
async fn a_worker_with_another_secret_ends_the_run_with_a_clear_error() {
    let (bench, id, _) = queued_secret().await;
    let next = succeeded_by(bench, |config| config.env_key = runner::EnvKey::new([8; 32])).await;
    let done =
        until(async || Some(next.stored(id).await).filter(|row| row.status.is_terminal())).await;
    assert_eq!((done.status, done.outcome.as_deref()), (Status::Failed, Some("lost")));
    assert!(
        done.error.as_deref().is_some_and(|error| error.contains("decrypted")),
        "{:?}",
        done.error
    );
}

#[tokio::test]
async fn a_row_of_an_earlier_version_with_a_plain_env_still_runs() {
    let bench = Bench::new().await;
    bench.script("main.sh", "test \"$TOKEN\" = hunter2 && echo got it").await;
    let digest = bench
        .store
        .get_skill(&acme(), "demo", "latest")
        .await
        .expect("readable")
        .expect("stored")
        .digest;
    let new = store::NewExecution {
        id: uuid::Uuid::now_v7(),
        tenant: acme(),
        key_id: None,
        skill_name: "demo".into(),
        skill_version: "0.0.0".into(),
        digest,
        input: None,
        request: r#"{"skill":"demo","version":"latest","env":{"TOKEN":"hunter2"},"limits":{}}"#
            .into(),
        idempotency: None,
        idempotent: false,
        awaited: false,
        webhook: None,
        initial_state: store::InitialState::Queued,
    };
    bench.store.insert_execution(&new).await.expect("stored");
    assert!(
        database_holds(&bench, "hunter2"),
        "control: what is stored in plain text can be found in the files"
    );
    let next = succeeded_by(bench, |_| ()).await;
    let done =
        until(async || Some(next.stored(new.id).await).filter(|row| row.status.is_terminal()))
            .await;
    assert_eq!(
        (done.status, done.logs.as_str()),
        (Status::Success, "got it\n"),
        "{:?}",
        done.error
    );
}

#[tokio::test]
async fn a_flood_of_logs_is_cut_and_says_so() {
    let bench = Bench::with(|config| config.policy.output_limits.log_bytes = 1000).await;
    bench.script("main.sh", "head -c 10000000 /dev/zero | tr '\\0' x; echo end").await;
    let run = bench.run(r#"{"skill":"demo"}"#).await;
    assert_eq!(run.status, Status::Success, "{:?}", run.error);
    assert!(
        run.logs.starts_with("xxx") && run.logs.ends_with("x\n[logs truncated]\n"),
        "{}",
        run.logs
    );
    assert!(run.logs.len() < 1100 && detail(&run).logs_truncated);
}

#[tokio::test]
async fn clamped_limits_are_said() {
    let bench = Bench::new().await;
    bench.script("main.sh", "true").await;
    let run = bench.run(r#"{"skill":"demo","timeout_ms":99999999}"#).await;
    assert_eq!(run.status, Status::Success);
    assert_eq!(detail(&run).clamped, ["the requested timeout of 27h46m39.999s was set to 10m0s"]);
}

#[tokio::test]
async fn everything_is_ready() {
    let bench = Bench::new().await;
    let ready = bench.runner.ready().await;
    assert!(ready.ok(), "{ready:?}");
}
