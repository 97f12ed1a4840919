//! What lint has to say about a skill that was read.

use serde::Serialize;

use crate::SkillError;

/// One remark about a skill, with a stable code and a sentence that says how to mend it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    pub code: &'static str,
    pub severity: Severity,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    pub message: String,
}

/// How much a finding matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The skill is stored, but will not do what its author meant.
    Error,
    /// Other runtimes or models may refuse or misread the skill.
    Warning,
    /// Worth knowing.
    Info,
}

impl Finding {
    pub(crate) fn new(code: &'static str, severity: Severity, message: impl Into<String>) -> Self {
        Self { code, severity, path: None, line: None, message: message.into() }
    }

    pub(crate) fn warning(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(code, Severity::Warning, message)
    }

    pub(crate) fn at(mut self, path: &str, line: impl Into<Option<u32>>) -> Self {
        self.path = Some(path.to_owned());
        self.line = line.into();
        self
    }
}

/// A skill that could not be read at all has exactly this one finding.
impl From<&SkillError> for Finding {
    fn from(error: &SkillError) -> Self {
        let mut finding = Self::new(error.slug(), Severity::Error, error.to_string());
        match error {
            SkillError::Frontmatter { line, .. } => {
                finding.path = Some("SKILL.md".to_owned());
                finding.line = *line;
            }
            SkillError::Refused { entry, .. } => finding.path.clone_from(entry),
            _ => {}
        }
        finding
    }
}
