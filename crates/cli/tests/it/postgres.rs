//! The real server with a real Postgres.

#[path = "../../../store/tests/it/postgres.rs"]
pub(crate) mod cluster;

use serde_json::{Value, json};

use crate::api::{Api, text, wait_until};
use crate::leftovers::descendants;
use crate::support::Server;

const WRITER: &str = r#"
echo "$SANDBOX_INPUT" > "$SANDBOX_OUTPUT"
echo a line of log
echo note > "${SANDBOX_FILES_DIR}note.txt"
"#;

fn server() -> Server {
    let server = Server::start_with(&[("SKILLBOX_DB_DSN", &cluster::database())]);
    server.push("writer", "main.sh", WRITER);
    server
}

#[tokio::test(flavor = "multi_thread")]
async fn all_data_survives_a_restart() {
    let mut server = server();
    assert!(!server.data_dir().join("skillbox.db").exists(), "there is no second database");
    let api = Api::for_server(&server);
    let body = json!({ "skill": "writer", "input": { "name": "Zoë" } });
    let ran = api.run(&body, Some("once")).await.expect("an answer");
    assert_eq!(
        (ran.status, &ran.body["status"], &ran.body["output"]),
        (200, &json!("success"), &body["input"])
    );
    assert_eq!(ran.body["files_list"], json!(["note.txt"]));
    assert_eq!(api.run(&body, Some("once")).await.expect("an answer").id(), ran.id());
    let other = json!({ "skill": "writer", "input": {} });
    assert_eq!(api.run(&other, Some("once")).await.expect("an answer").status, 422);
    let queued =
        api.run(&json!({ "skill": "writer", "mode": "async" }), None).await.expect("an answer");
    assert_eq!(queued.status, 202);
    assert_eq!(api.wait_until_all_ended().await.len(), 2);
    let before = seen(&server, &api, &ran.id()).await;

    server.terminate();
    assert_eq!(server.wait().code(), Some(0));
    assert_eq!(server.restart(), None, "the first key is not the first any more");
    let api = Api::for_server(&server);
    assert_eq!(seen(&server, &api, &ran.id()).await, before);
    assert_eq!(api.run(&body, Some("once")).await.expect("an answer").id(), ran.id());
    assert_eq!(api.executions(None).await.len(), 2);
}

/// Everything that a caller can read, except links, which are created for each response.
async fn seen(server: &Server, api: &Api, id: &str) -> Vec<Value> {
    let mut execution = api.execution(id).await;
    execution["files_url"] = Value::Null;
    execution["files"][0]["url"] = Value::Null;
    let file = api
        .get(&format!("/v1/executions/{id}/files/note.txt"))
        .await
        .text()
        .await
        .expect("the file");
    let logs = api.get(&format!("/v1/executions/{id}/logs")).await.text().await.expect("the logs");
    assert_eq!((file.as_str(), logs.as_str()), ("note\n", "a line of log\n"));
    let mut seen = api.executions(None).await;
    seen.extend([
        execution,
        server.json(&["skill", "list"]),
        server.json(&["key", "list"]),
        server.json(&["tenant", "list"]),
    ]);
    seen
}

/// Another server on the same database could be alive, so executions of a killed server end only with
/// their lease.
#[tokio::test(flavor = "multi_thread")]
async fn executions_of_a_killed_server_end_with_its_lease() {
    let mut server = server();
    server.push("sleeper", "main.sh", "sleep 300\n");
    let api = Api::for_server(&server);
    let sleeping =
        api.run(&json!({ "skill": "sleeper", "mode": "async" }), None).await.expect("an answer");
    let asleep = || descendants(server.pid()).iter().any(|process| process.name == "sleep");
    wait_until("it sleeps", async || asleep().then_some(())).await;
    server.kill();
    server.restart();
    let api = Api::for_server(&server);
    // The server handles requests while it waits for the end of the lease.
    assert_eq!(api.result("writer").await["status"], "success");
    let ended = api.wait_until_all_ended().await;
    let lost = ended
        .iter()
        .find(|row| text(&row["execution_id"]) == sleeping.id())
        .expect("it is not forgotten");
    assert_eq!((&lost["status"], &lost["outcome"]), (&json!("failed"), &json!("lost")));
    assert_eq!(ended.len(), 2);
}
