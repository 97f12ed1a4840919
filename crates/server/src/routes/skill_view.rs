//! A skill on the wire.

use serde::Serialize;
use serde_json::Value;
use skill::{Finding, Manifest, Severity};
use store::SkillRow;
use utoipa::ToSchema;

use crate::error::ApiError;
use crate::time::rfc3339;

/// A row of a list of skills.
#[derive(Serialize, ToSchema)]
pub struct SkillSummary {
    name: String,
    version: String,
    description: String,
    lang: Option<String>,
    /// `executable` or `cognitive`.
    mode: String,
    #[schema(example = "available")]
    status: String,
    #[schema(example = "sha256:…")]
    digest: String,
    size_bytes: i64,
    #[schema(format = "date-time")]
    created_at: String,
    #[schema(format = "date-time")]
    updated_at: String,
}

/// The answer to an upload.
#[derive(Serialize, ToSchema)]
pub struct Published {
    #[serde(flatten)]
    skill: SkillSummary,
    entrypoint: Option<String>,
    scripts: Vec<Script>,
    /// What the checks noticed. None of it stopped the upload.
    findings: Vec<SkillFinding>,
}

/// One version of a skill in full.
#[derive(Serialize, ToSchema)]
pub struct SkillDetail {
    name: String,
    version: String,
    description: String,
    lang: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    image: Option<String>,
    /// The Markdown body of `SKILL.md`.
    instructions: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = "1m0s")]
    timeout: Option<String>,
    resources: Resources,
    mode: String,
    scripts: Vec<Script>,
    #[serde(skip_serializing_if = "Option::is_none")]
    input_schema: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_schema: Option<Value>,
    permissions: Value,
    digest: String,
    status: String,
    entrypoint: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    license: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    compatibility: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    allowed_tools: Option<String>,
    metadata: Value,
    size_bytes: i64,
    #[schema(format = "date-time")]
    created_at: String,
    #[schema(format = "date-time")]
    updated_at: String,
}

#[derive(Serialize, ToSchema)]
struct Resources {
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = "0.5")]
    cpu: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = "256Mi")]
    memory: Option<String>,
}

/// A file of the skill that can run.
#[derive(Serialize, serde::Deserialize, ToSchema)]
struct Script {
    path: String,
    lang: String,
}

/// Something a check noticed.
#[derive(Serialize, ToSchema)]
pub struct SkillFinding {
    code: String,
    /// `error`, `warning` or `info`.
    severity: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<u32>,
    message: String,
}

impl From<SkillRow> for SkillSummary {
    fn from(row: SkillRow) -> SkillSummary {
        SkillSummary {
            name: row.name,
            version: row.version,
            description: row.description,
            lang: row.lang,
            mode: row.mode,
            status: row.status,
            digest: row.digest,
            size_bytes: row.size_bytes,
            created_at: rfc3339(row.created_at),
            updated_at: rfc3339(row.updated_at),
        }
    }
}

impl Published {
    pub fn new(mut row: SkillRow, findings: Vec<Finding>) -> Result<Published, ApiError> {
        let scripts = scripts(row.scripts.take())?;
        let entrypoint = row.entrypoint.take();
        let findings = findings.into_iter().map(SkillFinding::from).collect();
        Ok(Published { skill: row.into(), entrypoint, scripts, findings })
    }
}

impl SkillDetail {
    pub fn new(row: SkillRow) -> Result<SkillDetail, ApiError> {
        let manifest: Manifest = serde_json::from_value(row.manifest).map_err(ApiError::internal)?;
        Ok(SkillDetail {
            name: row.name,
            version: row.version,
            description: row.description,
            lang: row.lang,
            image: manifest.image,
            instructions: manifest.instructions,
            timeout: manifest.timeout_ms.map(skill::format_duration),
            resources: Resources {
                cpu: manifest.resources.cpu_millis.map(skill::format_cpu),
                memory: manifest.resources.memory_bytes.map(skill::format_memory),
            },
            mode: row.mode,
            scripts: scripts(row.scripts)?,
            input_schema: manifest.input_schema,
            output_schema: manifest.output_schema,
            permissions: manifest.permissions,
            digest: row.digest,
            status: row.status,
            entrypoint: row.entrypoint,
            license: manifest.license,
            compatibility: manifest.compatibility,
            allowed_tools: manifest.allowed_tools,
            metadata: Value::Object(manifest.metadata),
            size_bytes: row.size_bytes,
            created_at: rfc3339(row.created_at),
            updated_at: rfc3339(row.updated_at),
        })
    }
}

impl SkillFinding {
    /// A refusal told as a finding, for callers who only want to know.
    pub fn refusal(error: &ApiError) -> SkillFinding {
        SkillFinding {
            code: error.slug().as_str().into(),
            severity: "error",
            path: None,
            line: None,
            message: error.message().into(),
        }
    }

    pub fn is_error(&self) -> bool {
        self.severity == "error"
    }
}

impl From<Finding> for SkillFinding {
    fn from(finding: Finding) -> SkillFinding {
        SkillFinding {
            code: finding.code.into(),
            severity: match finding.severity {
                Severity::Error => "error",
                Severity::Warning => "warning",
                Severity::Info => "info",
            },
            path: finding.path,
            line: finding.line,
            message: finding.message,
        }
    }
}

fn scripts(stored: Value) -> Result<Vec<Script>, ApiError> {
    serde_json::from_value(stored).map_err(ApiError::internal)
}
