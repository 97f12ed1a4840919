//! For whom a skill is checked: the same remarks weigh differently, and some are made for one
//! reader only.

use std::fmt;
use std::str::FromStr;

use crate::{Finding, rules};

/// Whose rules count. A profile changes what is said about a skill and never what is stored.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Profile {
    /// What matters for running it here.
    #[default]
    Default,
    /// The open specification of agentskills.io, exactly.
    Strict,
    /// What Anthropic's products refuse besides.
    Anthropic,
    /// What OpenAI's products refuse besides.
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

    /// The findings this profile makes of all remarks. A code without a rule keeps the severity it
    /// came with.
    pub fn evaluate(self, remarks: &[Finding]) -> Vec<Finding> {
        let judged = |finding: &Finding| match rules::find(finding.code) {
            None => Some(finding.clone()),
            Some(rule) => {
                rule.severity(self).map(|severity| Finding { severity, ..finding.clone() })
            }
        };
        remarks.iter().filter_map(judged).collect()
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
