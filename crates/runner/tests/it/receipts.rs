//! Receipts: signed once, with the result they tell of.

use std::sync::Arc;

use data_encoding::HEXLOWER;
use runner::RECEIPT_KIND;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use skill::signature::{SecretKey, seal};
use store::{CancelResult, Status};
use uuid::Uuid;

use crate::support::{Bench, acme, caller, request};

async fn bench() -> (Bench, Arc<SecretKey>) {
    let key = Arc::new(SecretKey::from_seed([5; 32]).expect("a key"));
    let receipt_key = Some(Arc::clone(&key));
    (Bench::with(|config| config.receipt_key = receipt_key).await, key)
}

async fn receipt(bench: &Bench, id: Uuid) -> Option<String> {
    bench.store.get_receipt(&acme(), id).await.expect("answered")
}

/// The payload of a genuine receipt.
fn opened(receipt: &str, key: &SecretKey) -> Value {
    let opened = seal::open(receipt, RECEIPT_KIND, &[key.public()]).expect("genuine");
    serde_json::from_str(&opened.payload).expect("a payload")
}

fn sha256(text: &str) -> Value {
    HEXLOWER.encode(&Sha256::digest(text)).into()
}

#[tokio::test]
async fn a_receipt_tells_what_ran_and_what_came_of_it() {
    let (bench, key) = bench().await;
    let script = "echo said; echo '{ \"n\": 1.0 }' > $SANDBOX_OUTPUT; printf data > ${SANDBOX_FILES_DIR}a.txt; exit 3";
    bench.script("tool.sh", script).await;
    let run = bench
        .run(r#"{"skill":"demo","script":"tool.sh","args":["-v"],"stdin":"in","env":{"TOKEN":"secret"},"input":{ "b": 2 }}"#)
        .await;
    let text = receipt(&bench, run.id).await.expect("a receipt");
    let told = opened(&text, &key);
    assert_eq!(told["execution_id"], run.id.to_string());
    assert_eq!((&told["tenant_id"], &told["attempt"]), (&json!("acme"), &json!(1)));
    let skill =
        json!({"name": "demo", "version": "1.0.0", "digest": run.digest, "script": "tool.sh"});
    assert_eq!(told["skill"], skill);
    assert_eq!(
        (&told["input_sha256"], &told["output_sha256"]),
        (&sha256(r#"{"b":2}"#), &sha256(r#"{"n":1.0}"#))
    );
    assert_eq!(
        (&told["args_sha256"], &told["stdin_sha256"]),
        (&sha256(r#"["-v"]"#), &sha256("in"))
    );
    assert_eq!((&told["logs_sha256"], &told["env"]), (&sha256("said\n"), &json!(["TOKEN"])));
    assert_eq!(told["input_files"], json!([]));
    assert_eq!(
        told["files"],
        json!([{"path": "a.txt", "size_bytes": 4, "sha256": sha256("data")}])
    );
    assert_eq!(
        (&told["status"], &told["outcome"], &told["exit_code"]),
        (&json!("failed"), &json!("exited"), &json!(3))
    );
    assert_eq!(told["isolation"]["backend"], "native");
    assert_eq!(told["key_id"], key.public().id().to_string());
    assert!(!text.contains("secret"), "what went in is not shown");
}

#[tokio::test]
async fn every_recorded_end_has_one_and_it_stays() {
    let (bench, key) = bench().await;
    bench.script("main.sh", "true").await;
    let refused = bench.run(r#"{"skill":"demo","env":{"PATH":"x"},"input_files":["0193"]}"#).await;
    let told = opened(&receipt(&bench, refused.id).await.expect("a receipt"), &key);
    assert_eq!((&told["outcome"], &told["skill"]["script"]), (&json!("refused"), &Value::Null));
    assert_eq!(told["input_files"], json!(["0193"]));

    let id =
        bench.runner.submit(&caller(), request(r#"{"skill":"demo"}"#), None).await.expect("queued");
    let done = bench.one(Status::Success).await;
    assert_eq!(done.id, id);
    let first = receipt(&bench, id).await.expect("a receipt");
    assert_eq!(opened(&first, &key)["input_sha256"], sha256("{}"));
    assert_eq!(receipt(&bench, id).await, Some(first));
}

#[tokio::test]
async fn what_nobody_ran_has_none() {
    let (bench, _) = bench().await;
    bench.script("main.sh", "true").await;
    bench.launcher.close();
    let busy = [bench.spawn(r#"{"skill":"demo"}"#, None), bench.spawn(r#"{"skill":"demo"}"#, None)];
    bench.launcher.launched(2).await;
    let id =
        bench.runner.submit(&caller(), request(r#"{"skill":"demo"}"#), None).await.expect("queued");
    assert_eq!(
        bench.runner.cancel(&acme(), id).await.expect("answered"),
        Some(CancelResult::Cancelled)
    );
    assert_eq!(receipt(&bench, id).await, None);
    bench.launcher.open();
    for run in busy {
        run.await.expect("no panic").expect("a run");
    }
}
