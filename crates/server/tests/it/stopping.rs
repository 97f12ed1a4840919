//! The orderly end.

use std::time::Duration;

use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::support::{Server, config};

/// Waits until the store says that something runs.
async fn running(server: &Server) {
    for _ in 0..400 {
        let rows: Vec<Value> =
            server.get("/v1/executions?status=running").send().await.unwrap().json().await.unwrap();
        if !rows.is_empty() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(25)).await;
    }
    panic!("nothing runs");
}

#[tokio::test]
async fn a_drain_lets_runs_finish_and_refuses_new_clients() {
    let server = Server::start().await;
    server.publish_bash("slow", "sleep 1; echo '\"done\"' > \"$SANDBOX_OUTPUT\"\n").await;
    let request = server.post("/v1/executions", &json!({ "skill": "slow" }));
    let answer = tokio::spawn(request.send());
    running(&server).await;
    let (addr, stop) = (server.addr, server.stop.clone());
    stop.cancel();
    let answer = answer.await.unwrap().unwrap();
    assert_eq!(answer.status(), 200);
    assert_eq!(answer.json::<Value>().await.unwrap()["output"], "done");
    let (_home, ended) = server.shut_down().await;
    ended.unwrap();
    assert!(tokio::net::TcpStream::connect(addr).await.is_err());
}

#[tokio::test]
async fn a_drain_ends_at_its_deadline_and_the_run_is_accounted_for() {
    let server = Server::with(&[("drain_timeout", "300ms")]).await;
    server.publish_bash("endless", "sleep 600\n").await;
    let key = server.key.clone();
    let submitted = server
        .post("/v1/executions", &json!({ "skill": "endless", "mode": "async" }))
        .send()
        .await
        .unwrap();
    let id = submitted.json::<Value>().await.unwrap()["execution_id"].as_str().unwrap().to_owned();
    running(&server).await;
    let (data, http) = (server.data.clone(), server.http.clone());
    let (_home, ended) = server.shut_down().await;
    ended.unwrap();
    let (addr, _, stop, task) = crate::support::launch(&data, &[]).await.unwrap();
    let answer = http
        .get(format!("http://{addr}/v1/executions/{id}"))
        .bearer_auth(key)
        .send()
        .await
        .unwrap();
    let stored: Value = answer.json().await.unwrap();
    assert!(!matches!(stored["status"].as_str(), Some("queued" | "running")), "{stored}");
    stop.cancel();
    task.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_start_that_waits_can_be_called_off() {
    let home = tempfile::tempdir().unwrap();
    let silent = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let dsn = format!("postgres://a:b@{}/c", silent.local_addr().unwrap());
    let stop = CancellationToken::new();
    let starting =
        server::serve_until(config(home.path(), &[("db_dsn", &dsn)]), |_| {}, stop.clone());
    let starting = tokio::spawn(starting);
    let _database = silent.accept().await.unwrap();
    stop.cancel();
    starting.await.unwrap().unwrap();
}

#[tokio::test]
async fn sigterm_stops_the_server() {
    let home = tempfile::tempdir().unwrap();
    let config = config(home.path(), &[("log_level", "off")]);
    let (tell, told) = tokio::sync::oneshot::channel();
    let server = tokio::spawn(server::serve(config, move |_| tell.send(()).unwrap()));
    told.await.unwrap();
    // The handler that `serve` installed takes the signal, so the other tests of this process do
    // not notice it.
    let id = std::process::id().to_string();
    assert!(std::process::Command::new("kill").args(["-TERM", &id]).status().unwrap().success());
    server.await.unwrap().unwrap();
}
