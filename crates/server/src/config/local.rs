//! What the commands that need no server take from their surroundings: where interpreters are,
//! where an engine might be, where the user keeps a policy. Nothing of a server's state is looked
//! at, so nothing of it can be wrong.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;

use super::parse::{docker_host, images, sandbox_kind};
use super::reader::Reader;
use super::sandboxes::{Docker, Kind};
use super::{ConfigError, Source, Surroundings, Values, admit, environment, settings};

/// Where an engine is on a machine that was told nothing.
const USUAL_ENGINE: &str = "unix:///var/run/docker.sock";

/// The variables that are obeyed, by their file keys.
const OBEYED: [&str; 8] = [
    "sandbox", "docker_host", "docker_runtime", "image_python", "image_node", "image_bash",
    "image_allowlist", "runtime_path",
];

/// The surroundings of a run without a server.
#[derive(Clone, Debug)]
pub struct Local {
    /// Whether it is to be Docker, if anybody said.
    pub in_docker: Option<bool>,
    pub docker: Docker,
    pub image_allowlist: Vec<String>,
    pub runtime_path: Option<OsString>,
    /// The user's own policy, which need not exist.
    pub user_policy: Option<PathBuf>,
}

impl Local {
    pub fn load() -> Result<Local, ConfigError> {
        Local::resolve(&environment()?, Surroundings::look())
    }

    fn resolve(
        environment: &BTreeMap<String, String>,
        surroundings: Surroundings,
    ) -> Result<Local, ConfigError> {
        let mut set = Values::new();
        for setting in OBEYED.iter().filter_map(|key| settings::find(key)) {
            if let Some(value) = environment.get(&setting.env())
                && admit(setting, value)?
            {
                set.insert(setting.key, (value.trim().to_owned(), Source::Environment));
            }
        }
        let read = Reader(&set);
        let image_allowlist = read.get("image_allowlist", images)?;
        let host =
            read.optional("docker_host", docker_host)?.unwrap_or_else(|| USUAL_ENGINE.to_owned());
        Ok(Local {
            in_docker: read.optional("sandbox", local_kind)?,
            docker: Docker { host, ..Docker::read(&read, &image_allowlist)? },
            image_allowlist,
            runtime_path: read
                .optional("runtime_path", |text| Ok(text.into()))?
                .or(surroundings.path),
            user_policy: policy(surroundings.config_home, surroundings.home),
        })
    }
}

/// Whether it is Docker. A cluster is nowhere near.
fn local_kind(text: &str) -> Result<bool, String> {
    match sandbox_kind(text)? {
        Kind::Native => Ok(false),
        Kind::Docker => Ok(true),
        Kind::Kubernetes => {
            Err("`kubernetes` is for servers; a run without one is `native` or `docker`".into())
        }
    }
}

/// `skillbox/skillbox.toml` in the user's directory of configurations.
fn policy(config_home: Option<PathBuf>, home: Option<PathBuf>) -> Option<PathBuf> {
    let absolute = |path: &PathBuf| path.is_absolute();
    let base =
        config_home.filter(absolute).or_else(|| Some(home.filter(absolute)?.join(".config")))?;
    Some(base.join("skillbox/skillbox.toml"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolve(variables: &[(&str, &str)]) -> Result<Local, ConfigError> {
        let environment = variables
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        let surroundings =
            Surroundings { home: Some("/home/me".into()), ..Surroundings::default() };
        Local::resolve(&environment, surroundings)
    }

    #[test]
    fn a_machine_that_was_told_nothing_has_the_usual_places() {
        let local = resolve(&[]).expect("good");
        assert_eq!((local.in_docker, local.docker.host.as_str()), (None, USUAL_ENGINE));
        assert_eq!(local.user_policy, Some("/home/me/.config/skillbox/skillbox.toml".into()));
    }

    #[test]
    fn what_is_said_is_obeyed_and_a_bad_value_is_named() {
        let local = resolve(&[
            ("SKILLBOX_SANDBOX", "docker"),
            ("SKILLBOX_DOCKER_HOST", "tcp://proxy:2375"),
        ]);
        let local = local.expect("good");
        assert_eq!((local.in_docker, local.docker.host.as_str()), (Some(true), "tcp://proxy:2375"));
        let error = resolve(&[("SKILLBOX_SANDBOX", "jail")]).expect_err("bad");
        assert!(error.to_string().contains("SKILLBOX_SANDBOX"), "{error}");
        // A server's settings are none of its business.
        assert!(resolve(&[("SKILLBOX_DB_DSN", "nonsense")]).is_ok());
    }
}
