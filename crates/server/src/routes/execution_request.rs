//! The body of `POST /v1/executions`, and its conversion to the runner's request.

use std::collections::BTreeMap;

use runner::{Cwd, LimitsRequest, Request};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use crate::error::ApiError;
use crate::http::body::JsonObject;
use crate::webhooks::WebhookUrl;

/// The result repeats the id of a missing file, so its length is limited.
const MAX_FILE_ID: usize = 128;

/// A run of a skill. Keys not listed here are ignored.
#[derive(Deserialize, ToSchema)]
pub(crate) struct ExecutionRequest {
    /// Name of the skill.
    #[schema(example = "word-count")]
    skill: String,
    /// Its version; `latest` is the newest upload.
    #[schema(default = "latest")]
    version: Option<String>,
    /// The input document: any JSON. An explicit `null` is a document.
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = serde_json::Value, required = false)]
    input: Option<Box<RawValue>>,
    /// Environment variables for the script.
    env: Option<BTreeMap<String, String>>,
    /// Ids of uploaded files. The script finds them in `/sandbox/input/` by their names. A missing
    /// file fails the run.
    input_files: Option<Vec<String>>,
    /// The path of a script inside the skill to run instead of its default entrypoint.
    #[schema(example = "scripts/report.py")]
    script: Option<String>,
    /// Arguments of the script.
    args: Option<Vec<String>>,
    /// The standard input of the script.
    stdin: Option<String>,
    /// The working directory of the script: `sandbox` (the default), `skill` or `workspace`.
    #[schema(value_type = Option<StartDirectory>)]
    cwd: Option<Cwd>,
    /// A timeout such as `30s`; it can only lower the skill's own.
    #[schema(example = "30s")]
    timeout: Option<String>,
    #[schema(value_type = Option<RequestedLimits>)]
    limits: Option<JsonObject<RequestedLimits>>,
    /// `async` responds with 202 at once; the header `Prefer: respond-async` does the same.
    mode: Option<Mode>,
    /// The URL that gets a signed POST when the run has ended; only with `async`.
    #[schema(format = "uri", example = "https://hooks.example.com/skillbox")]
    webhook: Option<String>,
}

/// Limits that can only lower the skill's own.
#[derive(Deserialize, ToSchema)]
pub(crate) struct RequestedLimits {
    #[schema(example = "128Mi")]
    memory: Option<String>,
    #[schema(example = "0.5")]
    cpu: Option<String>,
}

#[derive(Deserialize, ToSchema, Clone, Copy, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Mode {
    Sync,
    Async,
}

/// The working directory of a script.
#[derive(ToSchema)]
#[schema(rename_all = "lowercase")]
#[expect(dead_code, reason = "only its schema is used; the runner's own type is what is read")]
pub(crate) enum StartDirectory {
    Sandbox,
    Skill,
    Workspace,
}

impl ExecutionRequest {
    pub(crate) fn is_async(&self) -> bool {
        self.mode == Some(Mode::Async)
    }

    /// The runner's request. Invalid values are rejected rather than ignored.
    pub(crate) fn into_request(
        self,
        asynchronous: bool,
        private_hosts: &[String],
    ) -> Result<Request, ApiError> {
        if self.skill.is_empty() {
            return Err(ApiError::bad_request("skill must name a skill."));
        }
        let webhook = self.webhook.map(|url| WebhookUrl::parse(&url, private_hosts)).transpose();
        let webhook = webhook.map_err(|error| ApiError::bad_request(format!("{error}.")))?;
        if webhook.is_some() && !asynchronous {
            return Err(ApiError::bad_request("webhook requires `\"mode\":\"async\"`."));
        }
        let input_files = self.input_files.unwrap_or_default();
        if input_files.iter().any(|id| id.len() > MAX_FILE_ID) {
            return Err(ApiError::bad_request("input_files must hold ids of files."));
        }
        let limits =
            self.limits.map(|JsonObject(limits)| limits.parse()).transpose()?.unwrap_or_default();
        Ok(Request {
            skill: self.skill,
            version: self
                .version
                .filter(|version| !version.is_empty())
                .unwrap_or_else(|| "latest".into()),
            input: self.input,
            env: self.env.unwrap_or_default(),
            input_files,
            script: self.script,
            args: self.args.unwrap_or_default(),
            stdin: self.stdin,
            cwd: self.cwd,
            timeout_ms: self.timeout.as_deref().map(timeout_ms).transpose()?,
            limits,
            webhook: webhook.map(|target| target.url.into()),
        })
    }
}

impl RequestedLimits {
    fn parse(self) -> Result<LimitsRequest, ApiError> {
        let memory = self.memory.as_deref().map(|text| {
            positive(
                skill::parse_memory(text).ok(),
                "limits.memory must be a size such as \"128Mi\".",
            )
        });
        let cpu = self.cpu.as_deref().map(|text| {
            positive(
                skill::parse_cpu(text).ok(),
                "limits.cpu must be a number of CPUs such as \"0.5\".",
            )
        });
        Ok(LimitsRequest { memory_bytes: memory.transpose()?, cpu_millis: cpu.transpose()? })
    }
}

fn timeout_ms(text: &str) -> Result<u64, ApiError> {
    positive(skill::parse_duration(text).ok(), "timeout must be a duration such as \"30s\".")
}

fn positive<T: PartialOrd + Default>(value: Option<T>, refusal: &str) -> Result<T, ApiError> {
    value.filter(|value| *value > T::default()).ok_or_else(|| ApiError::bad_request(refusal))
}

/// Keeps an explicit `null` as a document; serde alone would read it as `None`.
fn present<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Box<RawValue>>, D::Error> {
    Box::<RawValue>::deserialize(from).map(Some)
}
