//! The API of a running server, as a client that knows nothing of our own client sees it.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::support::Server;

/// No wait of these tests is longer: what takes more time is stuck.
const PATIENCE: Duration = Duration::from_secs(90);

/// How often something is asked for that announces itself to nobody.
const TICK: Duration = Duration::from_millis(5);

#[derive(Clone)]
pub struct Api {
    http: reqwest::Client,
    url: String,
    key: String,
}

/// What a request was answered with.
#[derive(Debug, Clone)]
pub struct Answer {
    pub status: u16,
    pub body: Value,
}

impl Answer {
    pub fn id(&self) -> String {
        text(&self.body["execution_id"])
    }
}

impl Api {
    pub fn of(server: &Server) -> Self {
        Api::new(&server.url, &server.key)
    }

    pub fn new(url: &str, key: &str) -> Self {
        Api { http: reqwest::Client::new(), url: url.to_owned(), key: key.to_owned() }
    }

    /// The same server, as somebody else.
    pub fn with_key(&self, key: &str) -> Self {
        Api { key: key.to_owned(), ..self.clone() }
    }

    /// Whether so many executions wait.
    pub async fn queued_at_least(&self, count: usize) -> bool {
        let rows =
            self.get(&format!("/v1/executions?limit=1&offset={}&status=queued", count - 1)).await;
        !rows.json::<Vec<Value>>().await.expect("JSON").is_empty()
    }

    /// Posts a run; an error is a connection that broke.
    pub async fn run(
        &self,
        body: &Value,
        idempotency_key: Option<&str>,
    ) -> Result<Answer, reqwest::Error> {
        let mut request =
            self.http.post(format!("{}/v1/executions", self.url)).bearer_auth(&self.key).json(body);
        if let Some(key) = idempotency_key {
            request = request.header("Idempotency-Key", key);
        }
        let answer = request.send().await?;
        Ok(Answer { status: answer.status().as_u16(), body: answer.json().await? })
    }

    /// Runs a skill to its end, which must be answered.
    pub async fn result(&self, skill: &str) -> Value {
        let answer = self.run(&json!({ "skill": skill }), None).await.expect("an answer");
        assert_eq!(answer.status, 200, "{}", answer.body);
        answer.body
    }

    /// The same, without waiting for it.
    pub fn begin(&self, skill: &str) -> JoinHandle<Value> {
        let (api, skill) = (self.clone(), skill.to_owned());
        tokio::spawn(async move { api.result(&skill).await })
    }

    pub async fn get(&self, path: &str) -> reqwest::Response {
        let answer = self.http.get(format!("{}{path}", self.url)).bearer_auth(&self.key).send();
        answer.await.expect("an answer")
    }

    /// Sends a form to the files.
    pub async fn upload(&self, content_type: &str, form: Vec<u8>) -> Answer {
        let request = self.http.post(format!("{}/v1/files", self.url)).bearer_auth(&self.key);
        let answer = request
            .header("Content-Type", content_type)
            .body(form)
            .send()
            .await
            .expect("an answer");
        let status = answer.status().as_u16();
        Answer { status, body: answer.json().await.unwrap_or_default() }
    }

    pub async fn post(&self, path: &str) -> reqwest::Response {
        let answer = self.http.post(format!("{}{path}", self.url)).bearer_auth(&self.key).send();
        answer.await.expect("an answer")
    }

    /// Something as JSON, from a server that may be in trouble.
    pub async fn try_get(&self, path: &str) -> Result<Answer, reqwest::Error> {
        let answer =
            self.http.get(format!("{}{path}", self.url)).bearer_auth(&self.key).send().await?;
        Ok(Answer { status: answer.status().as_u16(), body: answer.json().await? })
    }

    pub async fn execution(&self, id: &str) -> Value {
        self.get(&format!("/v1/executions/{id}")).await.json().await.expect("JSON")
    }

    /// Follows an execution until it has said a word, which only a script that runs can.
    pub async fn heard(&self, id: &str, word: &str) {
        let mut events = self.get(&format!("/v1/executions/{id}/events")).await;
        let mut heard = String::new();
        while !heard.contains(word) {
            let chunk =
                tokio::time::timeout(PATIENCE, events.chunk()).await.expect("it says something");
            let chunk = chunk
                .expect("a stream")
                .unwrap_or_else(|| panic!("it ended without {word}: {heard}"));
            heard.push_str(&String::from_utf8_lossy(&chunk));
        }
    }

    /// Every execution, or every one in this state.
    pub async fn executions(&self, status: Option<&str>) -> Vec<Value> {
        let filter = status.map(|status| format!("&status={status}")).unwrap_or_default();
        let rows = self.get(&format!("/v1/executions?limit=200{filter}")).await;
        let rows: Vec<Value> = rows.json().await.expect("JSON");
        assert!(rows.len() < 200, "these tests look at one page");
        rows
    }

    pub async fn count(&self, status: &str) -> usize {
        self.executions(Some(status)).await.len()
    }

    /// Every execution, once none of them is queued or running.
    pub async fn ended(&self) -> Vec<Value> {
        until("every execution ends", async || {
            let rows = self.executions(None).await;
            rows.iter()
                .all(|row| !matches!(row["status"].as_str(), Some("queued" | "running")))
                .then_some(rows)
        })
        .await
    }
}

/// Asks until there is something, for a bounded time.
pub async fn until<T>(what: &str, mut ask: impl AsyncFnMut() -> Option<T>) -> T {
    let asked = async {
        loop {
            match ask().await {
                Some(found) => return found,
                None => tokio::time::sleep(TICK).await,
            }
        }
    };
    tokio::time::timeout(PATIENCE, asked).await.unwrap_or_else(|_| panic!("waited in vain: {what}"))
}

#[track_caller]
pub fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("not a text: {value}")).to_owned()
}
