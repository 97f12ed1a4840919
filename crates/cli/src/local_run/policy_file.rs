//! Values of `skillbox.toml`: quantities with units, and the names of controls.

use anyhow::{Context, Result, anyhow, bail};
use sandbox::Control;
use serde::{Deserialize, Deserializer};
use skill::UnitError;

/// The name of both policy files: the user's and the one inside a skill.
pub(super) const POLICY_FILE: &str = "skillbox.toml";

/// A number with or without a unit, as a TOML string or a TOML number.
#[derive(Debug, Clone)]
pub(super) struct Quantity(String);

impl Quantity {
    /// The value, which must be more than zero. `key` is for the error message.
    pub(super) fn parse_positive<T: PartialOrd + Default>(
        &self,
        key: &str,
        parse: impl Fn(&str) -> Result<T, UnitError>,
    ) -> Result<T> {
        let value = parse(&self.0).with_context(|| format!("{POLICY_FILE}: {key}"))?;
        if value > T::default() {
            Ok(value)
        } else {
            bail!("{POLICY_FILE}: {key} must be more than zero")
        }
    }
}

impl<'de> Deserialize<'de> for Quantity {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Quantity, D::Error> {
        match toml::Value::deserialize(from)? {
            toml::Value::String(text) => Ok(Quantity(text)),
            toml::Value::Integer(number) => Ok(Quantity(number.to_string())),
            toml::Value::Float(number) => Ok(Quantity(number.to_string())),
            _ => Err(serde::de::Error::custom(
                "expected a quantity such as \"30s\", \"256Mi\" or 0.5",
            )),
        }
    }
}

/// Parses a policy file.
pub(super) fn parse_policy<T: for<'de> Deserialize<'de>>(text: &str) -> Result<T> {
    toml::from_str(text).map_err(|error| anyhow!("{}", error.to_string().trim_end()))
}

pub(super) fn deserialize_controls<'de, D: Deserializer<'de>>(
    from: D,
) -> Result<Vec<Control>, D::Error> {
    let names = Vec::<String>::deserialize(from)?;
    names.iter().map(|name| name.parse().map_err(serde::de::Error::custom)).collect()
}
