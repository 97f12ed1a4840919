//! A skill in responses.

use catalogue::SignatureStatus;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use skill::{Finding, Manifest};
use store::{ListedSkill, SkillRow};
use utoipa::ToSchema;

use crate::error::ApiError;
use crate::http::timestamp::rfc3339;

/// A row of a list of skills.
#[derive(Serialize, ToSchema)]
pub(crate) struct SkillSummary {
    name: String,
    version: String,
    /// In a list, at most its first 4096 characters.
    description: String,
    lang: Option<String>,
    /// `executable` or `cognitive`.
    mode: String,
    /// `available`, `review` while it is held for review, or `rejected`. Only available skills run.
    #[schema(example = "available")]
    status: String,
    #[schema(example = "sha256:…")]
    digest: String,
    finding_counts: FindingCounts,
    size_bytes: i64,
    #[schema(format = "date-time")]
    created_at: String,
    #[schema(format = "date-time")]
    updated_at: String,
}

/// How many findings of each severity the upload had.
#[derive(Serialize, ToSchema, Default)]
struct FindingCounts {
    error: u32,
    warning: u32,
    info: u32,
}

/// A published skill.
#[derive(Serialize, ToSchema)]
pub(super) struct Published {
    #[serde(flatten)]
    skill: SkillSummary,
    entrypoint: Option<String>,
    scripts: Vec<Script>,
    /// Findings of the linter and the scanner that did not prevent the upload.
    findings: Vec<SkillFinding>,
}

/// One version of a skill in full.
#[derive(Serialize, ToSchema)]
pub(super) struct SkillDetail {
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
    #[serde(skip_serializing_if = "Option::is_none")]
    signature: Option<SkillSignature>,
    /// `available`, `review` or `rejected`.
    status: String,
    /// Findings of the linter and the scanner at upload.
    findings: Vec<SkillFinding>,
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

/// The signature of a skill, with its current status.
#[derive(Serialize, ToSchema)]
struct SkillSignature {
    /// The key that the signature names; verified only when `trusted` is true.
    #[schema(example = "406E4FAC70A6468A")]
    key_id: String,
    /// The signature matches name, version and content, its key is trusted, and nothing was
    /// revoked.
    trusted: bool,
    /// Why it is not trusted.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = "key_revoked")]
    problem: Option<&'static str>,
    /// The time of signing, according to the signer.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(format = "date-time")]
    signed_at: Option<String>,
    /// The text of `SKILL.md.minisig`.
    text: String,
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

/// A script of the skill.
#[derive(Serialize, Deserialize, ToSchema)]
struct Script {
    path: String,
    lang: String,
    /// The description in its argument parser, its docstring or its first comment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    description: Option<String>,
}

/// A finding of the linter or the scanner.
#[derive(Serialize, Deserialize, ToSchema)]
pub(super) struct SkillFinding {
    code: String,
    /// `error`, `warning` or `info`.
    severity: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<u32>,
    message: String,
}

impl From<ListedSkill> for SkillSummary {
    fn from(listed: ListedSkill) -> SkillSummary {
        let ListedSkill { head, findings } = listed;
        SkillSummary {
            name: head.name,
            version: head.version,
            description: head.description,
            lang: head.lang,
            mode: head.mode,
            status: head.status.to_string(),
            digest: head.digest,
            finding_counts: FindingCounts {
                error: findings.error,
                warning: findings.warning,
                info: findings.info,
            },
            size_bytes: head.size_bytes,
            created_at: rfc3339(head.created_at),
            updated_at: rfc3339(head.updated_at),
        }
    }
}

impl From<SkillRow> for SkillSummary {
    fn from(row: SkillRow) -> SkillSummary {
        SkillSummary {
            name: row.name,
            version: row.version,
            description: row.description,
            lang: row.lang,
            mode: row.mode,
            status: row.status.to_string(),
            digest: row.digest,
            finding_counts: FindingCounts::of(&row.findings),
            size_bytes: row.size_bytes,
            created_at: rfc3339(row.created_at),
            updated_at: rfc3339(row.updated_at),
        }
    }
}

impl Published {
    pub(super) fn new(mut row: SkillRow, findings: Vec<Finding>) -> Result<Published, ApiError> {
        let scripts = scripts(row.scripts.take())?;
        let entrypoint = row.entrypoint.take();
        let findings = findings.into_iter().map(SkillFinding::from).collect();
        Ok(Published { skill: row.into(), entrypoint, scripts, findings })
    }
}

impl SkillDetail {
    pub(super) fn new(
        row: SkillRow,
        signature: Option<SignatureStatus>,
    ) -> Result<SkillDetail, ApiError> {
        let manifest: Manifest =
            serde_json::from_value(row.manifest).map_err(ApiError::internal)?;
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
            permissions: serde_json::to_value(manifest.permissions).map_err(ApiError::internal)?,
            digest: row.digest,
            signature: signature.map(SkillSignature::from),
            status: row.status.to_string(),
            findings: findings(row.findings)?,
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

impl From<SignatureStatus> for SkillSignature {
    fn from(status: SignatureStatus) -> SkillSignature {
        let signed_at = status.result.as_ref().ok().and_then(|verified| verified.signed_at);
        let micros =
            signed_at.and_then(|seconds| i64::try_from(seconds).ok()?.checked_mul(1_000_000));
        SkillSignature {
            key_id: status.key_id,
            trusted: status.result.is_ok(),
            problem: status.result.err().map(|problem| problem.code()),
            signed_at: micros.map(rfc3339),
            text: status.text,
        }
    }
}

impl SkillFinding {
    pub(super) fn is_error(&self) -> bool {
        self.severity == "error"
    }
}

impl From<Finding> for SkillFinding {
    fn from(finding: Finding) -> SkillFinding {
        SkillFinding {
            code: finding.code.into(),
            severity: finding.severity.as_str().into(),
            path: finding.path,
            line: finding.line,
            message: finding.message,
        }
    }
}

impl FindingCounts {
    fn of(findings: &Value) -> FindingCounts {
        let count = |severity: &str| {
            let findings = findings.as_array().into_iter().flatten();
            u32::try_from(findings.filter(|finding| finding["severity"] == severity).count())
                .unwrap_or(u32::MAX)
        };
        FindingCounts { error: count("error"), warning: count("warning"), info: count("info") }
    }
}

fn findings(stored: Value) -> Result<Vec<SkillFinding>, ApiError> {
    serde_json::from_value(stored).map_err(ApiError::internal)
}

fn scripts(stored: Value) -> Result<Vec<Script>, ApiError> {
    serde_json::from_value(stored).map_err(ApiError::internal)
}
