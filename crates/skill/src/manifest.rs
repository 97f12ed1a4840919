//! What a skill says about itself: the fields of its frontmatter, judged.
//!
//! A field that is wrong is an error; one that is merely unusual becomes a finding. Nothing here looks at the skill's other
//! files. The same settings as flat `metadata` keys (`skillbox.timeout`) and in sidecar files belong into
//! [`Manifest::read`], before the fields are taken.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

mod fields;

use crate::finding::{Finding, Severity};
use crate::frontmatter::Frontmatter;
use crate::script::Lang;
use crate::{SkillError, parse_cpu, parse_duration, parse_memory};
use fields::{Fields, Placed};

/// The frontmatter and the instructions of a skill. It is stored as JSON.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    pub name: String,
    pub description: String,
    pub version: String,
    /// As declared; [`crate::Package::lang`] also knows what the entrypoint is.
    pub lang: Option<Lang>,
    pub image: Option<String>,
    pub entrypoint: Option<String>,
    pub timeout_ms: Option<u64>,
    #[serde(default)]
    pub resources: Resources,
    pub mode: Mode,
    pub license: Option<String>,
    pub compatibility: Option<String>,
    #[serde(default)]
    pub metadata: Map<String, Value>,
    /// Advice for models; it never grants anything.
    pub allowed_tools: Option<String>,
    pub input_schema: Option<Value>,
    pub output_schema: Option<Value>,
    /// The capability manifest; `{}` asks for nothing.
    #[serde(default = "nothing")]
    pub permissions: Value,
    /// Keys we do not know, kept as they were written.
    #[serde(default)]
    pub unknown: Map<String, Value>,
    /// The Markdown below the frontmatter.
    pub instructions: String,
}

/// What a run of the skill asks for; the server's and the tenant's limits still hold.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resources {
    pub memory_bytes: Option<u64>,
    pub cpu_millis: Option<u32>,
}

/// Whether a skill is there to be run or to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    Executable,
    Cognitive,
}

const DEFAULT_VERSION: &str = "1.0.0";
const PERMISSIONS: [&str; 4] = ["network", "filesystem", "env_vars", "syscalls"];

impl Manifest {
    /// Judges the frontmatter. `has_scripts` decides the mode where the author did not.
    pub(crate) fn read(
        frontmatter: Frontmatter<'_>,
        has_scripts: bool,
        findings: &mut Vec<Finding>,
    ) -> Result<Self, SkillError> {
        let mut fields = Fields::new(frontmatter.root)?;
        let default_mode = if has_scripts { Mode::Executable } else { Mode::Cognitive };
        let manifest = Self {
            name: fields.required("name", read_name)?,
            description: fields.required("description", |text| Ok(text.trim().to_owned()))?,
            version: fields.optional("version", read_version)?.unwrap_or_else(|| DEFAULT_VERSION.to_owned()),
            lang: fields.optional("lang", str::parse)?,
            image: fields.text("image")?,
            entrypoint: fields.text("entrypoint")?,
            timeout_ms: fields.optional("timeout", |text| positive(parse_duration(text)))?,
            resources: read_resources(&mut fields, findings)?,
            mode: fields.optional("mode", str::parse)?.unwrap_or(default_mode),
            license: fields.text("license")?,
            compatibility: fields.text("compatibility")?,
            metadata: fields.map("metadata")?,
            allowed_tools: read_allowed_tools(&mut fields, findings)?,
            input_schema: fields.schema("input_schema")?,
            output_schema: fields.schema("output_schema")?,
            permissions: read_permissions(&mut fields, findings)?,
            unknown: fields.rest(findings),
            instructions: frontmatter.body.to_owned(),
        };
        Ok(manifest)
    }
}

impl Mode {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Executable => "executable",
            Self::Cognitive => "cognitive",
        }
    }
}

impl std::fmt::Display for Mode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

impl std::str::FromStr for Mode {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "executable" => Ok(Self::Executable),
            "cognitive" => Ok(Self::Cognitive),
            other => Err(format!("`{}` is not a mode; write executable or cognitive", crate::error::shown(other))),
        }
    }
}

/// `^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`
fn read_name(text: &str) -> Result<String, String> {
    let inside = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    let first = text.bytes().next().is_some_and(|byte| byte.is_ascii_alphanumeric());
    if first && text.len() <= 128 && text.bytes().all(inside) {
        return Ok(text.to_owned());
    }
    Err(format!(
        "`{}` cannot be a name; use at most 128 letters, digits, `.`, `_` and `-`, starting with a letter or digit",
        crate::error::shown(text)
    ))
}

/// `X.Y.Z[-pre]`, kept exactly as written.
fn read_version(text: &str) -> Result<String, String> {
    let parsed = semver::Version::parse(text).ok();
    if text.len() <= 64 && parsed.is_some_and(|version| version.build.is_empty()) {
        return Ok(text.to_owned());
    }
    Err(format!("`{}` is not a version; write three numbers such as 1.2.0, or 1.2.0-beta.1", crate::error::shown(text)))
}

fn positive<T: PartialOrd + Default>(value: Result<T, crate::UnitError>) -> Result<T, String> {
    let value = value.map_err(|error| error.to_string())?;
    if value > T::default() { Ok(value) } else { Err("it must be more than zero".to_owned()) }
}

fn read_resources(fields: &mut Fields, findings: &mut Vec<Finding>) -> Result<Resources, SkillError> {
    let mut inner = fields.nested("resources")?;
    let resources = Resources {
        memory_bytes: inner.optional("memory", |text| positive(parse_memory(text)))?,
        cpu_millis: inner.optional("cpu", |text| positive(parse_cpu(text)))?,
    };
    inner.rest(findings);
    Ok(resources)
}

fn read_allowed_tools(fields: &mut Fields, findings: &mut Vec<Finding>) -> Result<Option<String>, SkillError> {
    let Some(Placed { line, value: tools }) = fields.texts("allowed-tools")? else {
        return Ok(None);
    };
    if tools.is_list {
        let message =
            "write `allowed-tools` as one string with spaces between the tools; not every runtime reads a list";
        findings.push(Finding::new("allowed_tools_list", Severity::Info, message).at("SKILL.md", line));
    }
    Ok(Some(tools.items.join(" ")))
}

fn read_permissions(fields: &mut Fields, findings: &mut Vec<Finding>) -> Result<Value, SkillError> {
    let Some(Placed { line, value: permissions }) = fields.json_map("permissions")? else {
        return Ok(nothing());
    };
    for key in permissions.keys().filter(|key| !PERMISSIONS.contains(&key.as_str())) {
        let message = format!(
            "`permissions.{}` means nothing here; the permissions are {}",
            crate::error::shown(key),
            PERMISSIONS.join(", ")
        );
        findings.push(Finding::warning("unknown_permission", message).at("SKILL.md", line));
    }
    Ok(Value::Object(permissions))
}

fn nothing() -> Value {
    Value::Object(Map::new())
}
