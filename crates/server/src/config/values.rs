//! Turns raw values into validated ones. Every error names the variable and what would be accepted.

use std::path::PathBuf;
use std::time::Duration;

use super::limits::{Http2Limits, McpSessionLimits, READY_AGE};
use super::parse::*;
use super::reader::{SettingReader, invalid};
use super::sandboxes::SandboxSettings;
use super::storage::{Retention, S3Settings};
use super::tokens::JwtSettings;
use super::{Config, ConfigError, RawValues, Role, SystemInfo, memory, run_policy};
use crate::http::loopback::is_loopback_address;

/// Assumed when the system reports no memory size.
const FALLBACK_MEMORY_BYTES: u64 = 1 << 30;

const MIN_LEASE: Duration = Duration::from_secs(1);

/// The minimum for a key that other machines could try to guess.
const MIN_BOOTSTRAP_KEY_LENGTH: usize = 16;

/// Builds the configuration; the first invalid value is the error.
pub(super) fn build(set: RawValues, system: SystemInfo) -> Result<Config, ConfigError> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let memory_bytes = system.memory_bytes.unwrap_or(FALLBACK_MEMORY_BYTES);
    let read = SettingReader(&set);
    let image_allowlist = read.get("image_allowlist", images)?;
    let max_connections: usize = read.get("max_connections", positive)?;
    let config = Config {
        role: read.get("role", role)?,
        data_dir: data_dir(&read, &system)?,
        db_dsn: read.optional("db_dsn", dsn)?,
        secret: read.optional("secret", long_secret)?,
        s3: S3Settings::read(&read)?,
        retention: Retention::read(&read)?,
        migrate_on_start: read.get("migrate_on_start", flag)?,
        bind: read.get("bind", address)?,
        api_port: read.get("api_port", number)?,
        public_url: read.optional("public_url", base_url)?,
        bootstrap_key: read.optional("bootstrap_key", key)?,
        jwt: JwtSettings::read(&read)?,
        metrics_token: read.optional("metrics_token", bearer_token)?,
        webhook_private_hosts: read.optional("webhook_private_hosts", hosts)?.unwrap_or_default(),
        webhook_timeout: read.get("webhook_timeout", duration)?,
        receipt_key_generation: read.get("receipt_key_generation", generation)?,
        sandbox: SandboxSettings::read(&read, &image_allowlist)?,
        require: read.optional("require", controls)?.unwrap_or_default(),
        run_policy: run_policy::read(&read, Some(image_allowlist.clone()))?,
        image_allowlist,
        runtime_path: read.optional("runtime_path", |text| Ok(text.into()))?.or(system.path),
        launchers: read.optional("launchers", positive)?.unwrap_or(cores),
        max_concurrent_execs: read.optional("max_concurrent_execs", positive)?.unwrap_or(cores * 2),
        lease: read.get("lease", duration)?,
        #[cfg(debug_assertions)]
        failpoint: read.optional("failpoint", str::parse)?,
        max_skill_bytes: read.get("max_skill_size", size_in_memory)?,
        max_file_bytes: read.get("max_file_size", size)?,
        max_stored_bytes: read.optional("max_stored_bytes", size)?,
        min_free_disk_bytes: read.get("min_free_disk", size)?,
        max_body_bytes: read.get("max_body_size", size_in_memory)?,
        max_buffer_bytes: read
            .optional("max_buffer_size", size)?
            .unwrap_or(memory::buffer_bytes(memory_bytes)),
        skill_cache_bytes: memory::skill_cache_bytes(memory_bytes),
        max_connections,
        max_connections_per_peer: read
            .optional("max_connections_per_peer", positive)?
            .unwrap_or(max_connections.div_ceil(4)),
        trusted_proxies: read.optional("trusted_proxies", networks)?.unwrap_or_default(),
        auth_failures: read.get("max_auth_failures", per_minute)?,
        http2: Http2Limits::default(),
        mcp_sessions: McpSessionLimits::default(),
        ready_age: READY_AGE,
        header_timeout: read.get("header_timeout", duration)?,
        body_timeout: read.get("body_timeout", duration)?,
        write_timeout: read.get("write_timeout", duration)?,
        url_ttl: read.get("url_ttl", duration)?,
        drain_timeout: read.get("drain_timeout", duration)?,
        log_level: read.get("log_level", log_level)?,
        log_format: read.get("log_format", log_format)?,
        set: set.clone(),
    };
    if config.lease < MIN_LEASE {
        return Err(invalid("lease", "is shorter than 1s, which no heartbeat can keep up with"));
    }
    if config.role != Role::All {
        check_shared_state(&config)?;
    }
    let guessable =
        config.bootstrap_key.as_ref().is_some_and(|key| key.len() < MIN_BOOTSTRAP_KEY_LENGTH);
    if guessable && !config.is_loopback() {
        let why = format!(
            "has fewer than {MIN_BOOTSTRAP_KEY_LENGTH} characters, and SKILLBOX_BIND={} lets other machines try to guess it; use \
             a random one, such as `sk-` and the output of `openssl rand -hex 32`",
            config.bind
        );
        return Err(invalid("bootstrap_key", why));
    }
    Ok(config)
}

/// Processes that share the work must share the state, and the secret from which keys and URLs are
/// derived.
fn check_shared_state(config: &Config) -> Result<(), ConfigError> {
    let because = |key: &str, what: &str| {
        Err(invalid(
            key,
            format!(
                "must {what}, because SKILLBOX_ROLE is `{}`: other processes share it",
                config.role
            ),
        ))
    };
    if !config.is_postgres() {
        return because("db_dsn", "name a Postgres database");
    }
    if config.s3.is_none() {
        return because("s3_endpoint", "name an object store");
    }
    if config.secret.is_none() {
        return because("secret", "be given");
    }
    Ok(())
}

fn data_dir(read: &SettingReader<'_>, system: &SystemInfo) -> Result<PathBuf, ConfigError> {
    if let Some(given) = read.optional("data_dir", |text| Ok(PathBuf::from(text)))? {
        return std::path::absolute(&given).map_err(|e| invalid("data_dir", e.to_string()));
    }
    let base = match (&system.data_home, &system.home) {
        (Some(data), _) if data.is_absolute() => data.clone(),
        (_, Some(home)) if home.is_absolute() => home.join(".local/share"),
        _ => {
            return Err(invalid(
                "data_dir",
                "must be given, because neither XDG_DATA_HOME nor HOME is set",
            ));
        }
    };
    Ok(base.join("skillbox"))
}

impl Config {
    /// The effective database.
    pub fn dsn(&self) -> String {
        match &self.db_dsn {
            Some(dsn) => dsn.clone(),
            None => format!("sqlite:{}", self.data_dir.join("skillbox.db").display()),
        }
    }

    pub fn is_postgres(&self) -> bool {
        self.db_dsn.as_deref().is_some_and(|dsn| dsn.starts_with("postgres"))
    }

    /// Whether all state is in external services, so that no data directory is needed.
    pub fn is_stateless(&self) -> bool {
        self.is_postgres() && self.s3.is_some() && self.secret.is_some()
    }

    /// Whether only programs on this machine can reach the server.
    pub fn is_loopback(&self) -> bool {
        is_loopback_address(self.bind)
    }
}
