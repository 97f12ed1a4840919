//! The part of a result that is stored as one JSON text, in the execution's `detail` column.

use catalogue::TrustProblem;
use sandbox::{ConnectAttempt, RunUsage, SkippedFile};
use serde::{Deserialize, Serialize};
use serde_json::Value;

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Detail {
    /// Only when the caller named a `script`; else the two streams are one log.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stdout: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stderr: Option<String>,
    /// Files in the output directory that were not collected.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub skipped: Vec<SkippedFile>,
    /// Limits that were lowered to the allowed maximum, a sentence each.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub clamped: Vec<String>,
    /// Outbound connection attempts of the script; `None` where the backend does not watch for them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network_attempts: Option<Vec<ConnectAttempt>>,
    pub usage: RunUsage,
    /// The isolation in force, as measured in the sandbox; `None` when no sandbox was started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub isolation: Option<Value>,
    pub timings: Timings,
    pub logs_truncated: bool,
    /// What the tenant does not trust about the skill: the reason for a refusal, or, under the policy
    /// `warn`, a problem with which it ran.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trust: Option<TrustProblemDetail>,
}

impl Detail {
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).expect("detail has only string keys")
    }
}

/// One reason not to trust a skill.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TrustProblemDetail {
    /// A stable identifier, such as `signature_missing`.
    pub code: String,
    pub message: String,
}

impl From<&TrustProblem> for TrustProblemDetail {
    fn from(problem: &TrustProblem) -> TrustProblemDetail {
        TrustProblemDetail { code: problem.code().to_owned(), message: problem.to_string() }
    }
}

/// How long each step took, in milliseconds. `record` is missing because it stores these.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Timings {
    pub accept_ms: f64,
    pub load_ms: f64,
    pub launch_ms: f64,
    pub run_ms: f64,
    pub collect_ms: f64,
}
