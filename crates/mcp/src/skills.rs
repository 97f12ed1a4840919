//! What this crate needs of whoever has skills.

use async_trait::async_trait;
use data_encoding::HEXLOWER;
use serde::Deserialize;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use skill::{Manifest, Package, SkillFile, SkillScript};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use std::collections::BTreeMap;

/// The skills that one caller may see and run. Everything another caller has does not exist here.
#[async_trait]
pub trait SkillProvider: Send + Sync {
    /// The newest version of each skill by name, behind `cursor` or from the first.
    async fn list(&self, cursor: Option<&str>) -> Result<SkillPage, ProviderError>;

    /// The newest version of a skill, with the list of its files.
    async fn load(&self, name: &str) -> Result<LoadedSkill, ProviderError>;

    /// A file of the newest version of a skill, by its exact path: there is no other way to name
    /// one, so no path leads out. SessionError when it is longer than `most` bytes.
    async fn read_file(
        &self,
        skill: &str,
        path: &str,
        max_bytes: usize,
    ) -> Result<FileContents, ProviderError>;

    /// Runs a skill to its end. A run that fails is a [`RunResult`]; when `stop` is cancelled, the run
    /// is.
    async fn run(
        &self,
        run: SkillRunRequest,
        progress: RunProgress,
        stop: CancellationToken,
    ) -> Result<RunResult, ProviderError>;

    /// A file that a run left, by the execution and the name that [`RunResult`] had; refused when it is
    /// longer than `most` bytes.
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

/// Some skills, and where the next ones begin.
#[derive(Debug, Default)]
pub struct SkillPage {
    pub skills: Vec<SkillOverview>,
    pub next: Option<String>,
}

/// A skill in a list.
#[derive(Debug, Clone)]
pub struct SkillOverview {
    pub name: String,
    pub version: String,
    pub description: String,
    /// What runs when no script is named; without it, nothing does.
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

/// What is to run.
#[derive(Debug, Clone, Default)]
pub struct SkillRunRequest {
    pub skill: String,
    pub version: Option<String>,
    /// `None` when there is no document; a `null` is one.
    pub input: Option<Value>,
    pub script: Option<String>,
    pub args: Vec<String>,
    pub stdin: Option<String>,
    pub env: BTreeMap<String, String>,
    pub timeout: Option<String>,
}

/// How a run ended. It is read from the document that the API gives of an execution.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct RunResult {
    pub execution_id: String,
    /// `success`, `failed`, `timeout` or `cancelled`.
    pub status: String,
    pub outcome: Option<String>,
    pub exit_code: Option<i32>,
    pub duration_ms: i64,
    /// What went wrong, in a sentence.
    pub error: Option<String>,
    pub output: Option<Value>,
    pub logs: Option<String>,
    pub stdout: Option<String>,
    pub stderr: Option<String>,
    pub files: Vec<RunArtifact>,
    pub skill_version: Option<String>,
    pub digest: Option<String>,
}

/// A file that a run left.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct RunArtifact {
    pub name: String,
    pub size_bytes: u64,
    pub content_type: Option<String>,
    /// Where its bytes are to be had without this protocol.
    pub url: Option<String>,
    pub sha256: Option<String>,
}

/// Why there is no answer. Every message is for the caller.
#[derive(Debug, thiserror::Error)]
pub enum ProviderError {
    #[error("There is no skill `{0}` here. `list_skills` names those there are.")]
    SkillNotFound(String),
    #[error("The skill `{skill}` has no file `{path}`. `load_skill` lists its files.")]
    FileNotFound { skill: String, path: String },
    #[error(
        "There is no file `{name}` of a run `{execution}` here. Files of runs are kept for some time only."
    )]
    ArtifactNotFound { execution: String, name: String },
    #[error("The file is {size} bytes long; at most {max_bytes} are read this way.")]
    TooLarge { size: u64, max_bytes: usize },
    #[error("{0}")]
    Forbidden(String),
    #[error("{0}")]
    InvalidRequest(String),
    /// Ours; the details are in the log of whoever failed.
    #[error("{0}")]
    Internal(String),
}

impl ProviderError {
    /// Names in it are the caller's, of any length; back go a few.
    pub(crate) fn client_message(&self) -> String {
        const MOST: usize = 2000;
        let text = self.to_string();
        match text.char_indices().nth(MOST) {
            Some((at, _)) => format!("{}…", &text[..at]),
            None => text,
        }
    }
}

/// Where the lines of a run go while it runs. They are news, not a record: when nobody takes them
/// they are dropped.
#[derive(Clone, Debug, Default)]
pub struct RunProgress(Option<mpsc::Sender<String>>);

impl RunProgress {
    /// Some room for news that nobody has taken yet.
    const CHANNEL_CAPACITY: usize = 64;

    /// A sender, and where its news arrive.
    pub(crate) fn channel() -> (RunProgress, mpsc::Receiver<String>) {
        let (sender, receiver) = mpsc::channel(Self::CHANNEL_CAPACITY);
        (RunProgress(Some(sender)), receiver)
    }

    /// Whether anybody listens.
    pub fn is_requested(&self) -> bool {
        self.0.is_some()
    }

    pub fn report(&self, text: &str) {
        let text = text.trim_end();
        if let Some(sender) = self.0.as_ref().filter(|_| !text.is_empty()) {
            let _ = sender.try_send(text.to_owned());
        }
    }
}

impl LoadedSkill {
    /// The file with the frontmatter, however its name is spelled.
    pub fn skill_md(&self) -> Option<&SkillFileInfo> {
        self.files.iter().find(|file| is_skill_md(&file.path))
    }
}

impl From<Package> for LoadedSkill {
    fn from(package: Package) -> LoadedSkill {
        let entry = |file: &SkillFile| SkillFileInfo {
            path: file.path.clone(),
            size: file.bytes.len() as u64,
            sha256: HEXLOWER.encode(&Sha256::digest(&file.bytes)),
        };
        let skill_md = package.files.iter().find(|file| is_skill_md(&file.path));
        LoadedSkill {
            frontmatter: skill_md.map(|file| parse_frontmatter(&file.bytes)).unwrap_or_default(),
            files: package.files.iter().map(entry).collect(),
            manifest: package.manifest,
            scripts: package.scripts,
            entrypoint: package.entrypoint.map(|script| script.path),
            digest: package.digest,
        }
    }
}

/// The frontmatter of a `SKILL.md` as it was written; nothing when it cannot be read.
pub fn parse_frontmatter(skill_md: &[u8]) -> Map<String, Value> {
    match skill::read_frontmatter(skill_md) {
        Ok(Value::Object(fields)) => fields,
        _ => Map::new(),
    }
}

/// A file of a package that is at hand.
pub fn read_package_file(
    package: &Package,
    path: &str,
    max_bytes: usize,
) -> Result<FileContents, ProviderError> {
    let no_file = || ProviderError::FileNotFound {
        skill: package.manifest.name.clone(),
        path: path.to_owned(),
    };
    let file = package.files.iter().find(|file| file.path == path).ok_or_else(no_file)?;
    match file.bytes.len() > max_bytes {
        true => Err(ProviderError::TooLarge { size: file.bytes.len() as u64, max_bytes }),
        false => Ok(FileContents { bytes: file.bytes.to_vec(), content_type: None }),
    }
}

fn is_skill_md(path: &str) -> bool {
    path.eq_ignore_ascii_case("SKILL.md")
}
