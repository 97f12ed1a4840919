//! `skillbox.toml`: what the user allows, and what a skill forbids itself.
//!
//! The two are different files with different keys. The user's may raise limits and open the
//! network. A skill's lies beside its `SKILL.md`, was written by whoever wrote the skill, and can
//! only take away.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use runner::Policy;
use sandbox::Control;
use serde::{Deserialize, Deserializer};
use skill::{Package, Tree, UnitError, parse_cpu, parse_duration, parse_memory};

use super::Kind;

const NAME: &str = "skillbox.toml";

/// The user's own policy.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct UserPolicy {
    pub sandbox: Option<Kind>,
    /// Skills that may use the network. Not by name, which any skill can claim.
    pub allow_network: Vec<Allowed>,
    /// Controls without which nothing runs.
    #[serde(deserialize_with = "controls")]
    pub require: Vec<Control>,
    default_timeout: Option<Quantity>,
    max_timeout: Option<Quantity>,
    default_memory: Option<Quantity>,
    max_memory: Option<Quantity>,
    default_cpu: Option<Quantity>,
    max_cpu: Option<Quantity>,
}

/// One skill, named by what nobody else can claim.
#[derive(Debug, PartialEq, Deserialize)]
#[serde(try_from = "String")]
pub enum Allowed {
    /// Exactly this content, wherever it lies.
    Digest(String),
    /// Whatever lies in exactly this directory.
    Directory(PathBuf),
}

impl TryFrom<String> for Allowed {
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
            "allow_network holds {text:?}, which is neither a digest (sha256: and 64 hexadecimal digits) nor an absolute \
             path. Skills are no longer matched by name, because any skill can claim one: write the skill's directory, or \
             its digest as `skillbox list DIR --output json` shows it"
        ))
    }
}

impl Allowed {
    /// `directory` is the open one that the package was read from, so that it cannot be exchanged
    /// after the comparison.
    fn matches(&self, package: &Package, directory: Option<&Tree>) -> bool {
        match (self, directory) {
            (Self::Digest(digest), _) => *digest == package.digest,
            (Self::Directory(path), Some(directory)) => directory.is_same_as(path),
            (Self::Directory(_), None) => false,
        }
    }
}

/// What a skill says of itself.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SkillPolicy {
    timeout: Option<Quantity>,
    memory: Option<Quantity>,
    cpu: Option<Quantity>,
    network: Option<bool>,
    #[serde(deserialize_with = "controls")]
    pub require: Vec<Control>,
}

impl UserPolicy {
    /// A file that is not there says nothing.
    pub fn read(path: Option<&Path>) -> Result<UserPolicy> {
        let Some(path) = path else { return Ok(UserPolicy::default()) };
        let text = match std::fs::read_to_string(path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Ok(UserPolicy::default());
            }
            read => read.with_context(|| format!("cannot read the policy {}", path.display()))?,
        };
        parse(&text).with_context(|| format!("the policy {} cannot be used", path.display()))
    }

    /// Whether this very skill may use the network.
    pub fn allows_network(&self, package: &Package, directory: Option<&Tree>) -> bool {
        self.allow_network.iter().any(|allowed| allowed.matches(package, directory))
    }

    /// The limits of every run, the usual ones where nothing is said.
    pub fn limits(&self) -> Result<Policy> {
        let mut policy = Policy::default();
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

impl SkillPolicy {
    pub fn of(package: &Package) -> Result<SkillPolicy> {
        let Some(file) = package.files.iter().find(|file| file.path == NAME) else {
            return Ok(SkillPolicy::default());
        };
        let text = std::str::from_utf8(&file.bytes).map_err(anyhow::Error::new);
        text.and_then(parse).with_context(|| format!("the skill's own {NAME} cannot be used"))
    }

    /// Lowers what the skill asks for; nothing can be raised.
    pub fn tighten(&self, package: &mut Package) -> Result<()> {
        let manifest = &mut package.manifest;
        lower(&mut manifest.timeout_ms, "timeout", &self.timeout, parse_duration)?;
        lower(&mut manifest.resources.memory_bytes, "memory", &self.memory, parse_memory)?;
        lower(&mut manifest.resources.cpu_millis, "cpu", &self.cpu, parse_cpu)
    }

    /// Refuses a network that the skill does not want, and a wish for one, which is not the skill's
    /// to have.
    pub fn check_network(&self, open: bool) -> Result<()> {
        match self.network {
            Some(true) => {
                bail!(
                    "the skill's own {NAME} says network = true, and it can only forbid; use --allow-network"
                )
            }
            Some(false) if open => {
                bail!(
                    "the skill's own {NAME} says network = false, so it is not run with a network"
                )
            }
            _ => Ok(()),
        }
    }
}

fn parse<T: for<'de> Deserialize<'de>>(text: &str) -> Result<T> {
    toml::from_str(text).map_err(|error| anyhow!("{}", error.to_string().trim_end()))
}

fn set<T: PartialOrd + Default>(
    limit: &mut T,
    key: &str,
    value: &Option<Quantity>,
    parse: impl Fn(&str) -> Result<T, UnitError>,
) -> Result<()> {
    if let Some(value) = value {
        *limit = positive(key, value, parse)?;
    }
    Ok(())
}

fn lower<T: Ord + Default + Copy>(
    limit: &mut Option<T>,
    key: &str,
    value: &Option<Quantity>,
    parse: impl Fn(&str) -> Result<T, UnitError>,
) -> Result<()> {
    if let Some(value) = value {
        let value = positive(key, value, parse)?;
        *limit = Some(limit.map_or(value, |limit| limit.min(value)));
    }
    Ok(())
}

fn positive<T: PartialOrd + Default>(
    key: &str,
    Quantity(text): &Quantity,
    parse: impl Fn(&str) -> Result<T, UnitError>,
) -> Result<T> {
    let value = parse(text).with_context(|| format!("{NAME}: {key}"))?;
    if value > T::default() { Ok(value) } else { bail!("{NAME}: {key} must be more than zero") }
}

/// A number with or without a unit, however TOML has it.
#[derive(Debug, Clone)]
struct Quantity(String);

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

fn controls<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Control>, D::Error> {
    let names = Vec::<String>::deserialize(from)?;
    names.iter().map(|name| name.parse().map_err(serde::de::Error::custom)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(policy: &str) -> Package {
        let manifest = "---\nname: fetch\ndescription: d\ntimeout: 20s\n---\n";
        let parts = [("SKILL.md", manifest), ("main.sh", "true\n"), (NAME, policy)];
        let parts = parts.map(|(name, text)| (name.to_owned(), text.as_bytes().to_vec())).to_vec();
        skill::read_parts(parts, &skill::Limits::default()).expect("a skill")
    }

    #[test]
    fn unknown_keys_are_named() {
        let error = parse::<UserPolicy>("allow_netwrok = []").expect_err("a typo");
        assert!(error.to_string().contains("allow_netwrok"), "{error}");
        // What only the user can say is unknown to a skill.
        for widening in [
            "allow_network = [\"fetch\"]", "sandbox = \"docker\"", "max_memory = \"4Gi\"",
            "trust = true",
        ] {
            let error = SkillPolicy::of(&package(widening)).expect_err("not a skill's to say");
            let key = widening.split(' ').next().expect("a key");
            assert!(format!("{error:#}").contains(key), "{error:#}");
        }
    }

    #[test]
    fn a_skill_can_only_lower_its_own_limits() {
        let mut skill =
            package("timeout = \"5s\"\nmemory = \"64Mi\"\ncpu = 0.25\nnetwork = false\n");
        SkillPolicy::of(&skill).expect("good").tighten(&mut skill).expect("good");
        let resources = &skill.manifest.resources;
        assert_eq!(
            (skill.manifest.timeout_ms, resources.memory_bytes),
            (Some(5_000), Some(64 << 20))
        );
        assert_eq!(resources.cpu_millis, Some(250));
        let mut skill = package("timeout = \"1h\"\n");
        SkillPolicy::of(&skill).expect("good").tighten(&mut skill).expect("good");
        assert_eq!(skill.manifest.timeout_ms, Some(20_000));
    }

    #[test]
    fn a_skill_can_refuse_the_network_and_not_ask_for_it() {
        let check = |policy: &str, open| {
            SkillPolicy::of(&package(policy)).expect("good").check_network(open).is_ok()
        };
        assert!(check("", true) && check("", false) && check("network = false", false));
        assert!(!check("network = false", true));
        assert!(!check("network = true", true) && !check("network = true", false));
    }

    #[test]
    fn the_network_is_opened_by_digest_or_directory() {
        let home = tempfile::tempdir().expect("a directory");
        let tree = |name: &str| {
            std::fs::create_dir_all(home.path().join(name)).expect("a directory");
            Tree::open(&home.path().join(name)).expect("a directory")
        };
        let (own, other, skill) = (tree("own"), tree("other"), package(""));
        let allowing = |entry: &str| {
            parse::<UserPolicy>(&format!("allow_network = [{entry:?}]")).expect("good")
        };

        let exact = allowing(&skill.digest);
        assert!(exact.allows_network(&skill, Some(&other)) && exact.allows_network(&skill, None));
        // The same name with other content; matched by name, it would be allowed.
        let impostor = package("network = false");
        assert_eq!(impostor.manifest.name, skill.manifest.name);
        assert!(!exact.allows_network(&impostor, Some(&other)));

        let place = allowing(&home.path().join("own").display().to_string());
        assert!(
            place.allows_network(&skill, Some(&own)) && place.allows_network(&impostor, Some(&own))
        );
        assert!(!place.allows_network(&skill, Some(&other)) && !place.allows_network(&skill, None));
        // Another directory under the allowed path is another directory from now on, and the one
        // moved away too.
        std::fs::rename(home.path().join("own"), home.path().join("moved")).expect("it is there");
        assert!(!place.allows_network(&skill, Some(&own)));
    }

    #[test]
    fn a_name_in_allow_network_is_refused_with_the_way_out() {
        for old in ["fetch", "./fetch", "~/fetch", "sha256:00", ""] {
            let error = parse::<UserPolicy>(&format!("allow_network = [{old:?}]"))
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
        let policy: UserPolicy = parse(text).expect("good");
        let limits = policy.limits().expect("good");
        assert_eq!(
            (limits.max_timeout, limits.default_cpu_millis),
            (Duration::from_secs(3600), 2000)
        );
        assert_eq!(limits.default_timeout, Policy::default().default_timeout);
        for bad in ["max_memory = \"much\"", "max_timeout = \"0s\""] {
            let error = parse::<UserPolicy>(bad).expect("TOML").limits().expect_err("bad");
            assert!(
                format!("{error:#}").contains(bad.split(' ').next().expect("a key")),
                "{error:#}"
            );
        }
    }
}
