//! Configuration of commands that run without a server: the search path for interpreters, the
//! Docker engine, the user's policy file. Server settings are not read, so an invalid one cannot
//! break these commands.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;

use language::Language;

use super::parse::{docker_host, images, sandbox_kind};
use super::reader::SettingReader;
use super::sandboxes::{DockerSettings, SandboxKind};
use super::{ConfigError, RawValues, SystemInfo, ValueSource, environment, is_used, settings};

/// The Docker engine if none is configured.
const DEFAULT_DOCKER_HOST: &str = "unix:///var/run/docker.sock";

/// The settings that apply without a server, by their file keys, besides the image of each
/// language. Only variables set them.
const APPLICABLE_SETTINGS: [&str; 5] =
    ["sandbox", "docker_host", "docker_runtime", "image_allowlist", "runtime_path"];

/// Configuration of a run without a server.
#[derive(Clone, Debug)]
pub struct StandaloneConfig {
    /// Whether to use Docker or the native sandbox; `None` if not configured.
    pub in_docker: Option<bool>,
    pub docker: DockerSettings,
    pub image_allowlist: Vec<String>,
    pub runtime_path: Option<OsString>,
    /// The path of the user's policy. The file may be missing.
    pub user_policy: Option<PathBuf>,
}

impl StandaloneConfig {
    pub fn load() -> Result<StandaloneConfig, ConfigError> {
        StandaloneConfig::resolve(&environment()?, SystemInfo::detect())
    }

    fn resolve(
        environment: &BTreeMap<String, String>,
        system: SystemInfo,
    ) -> Result<StandaloneConfig, ConfigError> {
        let mut set = RawValues::new();
        let image_settings = Language::ALL.map(|language| language.spec().image_setting);
        let keys = APPLICABLE_SETTINGS.iter().chain(&image_settings);
        for setting in keys.filter_map(|key| settings::find(key)) {
            if let Some(value) = environment.get(&setting.env())
                && is_used(setting, value)?
            {
                set.insert(setting.key, (value.trim().to_owned(), ValueSource::Environment));
            }
        }
        let read = SettingReader(&set);
        let image_allowlist = read.get("image_allowlist", images)?;
        let host = read
            .optional("docker_host", docker_host)?
            .unwrap_or_else(|| DEFAULT_DOCKER_HOST.to_owned());
        Ok(StandaloneConfig {
            in_docker: read.optional("sandbox", parse_is_docker)?,
            docker: DockerSettings { host, ..DockerSettings::read(&read, &image_allowlist)? },
            image_allowlist,
            runtime_path: read.optional("runtime_path", |text| Ok(text.into()))?.or(system.path),
            user_policy: user_policy_path(system.config_home, system.home),
        })
    }
}

/// Whether the value selects Docker. Kubernetes needs a server.
fn parse_is_docker(text: &str) -> Result<bool, String> {
    match sandbox_kind(text)? {
        SandboxKind::Native => Ok(false),
        SandboxKind::Docker => Ok(true),
        SandboxKind::Kubernetes => {
            Err("`kubernetes` is for servers; a run without one is `native` or `docker`".into())
        }
    }
}

/// `skillbox/skillbox.toml` in the user's configuration directory. Relative values are ignored, as
/// the XDG base directory specification requires.
fn user_policy_path(config_home: Option<PathBuf>, home: Option<PathBuf>) -> Option<PathBuf> {
    let absolute = |path: &PathBuf| path.is_absolute();
    let base =
        config_home.filter(absolute).or_else(|| Some(home.filter(absolute)?.join(".config")))?;
    Some(base.join("skillbox/skillbox.toml"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolve(variables: &[(&str, &str)]) -> Result<StandaloneConfig, ConfigError> {
        let environment = variables
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        let system = SystemInfo { home: Some("/home/me".into()), ..SystemInfo::default() };
        StandaloneConfig::resolve(&environment, system)
    }

    #[test]
    fn defaults_apply_without_variables() {
        let local = resolve(&[]).expect("good");
        assert_eq!((local.in_docker, local.docker.host.as_str()), (None, DEFAULT_DOCKER_HOST));
        assert_eq!(local.user_policy, Some("/home/me/.config/skillbox/skillbox.toml".into()));
    }

    #[test]
    fn variables_apply_and_a_bad_value_is_named() {
        let local = resolve(&[
            ("SKILLBOX_SANDBOX", "docker"),
            ("SKILLBOX_DOCKER_HOST", "tcp://proxy:2375"),
        ]);
        let local = local.expect("good");
        assert_eq!((local.in_docker, local.docker.host.as_str()), (Some(true), "tcp://proxy:2375"));
        let error = resolve(&[("SKILLBOX_SANDBOX", "jail")]).expect_err("bad");
        assert!(error.to_string().contains("SKILLBOX_SANDBOX"), "{error}");
        // Server settings are not read.
        assert!(resolve(&[("SKILLBOX_DB_DSN", "nonsense")]).is_ok());
    }
}
