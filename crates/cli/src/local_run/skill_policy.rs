//! The `skillbox.toml` inside a skill: limits that the skill sets for itself.
//!
//! The author of the skill wrote it, so it can only restrict. Keys that would widen anything are
//! unknown here and belong to the user's own policy.

use anyhow::{Context, Result, bail};
use sandbox::Control;
use serde::Deserialize;
use skill::{Package, UnitError, parse_cpu, parse_duration, parse_memory};

use super::policy_file::{POLICY_FILE, Quantity, deserialize_controls, parse_policy};

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct SkillPolicy {
    timeout: Option<Quantity>,
    memory: Option<Quantity>,
    cpu: Option<Quantity>,
    network: Option<bool>,
    #[serde(deserialize_with = "deserialize_controls")]
    pub require: Vec<Control>,
}

impl SkillPolicy {
    pub(super) fn from_package(package: &Package) -> Result<SkillPolicy> {
        let Some(file) = package.files.iter().find(|file| file.path == POLICY_FILE) else {
            return Ok(SkillPolicy::default());
        };
        let text = std::str::from_utf8(&file.bytes).map_err(anyhow::Error::new);
        text.and_then(parse_policy)
            .with_context(|| format!("the skill's own {POLICY_FILE} cannot be used"))
    }

    /// Lowers the limits in the skill's manifest. A higher limit here has no effect.
    pub(super) fn tighten(&self, package: &mut Package) -> Result<()> {
        let manifest = &mut package.manifest;
        lower(&mut manifest.timeout_ms, "timeout", &self.timeout, parse_duration)?;
        lower(&mut manifest.resources.memory_bytes, "memory", &self.memory, parse_memory)?;
        lower(&mut manifest.resources.cpu_millis, "cpu", &self.cpu, parse_cpu)
    }

    /// Fails if the network is open and the skill forbids it, and also if the skill requests a
    /// network: only the user can open it.
    pub(super) fn check_network(&self, open: bool) -> Result<()> {
        match self.network {
            Some(true) => {
                bail!(
                    "the skill's own {POLICY_FILE} says network = true, but it can only forbid the \
                     network; use --allow-network"
                )
            }
            Some(false) if open => {
                bail!(
                    "the skill's own {POLICY_FILE} says network = false, so it is not run with a network"
                )
            }
            Some(false) | None => Ok(()),
        }
    }
}

fn lower<T: Ord + Default + Copy>(
    limit: &mut Option<T>,
    key: &str,
    value: &Option<Quantity>,
    parse: impl Fn(&str) -> Result<T, UnitError>,
) -> Result<()> {
    if let Some(value) = value {
        let value = value.parse_positive(key, parse)?;
        *limit = Some(limit.map_or(value, |limit| limit.min(value)));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(policy: &str) -> Package {
        super::super::user_policy::tests::package(policy)
    }

    #[test]
    fn keys_of_the_user_policy_are_rejected() {
        for widening in [
            "allow_network = [\"fetch\"]", "sandbox = \"docker\"", "max_memory = \"4Gi\"",
            "trust = true",
        ] {
            let error = SkillPolicy::from_package(&package(widening)).expect_err("not allowed");
            let key = widening.split(' ').next().expect("a key");
            assert!(format!("{error:#}").contains(key), "{error:#}");
        }
    }

    #[test]
    fn a_skill_can_only_lower_its_own_limits() {
        let mut skill =
            package("timeout = \"5s\"\nmemory = \"64Mi\"\ncpu = 0.25\nnetwork = false\n");
        SkillPolicy::from_package(&skill).expect("valid").tighten(&mut skill).expect("valid");
        let resources = &skill.manifest.resources;
        assert_eq!(
            (skill.manifest.timeout_ms, resources.memory_bytes),
            (Some(5_000), Some(64 << 20))
        );
        assert_eq!(resources.cpu_millis, Some(250));
        let mut skill = package("timeout = \"1h\"\n");
        SkillPolicy::from_package(&skill).expect("valid").tighten(&mut skill).expect("valid");
        assert_eq!(skill.manifest.timeout_ms, Some(20_000));
    }

    #[test]
    fn a_skill_can_forbid_the_network_and_not_request_it() {
        let check = |policy: &str, open| {
            SkillPolicy::from_package(&package(policy)).expect("valid").check_network(open).is_ok()
        };
        assert!(check("", true) && check("", false) && check("network = false", false));
        assert!(!check("network = false", true));
        assert!(!check("network = true", true) && !check("network = true", false));
    }
}
