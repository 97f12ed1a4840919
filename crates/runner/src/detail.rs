//! The part of a result that is kept as one JSON text in the execution's `detail` column. The
//! server reads it back.

use catalogue::TrustProblem;
use sandbox::{ConnectAttempt, RunUsage, SkippedFile};
use serde::{Deserialize, Serialize};
use serde_json::Value;

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Detail {
    /// Told apart only when the caller named a `script`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stdout: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stderr: Option<String>,
    /// What lay in the output directory and was not collected.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub skipped: Vec<SkippedFile>,
    /// One sentence for each limit that was asked for and not given.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub clamped: Vec<String>,
    /// The script's calls for other machines, as its guest saw them; none where nobody looked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network_attempts: Option<Vec<ConnectAttempt>>,
    pub usage: RunUsage,
    /// What was really in force, as the sandbox measured it; absent when no sandbox was started.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub isolation: Option<Value>,
    pub timings: Timings,
    pub logs_truncated: bool,
    /// What the tenant does not trust about the skill: why it was refused, or what it ran in spite
    /// of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trust: Option<Doubt>,
}

/// One thing that is not trusted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Doubt {
    /// A stable word, such as `signature_missing`.
    pub code: String,
    pub message: String,
}

impl From<&TrustProblem> for Doubt {
    fn from(problem: &TrustProblem) -> Doubt {
        Doubt { code: problem.code().to_owned(), message: problem.to_string() }
    }
}

/// How long each step took, in milliseconds. `record` is missing because it is what stores these.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Timings {
    pub accept_ms: f64,
    pub load_ms: f64,
    pub launch_ms: f64,
    pub run_ms: f64,
    pub collect_ms: f64,
}
