//! The configuration: flags, environment and file merged into one validated value.
//!
//! This is the only file of the project that reads the environment. It must not know what the
//! settings do; the rest of the server gets a [`Config`] in which every value is valid.

mod args;
mod limits;
mod memory;
mod parse;
mod reader;
mod reference;
mod run_policy;
mod sandboxes;
mod settings;
mod standalone;
mod storage;
mod tokens;
mod unknown;
mod values;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use runner::RunPolicy;
use sandbox::Control;

pub use args::Args;
pub use limits::{Http2Limits, McpSessionLimits, Rate};
pub use reference::{EffectiveSetting, effective, reference_markdown};
pub use run_policy::default_run_policy;
pub use sandboxes::{DockerSettings, KubernetesSettings, SandboxSettings};
pub use standalone::StandaloneConfig;
pub use storage::{Retention, S3Settings};
pub use tokens::{JwtKey, JwtSettings};

use crate::http::peer::TrustedProxies;
use settings::{SETTINGS, SettingSpec, Stability};

/// Why the configuration is invalid. Every variant names what to change.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error("{name}: {why}")]
    Invalid { name: String, why: String },
    #[error("the configuration file {path}: {why}")]
    File { path: String, why: String },
}

/// The origin of a value; the later variant takes precedence.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ValueSource {
    Default,
    File,
    Environment,
    Flag,
}

/// The format of log lines.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LogFormat {
    Text,
    Json,
}

/// Which part of the work this process does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Role {
    All,
    /// Serves the API and runs no skills itself.
    Api,
    /// Runs queued executions and serves only health checks and metrics.
    Worker,
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Role::All => "all",
            Role::Api => "api",
            Role::Worker => "worker",
        })
    }
}

/// The validated configuration. Not `Debug`, because it contains secrets.
#[derive(Clone)]
pub struct Config {
    pub role: Role,
    pub data_dir: PathBuf,
    /// None: SQLite in the data directory.
    pub db_dsn: Option<String>,
    /// None: the data directory's own.
    pub secret: Option<String>,
    /// None: a directory in the data directory.
    pub s3: Option<S3Settings>,
    pub retention: Retention,
    /// Whether a start migrates the database, or waits until another process has.
    pub migrate_on_start: bool,
    pub bind: IpAddr,
    pub api_port: u16,
    /// Without a trailing slash.
    pub public_url: Option<String>,
    pub bootstrap_key: Option<String>,
    pub jwt: Option<JwtSettings>,
    /// The bearer token for `/metrics`, besides a service key.
    pub metrics_token: Option<String>,
    /// Hosts that webhooks may reach although their addresses are private, and without TLS.
    pub webhook_private_hosts: Vec<String>,
    pub webhook_timeout: Duration,
    /// Which of the keys derived from the secret signs receipts; 1 and up.
    pub receipt_key_generation: u32,
    pub sandbox: SandboxSettings,
    pub require: Vec<Control>,
    pub image_allowlist: Vec<String>,
    pub runtime_path: Option<OsString>,
    pub launchers: usize,
    pub max_concurrent_execs: usize,
    pub lease: Duration,
    /// Where the process kills itself, in crash tests.
    #[cfg(debug_assertions)]
    pub failpoint: Option<runner::Failpoint>,
    /// The limits of runs.
    pub run_policy: RunPolicy,
    pub max_skill_bytes: usize,
    pub max_file_bytes: u64,
    /// For tenants without a limit of their own.
    pub max_stored_bytes: Option<u64>,
    /// Below this much free space new work is refused.
    pub min_free_disk_bytes: u64,
    pub max_body_bytes: usize,
    /// The memory that requests and runs may buffer at once.
    pub max_buffer_bytes: u64,
    /// The size of the cache of unpacked skills.
    pub skill_cache_bytes: u64,
    pub max_connections: usize,
    pub max_connections_per_peer: usize,
    pub trusted_proxies: TrustedProxies,
    /// Failed authentications of one client.
    pub auth_failures: Rate,
    pub http2: Http2Limits,
    pub mcp_sessions: McpSessionLimits,
    pub ready_age: Duration,
    pub header_timeout: Duration,
    pub body_timeout: Duration,
    pub write_timeout: Duration,
    pub url_ttl: Duration,
    pub drain_timeout: Duration,
    pub log_level: String,
    pub log_format: LogFormat,
    set: RawValues,
}

/// The raw values by file key, each with its source.
type RawValues = BTreeMap<&'static str, (String, ValueSource)>;

impl Config {
    /// Reads flags, environment and the optional file. An unknown `SKILLBOX_*` variable is refused: it
    /// may be a misspelt limit that the operator believes to be in force.
    pub fn load(args: &Args) -> Result<Config, ConfigError> {
        let environment = environment()?;
        unknown::check_variables(&environment)?;
        Config::read(args, environment)
    }

    /// The same for a client that only needs the location of the local server's key.
    pub fn load_for_client() -> Result<Config, ConfigError> {
        Config::read(&Args::default(), environment()?)
    }

    fn read(args: &Args, mut environment: BTreeMap<String, String>) -> Result<Config, ConfigError> {
        let from_environment = environment.remove("SKILLBOX_CONFIG").map(PathBuf::from);
        let file = match args.config.clone().or(from_environment) {
            Some(path) => read_file(&path)?,
            None => BTreeMap::new(),
        };
        Config::resolve(&args.values, &environment, &file, SystemInfo::detect())
    }

    /// A configuration from file keys only; `SKILLBOX_*` variables are ignored. For tests and
    /// embedding.
    pub fn from_pairs<'a>(
        pairs: impl IntoIterator<Item = (&'a str, String)>,
    ) -> Result<Config, ConfigError> {
        let file = pairs.into_iter().map(|(key, value)| (key.to_owned(), value)).collect();
        Config::resolve(&BTreeMap::new(), &BTreeMap::new(), &file, SystemInfo::detect())
    }

    /// Merges the sources. Pure, so that unit tests can cover precedence and errors.
    fn resolve(
        flags: &BTreeMap<String, String>,
        environment: &BTreeMap<String, String>,
        file: &BTreeMap<String, String>,
        system: SystemInfo,
    ) -> Result<Config, ConfigError> {
        unknown::check_keys(file)?;
        let mut set = RawValues::new();
        for setting in SETTINGS {
            let candidates = [
                (flags.get(setting.key), ValueSource::Flag),
                (environment.get(&setting.env()), ValueSource::Environment),
                (file.get(setting.key), ValueSource::File),
            ];
            let Some((value, source)) =
                candidates.into_iter().find_map(|(value, source)| Some((value?, source)))
            else {
                continue;
            };
            if is_used(setting, value)? {
                set.insert(setting.key, (value.trim().to_owned(), source));
            }
        }
        values::build(set, system)
    }
}

/// Properties of the machine and the user, for defaults.
#[derive(Default)]
struct SystemInfo {
    data_home: Option<PathBuf>,
    config_home: Option<PathBuf>,
    home: Option<PathBuf>,
    path: Option<OsString>,
    memory_bytes: Option<u64>,
}

impl SystemInfo {
    #[expect(clippy::disallowed_methods, reason = "this is where the environment is read")]
    fn detect() -> SystemInfo {
        SystemInfo {
            data_home: std::env::var_os("XDG_DATA_HOME").map(PathBuf::from),
            config_home: std::env::var_os("XDG_CONFIG_HOME").map(PathBuf::from),
            home: std::env::var_os("HOME").map(PathBuf::from),
            path: std::env::var_os("PATH"),
            memory_bytes: memory::available(Path::new("/")),
        }
    }
}

/// Every variable that starts with our prefix.
#[expect(clippy::disallowed_methods, reason = "this is where the environment is read")]
fn environment() -> Result<BTreeMap<String, String>, ConfigError> {
    let ours = |name: &OsString| name.to_str().is_some_and(|name| name.starts_with("SKILLBOX_"));
    std::env::vars_os()
        .filter(|(name, _)| ours(name))
        .map(|(name, value)| {
            let name = name.to_string_lossy().into_owned();
            match value.into_string() {
                Ok(value) => Ok((name, value)),
                Err(_) => Err(ConfigError::Invalid { name, why: "is not valid UTF-8".into() }),
            }
        })
        .collect()
}

/// Whether a value is used. An empty value is an error and not treated as unset: a limit whose
/// variable expands to nothing must not silently become the default.
fn is_used(setting: &SettingSpec, value: &str) -> Result<bool, ConfigError> {
    let empty = value.trim().is_empty();
    match setting.stability {
        Stability::Reserved => Ok(!empty),
        Stability::Supported | Stability::Hidden if empty => Err(ConfigError::Invalid {
            name: setting.env(),
            why: "is empty; give it a value, or unset it to take the default".into(),
        }),
        Stability::Supported | Stability::Hidden => Ok(true),
    }
}

/// Reads the TOML file as text values: numbers and booleans as written, lists joined by commas.
fn read_file(path: &Path) -> Result<BTreeMap<String, String>, ConfigError> {
    let error = |why: String| ConfigError::File { path: path.display().to_string(), why };
    let text = std::fs::read_to_string(path).map_err(|e| error(e.to_string()))?;
    let table: toml::Table = text.parse().map_err(|e: toml::de::Error| error(e.to_string()))?;
    table
        .into_iter()
        .map(|(key, value)| match scalar(&value) {
            Some(text) => Ok((key, text)),
            None => Err(error(format!(
                "{key} must be a string, a number, a boolean or a list of strings"
            ))),
        })
        .collect()
}

fn scalar(value: &toml::Value) -> Option<String> {
    match value {
        toml::Value::String(text) => Some(text.clone()),
        toml::Value::Integer(number) => Some(number.to_string()),
        toml::Value::Float(number) => Some(number.to_string()),
        toml::Value::Boolean(truth) => Some(truth.to_string()),
        toml::Value::Array(items) => items
            .iter()
            .map(|item| item.as_str())
            .collect::<Option<Vec<_>>>()
            .map(|items| items.join(",")),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
