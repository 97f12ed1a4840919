//! The request for a run, as the server parses it from the request body. It is stored until the run
//! ends.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use store::TenantId;
use uuid::Uuid;

/// The version that means the newest one.
pub(crate) const LATEST: &str = "latest";

/// The authenticated caller: its tenant, and the restrictions of its key.
#[derive(Debug, Clone)]
pub struct Caller {
    pub tenant: TenantId,
    pub key_id: Option<Uuid>,
    /// The only skills that the key may run; `None` means all.
    pub skills: Option<Vec<String>>,
}

/// One run of one skill.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Request {
    pub skill: String,
    #[serde(default = "latest")]
    pub version: String,
    /// `None` when the caller sent no input; an explicit `null` is a document and is passed on.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "present")]
    pub input: Option<Box<RawValue>>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub input_files: Vec<String>,
    /// A path inside the skill, run instead of the default entrypoint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub script: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stdin: Option<String>,
    /// The working directory that the caller chose; `None` leaves it to the skill.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<Cwd>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    #[serde(default)]
    pub limits: LimitsRequest,
    /// The webhook to call at the end. It has a column of its own, because it is kept longer than the
    /// request.
    #[serde(default, skip_serializing)]
    pub webhook: Option<String>,
}

impl Request {
    /// A request for the newest version of `skill` with all defaults.
    pub fn new(skill: impl Into<String>) -> Request {
        Request {
            skill: skill.into(),
            version: latest(),
            input: None,
            env: BTreeMap::new(),
            input_files: Vec::new(),
            script: None,
            args: Vec::new(),
            stdin: None,
            cwd: None,
            timeout_ms: None,
            limits: LimitsRequest::default(),
            webhook: None,
        }
    }

    /// The input document; an empty object when the caller sent none.
    pub fn input_json(&self) -> &str {
        self.input.as_deref().map_or("{}", RawValue::get)
    }
}

/// The script's working directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Cwd {
    Sandbox,
    Skill,
    Workspace,
}

/// Limits that the caller sets below those of the skill.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LimitsRequest {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_bytes: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_millis: Option<u32>,
}

fn latest() -> String {
    LATEST.to_owned()
}

/// Reads a field that is present, so that `null` becomes a document instead of `None`.
fn present<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<Box<RawValue>>, D::Error> {
    Box::<RawValue>::deserialize(from).map(Some)
}
