//! Many concurrent requests, and the end that each execution must have.

use serde_json::{Value, json};
use store::{Execution, Status};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::api::{Api, ApiResponse, text};

/// How often an execution that never starts is attempted.
const MAX_ATTEMPTS: i32 = 3;

/// How a request is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SendMode {
    Sync,
    Async,
    /// With an idempotency key, waiting for the end.
    Keyed,
}

/// A request with a unique number, which is also its input.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub number: usize,
    body: Value,
    pub key: Option<String>,
}

impl Request {
    pub(crate) fn new(skill: &str, wait: SendMode, number: usize) -> Self {
        let mode = if wait == SendMode::Async { "async" } else { "sync" };
        let body = json!({ "skill": skill, "mode": mode, "input": { "number": number } });
        Request { number, body, key: (wait == SendMode::Keyed).then(|| format!("key-{number}")) }
    }

    pub(crate) async fn post(&self, api: &Api) -> Result<ApiResponse, reqwest::Error> {
        api.run(&self.body, self.key.as_deref()).await
    }
}

/// Concurrent requests and their responses.
pub(crate) struct RequestLoad {
    pub sent: Vec<Request>,
    pub responses: Vec<ApiResponse>,
    tasks: JoinSet<()>,
    sender: mpsc::UnboundedSender<ApiResponse>,
    receiver: mpsc::UnboundedReceiver<ApiResponse>,
}

impl RequestLoad {
    pub(crate) fn new() -> Self {
        let (sender, receiver) = mpsc::unbounded_channel();
        RequestLoad {
            sent: Vec::new(),
            responses: Vec::new(),
            tasks: JoinSet::new(),
            sender,
            receiver,
        }
    }

    pub(crate) fn send(&mut self, api: Api, request: Request) {
        self.sent.push(request.clone());
        let sender = self.sender.clone();
        self.tasks.spawn(async move {
            // A broken connection does not show whether the request was accepted.
            if let Ok(response) = request.post(&api).await {
                let _ = sender.send(response);
            }
        });
    }

    /// Waits until at least so many responses have arrived.
    pub(crate) async fn wait_for_answers(&mut self, count: usize) {
        while self.responses.len() < count {
            self.responses.push(self.receiver.recv().await.expect("the sender is open"));
        }
    }

    /// Collects the responses that arrived before the server was killed.
    pub(crate) async fn collect_remaining(&mut self) {
        while self.tasks.join_next().await.is_some() {}
        while let Ok(response) = self.receiver.try_recv() {
            self.responses.push(response);
        }
        assert!(
            self.responses.iter().all(|response| matches!(response.status, 200 | 202)),
            "{:?}",
            self.responses
        );
    }
}

/// How an execution ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ExecutionEnd {
    pub status: String,
    pub outcome: Option<String>,
}

impl ExecutionEnd {
    pub(crate) fn new(status: &str, outcome: &str) -> Self {
        ExecutionEnd { status: status.to_owned(), outcome: Some(outcome.to_owned()) }
    }

    pub(crate) fn from_json(row: &Value) -> Self {
        ExecutionEnd {
            status: text(&row["status"]),
            outcome: row["outcome"].as_str().map(str::to_owned),
        }
    }

    /// The end that an execution must have after a crash. An end that was recorded stays. An execution
    /// whose script may have started is lost. All others run, up to the maximum number of attempts.
    pub(crate) fn expected_after_crash(row: &Execution) -> Self {
        match row.status {
            Status::Queued => ExecutionEnd::new("success", "exited"),
            Status::Running if !row.started && row.attempt < MAX_ATTEMPTS => {
                ExecutionEnd::new("success", "exited")
            }
            Status::Running => ExecutionEnd::new("failed", "lost"),
            terminal => ExecutionEnd { status: terminal.to_string(), outcome: row.outcome.clone() },
        }
    }
}
