//! A rolling upgrade of a fleet, with a schema that a newer version has migrated.
//!
//! There is no newer version to test with. Instead the test applies an invented migration with SQL.
//! From then on the current program is the older version, both when it is already running and when it
//! starts.

use serde_json::json;

use crate::api::{Api, wait_until};
use crate::fleet::{Fleet, submit, wait_for_ends};

/// Returns its input after a delay, and leaves a file with the number in it.
const SLOW_ECHO: &str = r#"
sleep 0.5
echo "$SANDBOX_INPUT" > "$SANDBOX_OUTPUT"
echo "$SANDBOX_INPUT" | tr -dc 0-9 > "${SANDBOX_FILES_DIR}note.txt"
echo >> "${SANDBOX_FILES_DIR}note.txt"
"#;

const NEWER_MIGRATION: &str = "ALTER TABLE executions ADD COLUMN later TEXT NOT NULL DEFAULT 'x'; \
    ALTER TABLE tenants ADD COLUMN later BIGINT; \
    CREATE INDEX executions_later ON executions (tenant, later); \
    INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time) \
        VALUES (9001, 'later', TRUE, '', 0)";

const REQUIRE_NEWER_SCHEMA: &str =
    "INSERT INTO settings (name, value, held_until) VALUES ('oldest schema', '9001', 0)";

#[tokio::test(flavor = "multi_thread")]
async fn a_rolling_upgrade_loses_nothing() {
    if !Fleet::is_available("a rolling upgrade") {
        return;
    }
    let fleet = Fleet::new();
    let (mut api_server, mut worker) = (fleet.api(), fleet.worker());
    api_server.push("echo", "main.sh", SLOW_ECHO);
    let api = Api::for_server(&api_server);
    let mut accepted = submit(&api, "echo", 0..10).await;
    wait_until("some run and some wait", async || {
        (api.count("running").await > 0 && api.count("queued").await > 0).then_some(())
    })
    .await;

    // The migration comes first, while everything is running.
    fleet.database.execute(NEWER_MIGRATION);
    accepted.extend(submit(&api, "echo", 10..15).await);

    // Then the processes are replaced one by one.
    let second_worker = fleet.worker();
    worker.terminate();
    let second_front = fleet.api();
    let api = Api::for_server(&second_front);
    accepted.extend(submit(&api, "echo", 15..20).await);
    api_server.terminate();
    assert_eq!((worker.wait().code(), api_server.wait().code()), (Some(0), Some(0)));
    assert_eq!(wait_for_ends(&api, &accepted).await, [("success exited".to_owned(), 20)].into());

    // A migration that is incompatible with older versions prevents them from starting, with a clear
    // error. Running processes must be stopped by the operator.
    fleet.database.execute(REQUIRE_NEWER_SCHEMA);
    let mut refused = fleet.spawn("worker");
    assert_eq!(refused.wait().code(), Some(2));
    assert!(
        refused.log().contains("the database schema needs a newer Skillbox"),
        "{}",
        refused.log()
    );
    let response = api
        .run(&json!({ "skill": "echo", "input": { "number": 20 } }), None)
        .await
        .expect("an answer");
    assert_eq!(response.body["output"], json!({ "number": 20 }));
    drop(second_worker);
}
