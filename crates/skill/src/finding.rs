//! Findings: the results of the linter, the scanner and the manifest parser.

use std::fmt;

use serde::Serialize;

use crate::rules;

/// One finding about a skill, with a stable code and a message that says how to fix it.
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
    /// The skill is rejected, or does not do what its author intended.
    Error,
    /// Other runtimes or models may reject or misread the skill.
    Warning,
    /// For information.
    Info,
}

impl Severity {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warning",
            Self::Info => "info",
        }
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Finding {
    pub(crate) fn new(code: &'static str, severity: Severity, message: impl Into<String>) -> Self {
        Self { code, severity, path: None, line: None, message: message.into() }
    }

    /// A finding with the severity of its rule in the default profile. If that profile does not
    /// show it, it is kept as information for the profiles that do.
    pub(crate) fn from_rule(code: &'static str, message: impl Into<String>) -> Self {
        let severity = rules::severity(code, crate::Profile::Default);
        Self::new(code, severity.unwrap_or(Severity::Info), message)
    }

    pub(crate) fn at(mut self, path: &str, line: impl Into<Option<u32>>) -> Self {
        self.path = Some(path.to_owned());
        self.line = line.into();
        self
    }
}

/// `SKILL.md line 3: the name is missing`.
impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.path, self.line) {
            (Some(path), Some(line)) => write!(f, "{path} line {line}: {}", self.message),
            (Some(path), None) => write!(f, "{path}: {}", self.message),
            (None, _) => f.write_str(&self.message),
        }
    }
}

/// Findings collected while a skill is read: errors, for which it is rejected, and lints.
#[derive(Debug, Default)]
pub(crate) struct Diagnostics {
    pub errors: Vec<Finding>,
    pub lints: Vec<Finding>,
}
