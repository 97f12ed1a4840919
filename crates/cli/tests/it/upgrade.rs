//! Replacing a fleet process by process, with tables that a newer program has changed in between.
//!
//! The program of tomorrow cannot be had. A step that it may bring is made up and taken by hand;
//! from then on the program of today is the older one, both where it runs already and where it
//! starts.

use serde_json::json;

use crate::api::{Api, until};
use crate::fleet::{Fleet, settle, submit};

/// Gives its input back a little later, and leaves a file that names it.
const SLOW_ECHO: &str = r#"
sleep 0.5
echo "$SANDBOX_INPUT" > "$SANDBOX_OUTPUT"
echo "$SANDBOX_INPUT" | tr -dc 0-9 > "${SANDBOX_FILES_DIR}note.txt"
echo >> "${SANDBOX_FILES_DIR}note.txt"
"#;

const LATER: &str = "ALTER TABLE executions ADD COLUMN later TEXT NOT NULL DEFAULT 'x'; \
    ALTER TABLE tenants ADD COLUMN later BIGINT; \
    CREATE INDEX executions_later ON executions (tenant, later); \
    INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time) \
        VALUES (9001, 'later', TRUE, '', 0)";

const SHUT_OUT: &str =
    "INSERT INTO settings (name, value, held_until) VALUES ('oldest schema', '9001', 0)";

#[tokio::test(flavor = "multi_thread")]
async fn a_rolling_upgrade_loses_nothing() {
    if !Fleet::can_be_had("a rolling upgrade") {
        return;
    }
    let fleet = Fleet::new();
    let (mut front, mut worker) = (fleet.api(), fleet.worker());
    front.push("echo", "main.sh", SLOW_ECHO);
    let api = Api::of(&front);
    let mut accepted = submit(&api, "echo", 0..10).await;
    until("some run and some wait", async || {
        (api.count("running").await > 0 && api.count("queued").await > 0).then_some(())
    })
    .await;

    // The new tables come first, under everything that runs.
    fleet.database.execute(LATER);
    accepted.extend(submit(&api, "echo", 10..15).await);

    // Then one process after the other.
    let second_worker = fleet.worker();
    worker.terminate();
    let second_front = fleet.api();
    let api = Api::of(&second_front);
    accepted.extend(submit(&api, "echo", 15..20).await);
    front.terminate();
    assert_eq!((worker.wait().code(), front.wait().code()), (Some(0), Some(0)));
    assert_eq!(settle(&api, &accepted).await, [("success exited".to_owned(), 20)].into());

    // A step that older programs cannot live with shuts out who starts, and says why; who runs is
    // the operator's to stop.
    fleet.database.execute(SHUT_OUT);
    let mut refused = fleet.begin("worker");
    assert_eq!(refused.wait().code(), Some(2));
    assert!(
        refused.log().contains("the database schema needs a newer Skillbox"),
        "{}",
        refused.log()
    );
    let still = api
        .run(&json!({ "skill": "echo", "input": { "number": 20 } }), None)
        .await
        .expect("an answer");
    assert_eq!(still.body["output"], json!({ "number": 20 }));
    drop(second_worker);
}
