//! What this crate requires of a provider of skills.

use std::collections::BTreeMap;

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::{Map, Value};
use skill::{Manifest, SkillScript};
use tokio_util::sync::CancellationToken;

use crate::progress::RunProgress;
use crate::provider_error::ProviderError;

/// The skills that one caller may see and run. Skills of other callers do not exist here.
#[async_trait]
pub trait SkillProvider: Send + Sync {
    /// The newest version of each skill by name, after `cursor` or from the first.
    async fn list(&self, cursor: Option<&str>) -> Result<SkillPage, ProviderError>;

    /// The newest version of a skill, with the list of its files.
    async fn load(&self, name: &str) -> Result<LoadedSkill, ProviderError>;

    /// A file of the newest version of a skill, by its exact path. Paths are compared and never
    /// resolved, so no path leads out of the skill. Fails when the file has more than `max_bytes`.
    async fn read_file(
        &self,
        skill: &str,
        path: &str,
        max_bytes: usize,
    ) -> Result<FileContents, ProviderError>;

    /// Runs a skill to its end. A failed run is a [`RunResult`], not an error. Cancelling `stop`
    /// cancels the run.
    async fn run(
        &self,
        run: SkillRunRequest,
        progress: RunProgress,
        stop: CancellationToken,
    ) -> Result<RunResult, ProviderError>;

    /// An artifact of a run, by the execution and the name in its [`RunResult`]. Fails when the
    /// file has more than `max_bytes`.
    async fn read_artifact(
        &self,
        execution: &str,
        name: &str,
        max_bytes: usize,
    ) -> Result<FileContents, ProviderError>;
}

/// The bytes of a file.
#[derive(Debug)]
pub struct FileContents {
    pub bytes: Vec<u8>,
    pub content_type: Option<String>,
}

/// A page of a list of skills.
#[derive(Debug, Default)]
pub struct SkillPage {
    pub skills: Vec<SkillOverview>,
    /// The cursor of the next page.
    pub next: Option<String>,
}

/// A skill in a list.
#[derive(Debug, Clone)]
pub struct SkillOverview {
    pub name: String,
    pub version: String,
    pub description: String,
    /// The script that runs by default; without it, a run has to name one.
    pub entrypoint: Option<String>,
    pub input_schema: Option<Value>,
}

/// A skill with the list of its files.
#[derive(Debug)]
pub struct LoadedSkill {
    pub manifest: Manifest,
    pub scripts: Vec<SkillScript>,
    pub entrypoint: Option<String>,
    /// The frontmatter of `SKILL.md` as it was written.
    pub frontmatter: Map<String, Value>,
    pub files: Vec<SkillFileInfo>,
    pub digest: String,
}

/// A file of a skill without its bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkillFileInfo {
    pub path: String,
    pub size: u64,
    /// Lower-case hexadecimal.
    pub sha256: String,
}

/// A request to run a skill.
#[derive(Debug, Clone, Default)]
pub struct SkillRunRequest {
    pub skill: String,
    pub version: Option<String>,
    /// `None` is no document; `Some(Value::Null)` is the document `null`.
    pub input: Option<Value>,
    pub script: Option<String>,
    pub args: Vec<String>,
    pub stdin: Option<String>,
    pub env: BTreeMap<String, String>,
    pub timeout: Option<String>,
}

/// The result of a run. It deserializes from the API's document of an execution.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct RunResult {
    pub execution_id: String,
    /// `success`, `failed`, `timeout` or `cancelled`.
    pub status: String,
    pub outcome: Option<String>,
    pub exit_code: Option<i32>,
    pub duration_ms: i64,
    /// The error in one sentence.
    pub error: Option<String>,
    pub output: Option<Value>,
    pub logs: Option<String>,
    pub stdout: Option<String>,
    pub stderr: Option<String>,
    pub files: Vec<RunArtifact>,
    pub skill_version: Option<String>,
    pub digest: Option<String>,
}

/// A file that a run wrote.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct RunArtifact {
    pub name: String,
    pub size_bytes: u64,
    pub content_type: Option<String>,
    /// Where the file can be downloaded without this protocol.
    pub url: Option<String>,
    pub sha256: Option<String>,
}

impl LoadedSkill {
    /// The file with the frontmatter, whatever the case of its name.
    pub fn skill_md(&self) -> Option<&SkillFileInfo> {
        self.files.iter().find(|file| is_skill_md(&file.path))
    }
}

pub(crate) fn is_skill_md(path: &str) -> bool {
    path.eq_ignore_ascii_case("SKILL.md")
}
