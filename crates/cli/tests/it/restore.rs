//! The restore drill of docs/operations.md: a backup of a fleet under load, the loss of the fleet and its
//! database, and a new fleet on the restored copy.

use serde_json::json;

use crate::api::{Api, text, wait_until};
use crate::fleet::{Fleet, submit, wait_for_ends};

const ECHO: &str = r#"
echo "$SANDBOX_INPUT" > "$SANDBOX_OUTPUT"
echo "$SANDBOX_INPUT" | tr -dc 0-9 > "${SANDBOX_FILES_DIR}note.txt"
echo >> "${SANDBOX_FILES_DIR}note.txt"
"#;

#[tokio::test(flavor = "multi_thread")]
async fn a_fleet_is_restored_from_a_backup_of_its_database() {
    if !Fleet::is_available("a restore") {
        return;
    }
    let fleet = Fleet::new();
    let (mut api_server, mut worker) = (fleet.api(), fleet.worker());
    api_server.push("echo", "main.sh", ECHO);
    api_server.push("sleeper", "main.sh", "echo began; sleep 300\n");
    api_server.push_idempotent("again", "main.sh", &format!("echo began; sleep 10\n{ECHO}"));
    let api = Api::for_server(&api_server);
    let before = submit(&api, "echo", 0..3).await;
    wait_for_ends(&api, &before).await;
    let start = async |skill: &str| {
        let body = json!({ "skill": skill, "mode": "async", "input": { "number": 7 } });
        api.run(&body, None).await.expect("an answer").id()
    };
    // Three slots: two sleepers and one that may run again fill them, so what comes after waits.
    let (lost, again) = ([start("sleeper").await, start("sleeper").await], start("again").await);
    // A script that has not started in the backup counts as never started, so it would not be lost.
    for id in lost.iter().chain([&again]) {
        api.wait_for_log(id, "began").await;
    }
    let waiting = start("echo").await;

    let copy = fleet.database.copy("restored");
    // What comes after the backup is not in it.
    let after = submit(&api, "echo", 100..101).await;
    worker.kill();
    api_server.kill();
    drop((api_server, worker));

    let api_server = fleet.process_on_database(&copy, "api");
    let api = Api::for_server(&api_server);
    // Skills, results and files are there, and keys open them, before anything runs.
    assert_eq!(wait_for_ends(&api, &before).await, [("success exited".to_owned(), 3)].into());
    let names = api_server.json(&["skill", "list"]);
    assert_eq!(names.as_array().map(Vec::len), Some(3), "{names}");
    // A key that was used before the backup means the same execution; one used after it is unknown,
    // and runs again.
    assert_eq!(submit(&api, "echo", 0..1).await[0].id, before[0].id);
    let repeated = submit(&api, "echo", 100..101).await;
    assert_ne!(repeated[0].id, after[0].id);
    assert_eq!(
        api.try_get(&format!("/v1/executions/{}", after[0].id)).await.expect("an answer").status,
        404
    );

    let _worker = fleet.process_on_database(&copy, "worker");
    let end = async |id: &str| {
        let row = wait_until("it ends", async || {
            let row = api.execution(id).await;
            (!matches!(row["status"].as_str(), Some("queued" | "running"))).then_some(row)
        })
        .await;
        (format!("{} {}", text(&row["status"]), text(&row["outcome"])), row["attempt"].clone())
    };
    // What waited runs; what ran is given up, or runs again where its skill says that it may.
    assert_eq!(end(&waiting).await, ("success exited".to_owned(), json!(1)));
    for id in &lost {
        assert_eq!(end(id).await, ("failed lost".to_owned(), json!(1)));
    }
    assert_eq!(end(&again).await, ("success exited".to_owned(), json!(2)));
    assert_eq!(wait_for_ends(&api, &repeated).await, [("success exited".to_owned(), 1)].into());
}
