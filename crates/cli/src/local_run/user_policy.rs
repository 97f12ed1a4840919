//! The user's `skillbox.toml`: what the user of this machine allows.
//!
//! It may raise limits and open the network. The file of the same name inside a skill has other
//! keys and can only restrict (`skill_policy`).

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use runner::RunPolicy;
use sandbox::Control;
use serde::Deserialize;
use server::config::default_run_policy;
use skill::{OpenDirectory, Package, UnitError, parse_cpu, parse_duration, parse_memory};

use super::LocalSandbox;
use super::policy_file::{Quantity, deserialize_controls, parse_policy};

/// The user's own policy.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct UserPolicy {
    pub sandbox: Option<LocalSandbox>,
    /// Skills that may use the network. Not by name, because any skill can use any name.
    pub allow_network: Vec<NetworkGrant>,
    /// Controls that must be enforced; a run fails without them.
    #[serde(deserialize_with = "deserialize_controls")]
    pub require: Vec<Control>,
    default_timeout: Option<Quantity>,
    max_timeout: Option<Quantity>,
    default_memory: Option<Quantity>,
    max_memory: Option<Quantity>,
    default_cpu: Option<Quantity>,
    max_cpu: Option<Quantity>,
}

/// Identifies a skill that may use the network, in a way that another skill cannot imitate.
#[derive(Debug, PartialEq, Deserialize)]
#[serde(try_from = "String")]
pub(super) enum NetworkGrant {
    /// Exactly this content, in any directory.
    Digest(String),
    /// Any content of exactly this directory.
    Directory(PathBuf),
}

impl TryFrom<String> for NetworkGrant {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let is_hex = |hex: &str| {
            hex.len() == 64 && hex.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
        };
        if text.strip_prefix("sha256:").is_some_and(is_hex) {
            return Ok(Self::Digest(text));
        }
        if Path::new(&text).is_absolute() {
            return Ok(Self::Directory(text.into()));
        }
        Err(format!(
            "allow_network contains {text:?}, which is neither a digest (sha256: and 64 hexadecimal \
             digits) nor an absolute path. Skills are not matched by name, because any skill can use \
             any name: give the skill's directory, or its digest as `skillbox list DIR --output json` \
             prints it"
        ))
    }
}

impl NetworkGrant {
    /// `directory` is the open directory that the package was read from. Comparing the open
    /// descriptor and not the path means that the directory cannot be exchanged after the check.
    fn matches(&self, package: &Package, directory: Option<&OpenDirectory>) -> bool {
        match (self, directory) {
            (Self::Digest(digest), _) => *digest == package.digest,
            (Self::Directory(path), Some(directory)) => directory.is_same_as(path),
            (Self::Directory(_), None) => false,
        }
    }
}

impl UserPolicy {
    /// Reads the policy; a missing file is an empty policy.
    pub(super) fn read(path: Option<&Path>) -> Result<UserPolicy> {
        let Some(path) = path else { return Ok(UserPolicy::default()) };
        let text = match std::fs::read_to_string(path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Ok(UserPolicy::default());
            }
            read => read.with_context(|| format!("cannot read the policy {}", path.display()))?,
        };
        parse_policy(&text).with_context(|| format!("the policy {} cannot be used", path.display()))
    }

    /// Whether this package may use the network.
    pub(super) fn allows_network(
        &self,
        package: &Package,
        directory: Option<&OpenDirectory>,
    ) -> bool {
        self.allow_network.iter().any(|grant| grant.matches(package, directory))
    }

    /// The limits of every run; defaults where the policy sets none.
    pub(super) fn limits(&self) -> Result<RunPolicy> {
        let mut policy = default_run_policy();
        let millis = |text: &str| parse_duration(text).map(Duration::from_millis);
        set(&mut policy.max_timeout, "max_timeout", &self.max_timeout, millis)?;
        set(&mut policy.default_timeout, "default_timeout", &self.default_timeout, millis)?;
        set(&mut policy.max_memory_bytes, "max_memory", &self.max_memory, parse_memory)?;
        set(
            &mut policy.default_memory_bytes, "default_memory", &self.default_memory, parse_memory,
        )?;
        set(&mut policy.max_cpu_millis, "max_cpu", &self.max_cpu, parse_cpu)?;
        set(&mut policy.default_cpu_millis, "default_cpu", &self.default_cpu, parse_cpu)?;
        Ok(policy)
    }
}

fn set<T: PartialOrd + Default>(
    limit: &mut T,
    key: &str,
    value: &Option<Quantity>,
    parse: impl Fn(&str) -> Result<T, UnitError>,
) -> Result<()> {
    if let Some(value) = value {
        *limit = value.parse_positive(key, parse)?;
    }
    Ok(())
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::policy_file::POLICY_FILE;
    use super::*;

    /// A skill named `fetch` with this policy file.
    pub(crate) fn package(policy: &str) -> Package {
        let manifest = "---\nname: fetch\ndescription: d\ntimeout: 20s\n---\n";
        let parts = [("SKILL.md", manifest), ("main.sh", "true\n"), (POLICY_FILE, policy)];
        let parts = parts.map(|(name, text)| (name.to_owned(), text.as_bytes().to_vec())).to_vec();
        skill::read_parts(parts, &skill::PackageLimits::default()).expect("a skill")
    }

    #[test]
    fn an_unknown_key_is_named_in_the_error() {
        let error = parse_policy::<UserPolicy>("allow_netwrok = []").expect_err("a typo");
        assert!(error.to_string().contains("allow_netwrok"), "{error}");
    }

    #[test]
    fn the_network_is_opened_by_digest_or_directory() {
        let home = tempfile::tempdir().expect("a directory");
        let tree = |name: &str| {
            std::fs::create_dir_all(home.path().join(name)).expect("a directory");
            OpenDirectory::open(&home.path().join(name)).expect("a directory")
        };
        let (own, other, skill) = (tree("own"), tree("other"), package(""));
        let allowing = |entry: &str| {
            parse_policy::<UserPolicy>(&format!("allow_network = [{entry:?}]")).expect("valid")
        };

        let exact = allowing(&skill.digest);
        assert!(exact.allows_network(&skill, Some(&other)) && exact.allows_network(&skill, None));
        // The same name with other content; matched by name, it would be allowed.
        let impostor = package("network = false");
        assert_eq!(impostor.manifest.name, skill.manifest.name);
        assert!(!exact.allows_network(&impostor, Some(&other)));

        let by_path = allowing(&home.path().join("own").display().to_string());
        assert!(
            by_path.allows_network(&skill, Some(&own))
                && by_path.allows_network(&impostor, Some(&own))
        );
        assert!(
            !by_path.allows_network(&skill, Some(&other)) && !by_path.allows_network(&skill, None)
        );
        // A directory that was moved away no longer matches, even though its content is the same.
        std::fs::rename(home.path().join("own"), home.path().join("moved")).expect("it is there");
        assert!(!by_path.allows_network(&skill, Some(&own)));
    }

    #[test]
    fn a_name_in_allow_network_is_rejected_with_advice() {
        for old in ["fetch", "./fetch", "~/fetch", "sha256:00", ""] {
            let error = parse_policy::<UserPolicy>(&format!("allow_network = [{old:?}]"))
                .expect_err("no name")
                .to_string();
            assert!(
                error.contains(&format!("{old:?}")) && error.contains("directory, or its digest"),
                "{error}"
            );
        }
    }

    #[test]
    fn the_user_sets_limits() {
        let text = "max_timeout = \"1h\"\ndefault_cpu = 2\nrequire = [\"seccomp\"]\n";
        let policy: UserPolicy = parse_policy(text).expect("valid");
        let limits = policy.limits().expect("valid");
        assert_eq!(
            (limits.max_timeout, limits.default_cpu_millis),
            (Duration::from_secs(3600), 2000)
        );
        assert_eq!(limits.default_timeout, default_run_policy().default_timeout);
        for bad in ["max_memory = \"much\"", "max_timeout = \"0s\""] {
            let error = parse_policy::<UserPolicy>(bad).expect("TOML").limits().expect_err("bad");
            assert!(
                format!("{error:#}").contains(bad.split(' ').next().expect("a key")),
                "{error:#}"
            );
        }
    }
}
