//! Runs: starting one, reading it back, its logs and its files.

use std::collections::BTreeMap;

use reqwest::Method;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use uuid::Uuid;

use crate::{Client, ClientError, Download, Listing, PageSelector, Reply};

/// What to run. Everything but the skill has a default on the server.
#[derive(Debug, Clone, Default, Serialize)]
pub struct RunRequest {
    pub skill: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Sent exactly as given; `None` leaves it out, which is not the same as `null`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub input: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub input_files: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub script: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stdin: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<String>,
    /// `sync` (the default) or `async`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mode: Option<String>,
    /// Called with a signed POST when an `async` run has ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub webhook: Option<String>,
    /// Sent as a header: the same key and body give the same execution, however often they are
    /// sent.
    #[serde(skip)]
    pub idempotency_key: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ExecutionStatus {
    Queued,
    Running,
    Success,
    Failed,
    Timeout,
    Cancelled,
    /// A state a newer server has.
    #[serde(other)]
    Unknown,
}

impl ExecutionStatus {
    pub fn is_terminal(self) -> bool {
        !matches!(self, Self::Queued | Self::Running)
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Running => "running",
            Self::Success => "success",
            Self::Failed => "failed",
            Self::Timeout => "timeout",
            Self::Cancelled => "cancelled",
            Self::Unknown => "unknown",
        }
    }
}

/// One execution, as `POST /v1/executions` and `GET /v1/executions/{id}` give it.
#[derive(Debug, Clone, Deserialize)]
pub struct Execution {
    pub execution_id: Uuid,
    pub status: ExecutionStatus,
    pub output: Option<Value>,
    pub logs: Option<String>,
    #[serde(default)]
    pub duration_ms: i64,
    pub error: Option<String>,
    pub skill_name: Option<String>,
    pub skill_version: Option<String>,
    pub exit_code: Option<i32>,
    pub outcome: Option<String>,
    pub stdout: Option<String>,
    pub stderr: Option<String>,
    pub files_url: Option<String>,
    #[serde(default)]
    pub files: Vec<ArtifactFile>,
    /// What lay in the output directory and was not collected.
    #[serde(default)]
    pub skipped: Vec<SkippedOutput>,
    /// One sentence for each limit that was asked for and not given.
    #[serde(default)]
    pub clamped: Vec<String>,
    pub usage: Option<ExecutionUsage>,
    pub created_at: Option<String>,
    pub finished_at: Option<String>,
}

/// A row of `GET /v1/executions`.
#[derive(Debug, Clone, Deserialize)]
pub struct ExecutionSummary {
    pub execution_id: Uuid,
    pub skill_name: String,
    pub skill_version: String,
    pub status: ExecutionStatus,
    #[serde(default)]
    pub duration_ms: i64,
    pub error: Option<String>,
    pub created_at: String,
}

/// What a run cost.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct ExecutionUsage {
    pub wall_ms: u64,
    pub cpu_ms: u64,
    pub peak_memory_bytes: u64,
    pub bytes_in: u64,
    pub bytes_out: u64,
}

/// One artifact of a run. Its name is a relative path and comes from the skill: check it before
/// writing anywhere.
#[derive(Debug, Clone, Deserialize)]
pub struct ArtifactFile {
    pub name: String,
    pub size_bytes: u64,
    pub sha256: Option<String>,
    pub content_type: Option<String>,
    pub url: Option<String>,
}

#[derive(Debug, Clone, Deserialize)]
pub struct SkippedOutput {
    pub path: String,
    pub why: String,
}

/// Which executions to list.
#[derive(Debug, Clone, Default)]
pub struct ExecutionFilter {
    pub skill: Option<String>,
    pub status: Option<String>,
    pub since: Option<String>,
    pub key: Option<String>,
}

impl ExecutionFilter {
    fn query(&self) -> impl Iterator<Item = (&'static str, String)> {
        [
            ("skill", &self.skill),
            ("status", &self.status),
            ("since", &self.since),
            ("key", &self.key),
        ]
        .into_iter()
        .filter_map(|(name, value)| value.clone().map(|value| (name, value)))
    }
}

impl Client {
    /// Runs a skill; in `sync` mode this waits until it has ended, however long that takes.
    pub async fn run(&self, run: &RunRequest) -> Result<Reply<Execution>, ClientError> {
        let url = self.url(&["v1", "executions"]);
        let mut request = self.request(Method::POST, &url).json(run);
        if let Some(key) = &run.idempotency_key {
            request = request.header("idempotency-key", key);
        }
        self.reply(&url, request).await
    }

    pub async fn execution(&self, id: &str) -> Result<Reply<Execution>, ClientError> {
        self.get(&["v1", "executions", id]).await
    }

    pub async fn executions(
        &self,
        filter: &ExecutionFilter,
        page: &PageSelector,
    ) -> Result<Listing<ExecutionSummary>, ClientError> {
        let query: Vec<_> = filter.query().chain(page.query()).collect();
        self.list(&["v1", "executions"], &query).await
    }

    /// The log text, streamed.
    pub async fn execution_logs(&self, id: &str) -> Result<Download, ClientError> {
        self.download(&["v1", "executions", id, "logs"]).await
    }

    pub async fn cancel(&self, id: &str) -> Result<Reply<Value>, ClientError> {
        let url = self.url(&["v1", "executions", id, "cancel"]);
        self.reply(&url, self.request(Method::POST, &url)).await
    }

    pub async fn execution_files(&self, id: &str) -> Result<Listing<ArtifactFile>, ClientError> {
        self.list(&["v1", "executions", id, "files"], &[]).await
    }

    /// One artifact, streamed.
    pub async fn execution_file(&self, id: &str, path: &str) -> Result<Download, ClientError> {
        let segments: Vec<&str> =
            ["v1", "executions", id, "files"].into_iter().chain(path.split('/')).collect();
        self.download(&segments).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_set_is_sent() {
        let run = RunRequest {
            skill: "word-count".into(),
            idempotency_key: Some("k".into()),
            ..RunRequest::default()
        };
        assert_eq!(serde_json::to_string(&run).expect("JSON"), r#"{"skill":"word-count"}"#);
    }

    #[test]
    fn null_input_is_sent_as_null_and_numbers_keep_their_digits() {
        for input in ["null", "12345678901234567890.10"] {
            let raw = RawValue::from_string(input.to_owned()).expect("JSON");
            let run = RunRequest { skill: "s".into(), input: Some(raw), ..RunRequest::default() };
            assert_eq!(
                serde_json::to_string(&run).expect("JSON"),
                format!(r#"{{"skill":"s","input":{input}}}"#)
            );
        }
    }

    #[test]
    fn unknown_keys_and_states_are_tolerated() {
        let text = r#"{"execution_id":"0190c0de-0000-7000-8000-000000000000","status":"frozen","error":null,"new_key":[1]}"#;
        let execution: Execution = serde_json::from_str(text).expect("an execution");
        assert_eq!(execution.status, ExecutionStatus::Unknown);
        assert!(execution.status.is_terminal());
    }
}
