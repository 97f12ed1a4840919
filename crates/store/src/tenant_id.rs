//! The id of a tenant.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::UnknownVariant;

/// The id of a tenant: a letter or digit, then up to 63 letters, digits, `.`, `_` and `-`.
///
/// A value of this type is validated, so it is safe in a path, a blob key or a log line.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct TenantId(String);

impl TenantId {
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<&str> for TenantId {
    type Error = UnknownVariant;

    fn try_from(name: &str) -> Result<TenantId, UnknownVariant> {
        let tail = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        let good = name.len() <= 64
            && name.starts_with(|c: char| c.is_ascii_alphanumeric())
            && name.chars().all(tail);
        if good {
            Ok(TenantId(name.to_owned()))
        } else {
            Err(UnknownVariant { expected: "tenant name", value: name.to_owned() })
        }
    }
}

impl TryFrom<String> for TenantId {
    type Error = UnknownVariant;

    fn try_from(name: String) -> Result<TenantId, UnknownVariant> {
        TenantId::try_from(name.as_str())
    }
}

impl FromStr for TenantId {
    type Err = UnknownVariant;

    fn from_str(name: &str) -> Result<TenantId, UnknownVariant> {
        TenantId::try_from(name)
    }
}

impl From<TenantId> for String {
    fn from(tenant: TenantId) -> String {
        tenant.0
    }
}

impl fmt::Display for TenantId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::TenantId;

    #[test]
    fn accepts_only_ids_that_are_safe_in_paths_and_logs() {
        let longest = "a".repeat(64);
        for good in ["a", "Acme", "0", "a.b_c-d", longest.as_str()] {
            assert_eq!(TenantId::try_from(good).map(String::from).as_deref(), Ok(good));
        }
        let too_long = "a".repeat(65);
        for bad in ["", ".", "..", "-a", "_a", "a/b", "a b", "a\0", "ä", too_long.as_str()] {
            assert!(TenantId::try_from(bad).is_err(), "{bad:?}");
            assert!(serde_json::from_value::<TenantId>(bad.into()).is_err(), "{bad:?}");
        }
    }
}
