//! Lint profiles: each has its own severities, and some lints are for one profile only.

use std::fmt;
use std::str::FromStr;

use crate::{Finding, rules};

/// The set of rules that applies. A profile changes the findings, never what is stored.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Profile {
    /// What matters for running the skill here.
    #[default]
    Default,
    /// The open specification of agentskills.io, exactly.
    Strict,
    /// Also what Anthropic's products reject.
    Anthropic,
    /// Also what OpenAI's products reject.
    OpenAi,
}

impl Profile {
    pub const ALL: [Self; 4] = [Self::Default, Self::Strict, Self::Anthropic, Self::OpenAi];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::Strict => "strict",
            Self::Anthropic => "anthropic",
            Self::OpenAi => "openai",
        }
    }

    /// The lints that this profile shows, with its severities. A code without a rule keeps its
    /// severity.
    pub fn evaluate(self, lints: &[Finding]) -> Vec<Finding> {
        let evaluated = |finding: &Finding| match rules::find(finding.code) {
            None => Some(finding.clone()),
            Some(rule) => {
                rule.severity(self).map(|severity| Finding { severity, ..finding.clone() })
            }
        };
        lints.iter().filter_map(evaluated).collect()
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Profile {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let named = Self::ALL.into_iter().find(|profile| profile.as_str() == text);
        named.ok_or_else(|| {
            let names = Self::ALL.map(Self::as_str).join(", ");
            format!(
                "`{}` is not a profile; the profiles are {names}",
                crate::error::printable(text)
            )
        })
    }
}
