//! What a start makes, and what stops it.

use std::os::unix::fs::PermissionsExt;

use reqwest::Method;
use server::ServeError;

use crate::support::{Server, launch};

#[tokio::test]
async fn the_first_start_makes_a_key_and_later_ones_keep_it() {
    let server = Server::start().await;
    let key = server.key.clone();
    assert!(key.starts_with("sk-"));
    assert_eq!(std::fs::read_to_string(server.data.join("key")).unwrap().trim(), key);
    let mode = |name: &str| {
        std::fs::metadata(server.data.join(name)).unwrap().permissions().mode() & 0o777
    };
    assert_eq!((mode(""), mode("key"), mode("secret")), (0o700, 0o600, 0o600));
    let (data, http) = (server.data.clone(), server.http.clone());
    let (_home, ended) = server.shut_down().await;
    ended.unwrap();
    let (addr, again, stop, task) = launch(&data, &[]).await.unwrap();
    assert_eq!(again, None);
    let answer =
        http.get(format!("http://{addr}/v1/skills")).bearer_auth(&key).send().await.unwrap();
    assert_eq!(answer.status(), 200);
    stop.cancel();
    task.await.unwrap().unwrap();
}

#[tokio::test]
async fn the_bootstrap_key_exists_after_start() {
    let bootstrap = ("bootstrap_key", "our-own-key-of-old");
    let server = Server::with(&[bootstrap]).await;
    assert_eq!(server.key, "", "no other key is made");
    assert!(!server.data.join("key").exists());
    let ask = |path| server.request_as("our-own-key-of-old", Method::GET, path).send();
    for path in ["/v1/skills", "/v1/executions", "/v1/keys", "/v1/tenants"] {
        assert_eq!(ask(path).await.unwrap().status(), 200, "{path}");
    }
    let rows: Vec<serde_json::Value> = ask("/v1/keys").await.unwrap().json().await.unwrap();
    let id = rows[0]["id"].as_str().unwrap();
    let revoke = server
        .request_as("our-own-key-of-old", Method::DELETE, &format!("/v1/keys/{id}"))
        .send()
        .await;
    assert_eq!(revoke.unwrap().status(), 204);
    let data = server.data.clone();
    let (_home, ended) = server.shut_down().await;
    ended.unwrap();
    // A revoked key does not come back to life because it still stands in some environment.
    let error = launch(&data, &[bootstrap]).await.err().unwrap().to_string();
    assert!(error.contains("SKILLBOX_BOOTSTRAP_KEY was revoked"), "{error}");
}

#[tokio::test]
async fn a_revoked_bootstrap_key_does_not_stop_a_server_that_another_service_key_administers() {
    let bootstrap = ("bootstrap_key", "our-own-key-of-old");
    let server = Server::with(&[bootstrap]).await;
    let (data, http) = (server.data.clone(), server.http.clone());
    let as_bootstrap = |method, path: &str| server.request_as("our-own-key-of-old", method, path);
    let mut made = Vec::new();
    for body in [
        serde_json::json!({ "name": "next", "scopes": ["admin", "read"], "service": true }),
        serde_json::json!({ "name": "tenant's", "scopes": ["admin", "read"] }),
    ] {
        let answer = as_bootstrap(Method::POST, "/v1/keys").json(&body).send().await.unwrap();
        made.push(answer.json::<serde_json::Value>().await.unwrap());
    }
    let rows: Vec<serde_json::Value> =
        as_bootstrap(Method::GET, "/v1/keys").send().await.unwrap().json().await.unwrap();
    let own = rows.iter().find(|row| row["name"] == "bootstrap").unwrap()["id"]
        .as_str()
        .unwrap()
        .to_owned();
    let revoke = as_bootstrap(Method::DELETE, &format!("/v1/keys/{own}")).send().await.unwrap();
    assert_eq!(revoke.status(), 204);
    let (_home, ended) = server.shut_down().await;
    ended.unwrap();
    let (addr, _, stop, task) = launch(&data, &[bootstrap]).await.unwrap();
    let ask = |key: &str| http.get(format!("http://{addr}/v1/keys")).bearer_auth(key).send();
    assert_eq!(ask("our-own-key-of-old").await.unwrap().status(), 401, "it stays revoked");
    let next = made[0]["key"].as_str().unwrap();
    assert_eq!(ask(next).await.unwrap().status(), 200);
    // Without that key there is nobody left to administer the server: the tenant's own
    // administrator is not enough.
    let id = made[0]["id"].as_str().unwrap();
    let revoke =
        http.delete(format!("http://{addr}/v1/keys/{id}")).bearer_auth(next).send().await.unwrap();
    assert_eq!(revoke.status(), 204);
    stop.cancel();
    task.await.unwrap().unwrap();
    let error = launch(&data, &[bootstrap]).await.err().unwrap().to_string();
    assert!(error.contains("no other service key is active"), "{error}");
}

#[tokio::test]
async fn a_bootstrap_key_that_can_do_less_stops_the_start() {
    let server = Server::start().await;
    let (key, _) = server.key(serde_json::json!({ "name": "reader", "scopes": ["read"] })).await;
    let data = server.data.clone();
    let (_home, ended) = server.shut_down().await;
    ended.unwrap();
    let error = launch(&data, &[("bootstrap_key", &key)]).await.err().unwrap().to_string();
    assert!(error.starts_with("SKILLBOX_BOOTSTRAP_KEY") && !error.contains(&key), "{error}");
}

#[tokio::test]
async fn one_data_directory_serves_one_server() {
    let server = Server::start().await;
    let error = launch(&server.data, &[]).await.err().unwrap();
    assert!(matches!(error, ServeError::DataDir(_)));
    assert!(error.to_string().contains("SKILLBOX_DATA_DIR"), "{error}");
}

#[tokio::test]
async fn a_taken_port_is_named() {
    let server = Server::start().await;
    let home = tempfile::tempdir().unwrap();
    let port = server.addr.port().to_string();
    let error = launch(home.path(), &[("api_port", &port)]).await.err().unwrap();
    assert!(matches!(error, ServeError::PortTaken { .. }));
    assert!(error.to_string().contains("SKILLBOX_API_PORT"), "{error}");
    assert!(!home.path().join("key").exists(), "a start that fails makes no key");
}

#[tokio::test]
async fn an_open_bind_needs_a_key() {
    let home = tempfile::tempdir().unwrap();
    let open = ("bind", "0.0.0.0");
    let error = launch(home.path(), &[open]).await.err().unwrap().to_string();
    assert!(
        error.contains("SKILLBOX_BIND=0.0.0.0") && error.contains("SKILLBOX_BOOTSTRAP_KEY"),
        "{error}"
    );
    let (_, key, stop, task) =
        launch(home.path(), &[open, ("bootstrap_key", "sk-operator-0123456789")]).await.unwrap();
    assert_eq!(key, None);
    stop.cancel();
    task.await.unwrap().unwrap();
    // Now a key exists, and that is enough.
    let (_, _, stop, task) = launch(home.path(), &[open]).await.unwrap();
    stop.cancel();
    task.await.unwrap().unwrap();
}

#[tokio::test]
async fn a_damaged_secret_stops_the_start() {
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("secret"), b"").unwrap();
    let error = launch(home.path(), &[]).await.err().unwrap().to_string();
    assert!(error.contains("secret is damaged"), "{error}");
}

#[tokio::test]
async fn a_database_that_cannot_be_opened_is_named() {
    let home = tempfile::tempdir().unwrap();
    let dsn = "postgres://nobody:hush@127.0.0.1:1/none";
    let error = launch(home.path(), &[("db_dsn", dsn)]).await.err().unwrap().to_string();
    assert!(error.contains("SKILLBOX_DB_DSN") && !error.contains("hush"), "{error}");
    assert!(error.contains("refused"), "it says what is wrong: {error}");
}
