//! Reads values by key; every error names the variable.

use super::{ConfigError, RawValues, settings};

/// Reads values by key and names the variable in errors.
pub(super) struct SettingReader<'a>(pub &'a RawValues);

impl SettingReader<'_> {
    /// A setting with a default in the table.
    pub(super) fn get<T>(
        &self,
        key: &str,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Result<T, ConfigError> {
        let default = settings::find(key).map_or("", |setting| setting.default);
        let value = self.0.get(key).map_or(default, |(value, _)| value);
        parse(value).map_err(|why| invalid(key, why))
    }

    /// A setting without a default value.
    pub(super) fn optional<T>(
        &self,
        key: &str,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Result<Option<T>, ConfigError> {
        let value = self.0.get(key).map(|(value, _)| parse(value));
        value.transpose().map_err(|why| invalid(key, why))
    }

    pub(super) fn is_given(&self, key: &str) -> bool {
        self.0.contains_key(key)
    }
}

pub(super) fn invalid(key: &str, why: impl Into<String>) -> ConfigError {
    ConfigError::Invalid { name: format!("SKILLBOX_{}", key.to_uppercase()), why: why.into() }
}

pub(super) fn check_order<T: PartialOrd>(
    low: &str,
    low_value: T,
    high: &str,
    high_value: T,
) -> Result<(), ConfigError> {
    if low_value <= high_value {
        return Ok(());
    }
    Err(invalid(low, format!("is larger than SKILLBOX_{}", high.to_uppercase())))
}
