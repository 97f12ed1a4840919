//! Many requests on their way at once, and how each of them must end.

use serde_json::{Value, json};
use store::{Execution, Status};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::api::{Answer, Api, text};

/// How often a server takes up an execution that never starts.
const MAX_ATTEMPTS: i32 = 3;

/// How a request is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    Sync,
    Async,
    /// With an idempotency key, and waiting for the end.
    Keyed,
}

/// A request that can be told from every other by its number.
#[derive(Debug, Clone)]
pub struct Request {
    pub number: usize,
    body: Value,
    pub key: Option<String>,
}

impl Request {
    pub fn new(skill: &str, wait: Wait, number: usize) -> Self {
        let mode = if wait == Wait::Async { "async" } else { "sync" };
        let body = json!({ "skill": skill, "mode": mode, "input": { "number": number } });
        Request { number, body, key: (wait == Wait::Keyed).then(|| format!("key-{number}")) }
    }

    pub async fn post(&self, api: &Api) -> Result<Answer, reqwest::Error> {
        api.run(&self.body, self.key.as_deref()).await
    }
}

/// Requests on their way, all at once.
pub struct Load {
    pub sent: Vec<Request>,
    pub answers: Vec<Answer>,
    tasks: JoinSet<()>,
    tell: mpsc::UnboundedSender<Answer>,
    told: mpsc::UnboundedReceiver<Answer>,
}

impl Load {
    pub fn new() -> Self {
        let (tell, told) = mpsc::unbounded_channel();
        Load { sent: Vec::new(), answers: Vec::new(), tasks: JoinSet::new(), tell, told }
    }

    pub fn send(&mut self, api: Api, request: Request) {
        self.sent.push(request.clone());
        let tell = self.tell.clone();
        self.tasks.spawn(async move {
            // A connection that broke says nothing about whether the request was accepted.
            if let Ok(answer) = request.post(&api).await {
                let _ = tell.send(answer);
            }
        });
    }

    /// Waits for so many answers.
    pub async fn answered(&mut self, count: usize) {
        while self.answers.len() < count {
            self.answers.push(self.told.recv().await.expect("this end is open"));
        }
    }

    /// The server is gone: takes what was answered before.
    pub async fn cut_off(&mut self) {
        while self.tasks.join_next().await.is_some() {}
        while let Ok(answer) = self.told.try_recv() {
            self.answers.push(answer);
        }
        assert!(
            self.answers.iter().all(|answer| matches!(answer.status, 200 | 202)),
            "{:?}",
            self.answers
        );
    }
}

/// How an execution ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct End {
    pub status: String,
    pub outcome: Option<String>,
}

impl End {
    pub fn new(status: &str, outcome: &str) -> Self {
        End { status: status.to_owned(), outcome: Some(outcome.to_owned()) }
    }

    pub fn of(row: &Value) -> Self {
        End { status: text(&row["status"]), outcome: row["outcome"].as_str().map(str::to_owned) }
    }

    /// What a crash must make of an execution: what had ended stays, what may have acted is lost,
    /// the rest runs, unless workers died over it again and again.
    pub fn owed(row: &Execution) -> Self {
        match row.status {
            Status::Queued => End::new("success", "exited"),
            Status::Running if !row.started && row.attempt < MAX_ATTEMPTS => {
                End::new("success", "exited")
            }
            Status::Running => End::new("failed", "lost"),
            ended => End { status: ended.to_string(), outcome: row.outcome.clone() },
        }
    }
}
