//! An HTTP client for the API of a running server, independent of the `client` crate.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::support::Server;

/// Timeout of every wait in these tests. A longer wait means that something hangs.
const WAIT_TIMEOUT: Duration = Duration::from_secs(90);

/// How often a state is polled that cannot be awaited.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

#[derive(Clone)]
pub(crate) struct Api {
    http: reqwest::Client,
    url: String,
    key: String,
}

/// The response to a request.
#[derive(Debug, Clone)]
pub(crate) struct ApiResponse {
    pub status: u16,
    pub body: Value,
}

impl ApiResponse {
    pub(crate) fn id(&self) -> String {
        text(&self.body["execution_id"])
    }
}

impl Api {
    pub(crate) fn for_server(server: &Server) -> Self {
        Api::new(&server.url, &server.key)
    }

    pub(crate) fn new(url: &str, key: &str) -> Self {
        Api { http: reqwest::Client::new(), url: url.to_owned(), key: key.to_owned() }
    }

    /// The same server with another key.
    pub(crate) fn with_key(&self, key: &str) -> Self {
        Api { key: key.to_owned(), ..self.clone() }
    }

    /// Whether at least so many executions are queued.
    pub(crate) async fn queued_at_least(&self, count: usize) -> bool {
        let rows =
            self.get(&format!("/v1/executions?limit=1&offset={}&status=queued", count - 1)).await;
        !rows.json::<Vec<Value>>().await.expect("JSON").is_empty()
    }

    /// Posts a run. `Err` means that the connection broke.
    pub(crate) async fn run(
        &self,
        body: &Value,
        idempotency_key: Option<&str>,
    ) -> Result<ApiResponse, reqwest::Error> {
        let mut request =
            self.http.post(format!("{}/v1/executions", self.url)).bearer_auth(&self.key).json(body);
        if let Some(key) = idempotency_key {
            request = request.header("Idempotency-Key", key);
        }
        let answer = request.send().await?;
        Ok(ApiResponse { status: answer.status().as_u16(), body: answer.json().await? })
    }

    /// Runs a skill to its end and returns the execution.
    pub(crate) async fn result(&self, skill: &str) -> Value {
        let answer = self.run(&json!({ "skill": skill }), None).await.expect("an answer");
        assert_eq!(answer.status, 200, "{}", answer.body);
        answer.body
    }

    /// Runs a skill in a background task.
    pub(crate) fn begin(&self, skill: &str) -> JoinHandle<Value> {
        let (api, skill) = (self.clone(), skill.to_owned());
        tokio::spawn(async move { api.result(&skill).await })
    }

    pub(crate) async fn get(&self, path: &str) -> reqwest::Response {
        let answer = self.http.get(format!("{}{path}", self.url)).bearer_auth(&self.key).send();
        answer.await.expect("an answer")
    }

    /// Uploads a file as a form.
    pub(crate) async fn upload(&self, content_type: &str, form: Vec<u8>) -> ApiResponse {
        let request = self.http.post(format!("{}/v1/files", self.url)).bearer_auth(&self.key);
        let answer = request
            .header("Content-Type", content_type)
            .body(form)
            .send()
            .await
            .expect("an answer");
        let status = answer.status().as_u16();
        ApiResponse { status, body: answer.json().await.unwrap_or_default() }
    }

    pub(crate) async fn post(&self, path: &str) -> reqwest::Response {
        let answer = self.http.post(format!("{}{path}", self.url)).bearer_auth(&self.key).send();
        answer.await.expect("an answer")
    }

    /// Gets JSON from a server that may fail.
    pub(crate) async fn try_get(&self, path: &str) -> Result<ApiResponse, reqwest::Error> {
        let answer =
            self.http.get(format!("{}{path}", self.url)).bearer_auth(&self.key).send().await?;
        Ok(ApiResponse { status: answer.status().as_u16(), body: answer.json().await? })
    }

    pub(crate) async fn execution(&self, id: &str) -> Value {
        self.get(&format!("/v1/executions/{id}")).await.json().await.expect("JSON")
    }

    /// Follows an execution until its log contains the text, which proves that the script runs.
    pub(crate) async fn wait_for_log(&self, id: &str, text: &str) {
        let mut events = self.get(&format!("/v1/executions/{id}/events")).await;
        let mut log = String::new();
        while !log.contains(text) {
            let chunk = tokio::time::timeout(WAIT_TIMEOUT, events.chunk())
                .await
                .expect("a chunk of the log");
            let chunk = chunk
                .expect("a stream")
                .unwrap_or_else(|| panic!("the log ended without {text}: {log}"));
            log.push_str(&String::from_utf8_lossy(&chunk));
        }
    }

    /// All executions, or all with this status.
    pub(crate) async fn executions(&self, status: Option<&str>) -> Vec<Value> {
        let filter = status.map(|status| format!("&status={status}")).unwrap_or_default();
        let rows = self.get(&format!("/v1/executions?limit=200{filter}")).await;
        let rows: Vec<Value> = rows.json().await.expect("JSON");
        assert!(rows.len() < 200, "these tests read only one page");
        rows
    }

    pub(crate) async fn count(&self, status: &str) -> usize {
        self.executions(Some(status)).await.len()
    }

    /// Waits until no execution is queued or running, and returns all of them.
    pub(crate) async fn wait_until_all_ended(&self) -> Vec<Value> {
        wait_until("every execution ends", async || {
            let rows = self.executions(None).await;
            rows.iter()
                .all(|row| !matches!(row["status"].as_str(), Some("queued" | "running")))
                .then_some(rows)
        })
        .await
    }
}

/// Polls until the closure returns a value. Panics after the timeout.
pub(crate) async fn wait_until<T>(what: &str, mut poll: impl AsyncFnMut() -> Option<T>) -> T {
    let polling = async {
        loop {
            match poll().await {
                Some(value) => return value,
                None => tokio::time::sleep(POLL_INTERVAL).await,
            }
        }
    };
    tokio::time::timeout(WAIT_TIMEOUT, polling)
        .await
        .unwrap_or_else(|_| panic!("timed out waiting for: {what}"))
}

#[track_caller]
pub(crate) fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("not a string: {value}")).to_owned()
}
