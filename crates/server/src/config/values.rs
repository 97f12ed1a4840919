//! Turns raw values into checked ones. Every refusal names the variable and says what would be accepted.

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use sandbox::Control;
use tracing::level_filters::LevelFilter;

use super::settings;
use super::{Config, ConfigError, LogFormat, Surroundings, Values};

/// Builds the configuration; the first bad value wins.
pub(super) fn build(
    set: Values,
    unknown_variables: Vec<String>,
    surroundings: Surroundings,
) -> Result<Config, ConfigError> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let read = Reader(&set);
    read.get("sandbox", sandbox_kind)?;
    let config = Config {
        data_dir: data_dir(&read, &surroundings)?,
        db_dsn: read.optional("db_dsn", dsn)?,
        bind: read.get("bind", address)?,
        api_port: read.get("api_port", number)?,
        public_url: read.optional("public_url", base_url)?,
        bootstrap_key: read.optional("bootstrap_key", key)?,
        require: read.optional("require", controls)?.unwrap_or_default(),
        image_allowlist: read.get("image_allowlist", images)?,
        runtime_path: read.optional("runtime_path", |text| Ok(text.into()))?.or(surroundings.path),
        launchers: read.optional("launchers", positive)?.unwrap_or(cores),
        max_concurrent_execs: read.optional("max_concurrent_execs", positive)?.unwrap_or(cores * 2),
        default_timeout: read.get("default_timeout", duration)?,
        max_timeout: read.get("max_timeout", duration)?,
        default_memory_bytes: read.get("default_memory", size)?,
        max_memory_bytes: read.get("max_memory", size)?,
        default_cpu_millis: read.get("default_cpu", cpu)?,
        max_cpu_millis: read.get("max_cpu", cpu)?,
        max_output_bytes: read.get("max_output_size", size)?,
        max_log_bytes: read.get("max_log_size", size)?,
        max_artifact_bytes: read.get("max_artifact_size", size)?,
        max_artifact_files: read.get("max_artifact_files", positive)?,
        max_skill_bytes: read.get("max_skill_size", size_in_memory)?,
        max_body_bytes: read.get("max_body_size", size_in_memory)?,
        max_connections: read.get("max_connections", positive)?,
        header_timeout: read.get("header_timeout", duration)?,
        body_timeout: read.get("body_timeout", duration)?,
        write_timeout: read.get("write_timeout", duration)?,
        url_ttl: read.get("url_ttl", duration)?,
        drain_timeout: read.get("drain_timeout", duration)?,
        log_level: read.get("log_level", log_level)?,
        log_format: read.get("log_format", log_format)?,
        unknown_variables,
        set: set.clone(),
    };
    in_order("default_timeout", config.default_timeout, "max_timeout", config.max_timeout)?;
    in_order("default_memory", config.default_memory_bytes, "max_memory", config.max_memory_bytes)?;
    in_order("default_cpu", config.default_cpu_millis, "max_cpu", config.max_cpu_millis)?;
    Ok(config)
}

/// Reads values by key, naming the variable when one is bad.
struct Reader<'a>(&'a Values);

impl Reader<'_> {
    /// A setting whose default stands in the table.
    fn get<T>(&self, key: &str, parse: impl Fn(&str) -> Result<T, String>) -> Result<T, ConfigError> {
        let default = settings::find(key).map_or("", |setting| setting.default);
        let value = self.0.get(key).map_or(default, |(value, _)| value);
        parse(value).map_err(|why| bad(key, why))
    }

    /// A setting without a default value.
    fn optional<T>(&self, key: &str, parse: impl Fn(&str) -> Result<T, String>) -> Result<Option<T>, ConfigError> {
        let value = self.0.get(key).map(|(value, _)| parse(value));
        value.transpose().map_err(|why| bad(key, why))
    }
}

fn bad(key: &str, why: String) -> ConfigError {
    ConfigError::Bad { name: format!("SKILLBOX_{}", key.to_uppercase()), why }
}

fn in_order<T: PartialOrd>(low: &str, low_value: T, high: &str, high_value: T) -> Result<(), ConfigError> {
    if low_value <= high_value {
        return Ok(());
    }
    Err(bad(low, format!("is larger than SKILLBOX_{}", high.to_uppercase())))
}

fn data_dir(read: &Reader<'_>, surroundings: &Surroundings) -> Result<PathBuf, ConfigError> {
    if let Some(given) = read.optional("data_dir", |text| Ok(PathBuf::from(text)))? {
        return std::path::absolute(&given).map_err(|e| bad("data_dir", e.to_string()));
    }
    let base = match (&surroundings.data_home, &surroundings.home) {
        (Some(data), _) if data.is_absolute() => data.clone(),
        (_, Some(home)) if home.is_absolute() => home.join(".local/share"),
        _ => return Err(bad("data_dir", "must be given, because neither XDG_DATA_HOME nor HOME is set".into())),
    };
    Ok(base.join("skillbox"))
}

fn sandbox_kind(text: &str) -> Result<(), String> {
    match text {
        "native" => Ok(()),
        "docker" | "kubernetes" => Err(format!("`{text}` is not supported by this build yet; use `native`")),
        _ => Err(format!("`{text}` is not a sandbox; use `native`")),
    }
}

fn dsn(text: &str) -> Result<String, String> {
    // The value may hold a password, so it is not repeated.
    let known = ["sqlite:", "postgres://", "postgresql://"];
    match known.iter().any(|scheme| text.starts_with(scheme)) {
        true => Ok(text.to_owned()),
        false => Err("must start with `sqlite:` or `postgres://`".into()),
    }
}

fn address(text: &str) -> Result<IpAddr, String> {
    match text {
        "localhost" => Ok(Ipv4Addr::LOCALHOST.into()),
        _ => text.parse().map_err(|_| format!("`{text}` is not an IP address such as 127.0.0.1 or 0.0.0.0")),
    }
}

fn base_url(text: &str) -> Result<String, String> {
    let text = text.trim_end_matches('/');
    let host = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    let usable = host.is_some_and(|host| !host.is_empty()) && text.parse::<http::Uri>().is_ok();
    if !usable || text.contains(['?', '#', '@']) {
        return Err(format!("`{text}` is not a base URL such as https://skills.example.com"));
    }
    Ok(text.to_owned())
}

fn key(text: &str) -> Result<String, String> {
    // A header carries it, so it must be visible ASCII; the value itself is never repeated.
    if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err("must be printable ASCII without spaces".into());
    }
    if text.len() > crate::auth::MAX_KEY_LENGTH {
        return Err(format!("is longer than {} characters", crate::auth::MAX_KEY_LENGTH));
    }
    Ok(text.to_owned())
}

fn controls(text: &str) -> Result<Vec<Control>, String> {
    words(text)
        .map(|word| word.parse().map_err(|_| format!("`{word}` is not a control; `skillbox doctor` lists them")))
        .collect()
}

fn images(text: &str) -> Result<Vec<String>, String> {
    let images: Vec<String> = words(text).map(str::to_owned).collect();
    match images.iter().find(|image| image.contains(char::is_whitespace)) {
        Some(image) => Err(format!("`{image}` is not an image; write them with commas in between")),
        None if images.is_empty() => Err("names no image such as python:3.12-slim".into()),
        None => Ok(images),
    }
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').map(str::trim).filter(|word| !word.is_empty())
}

fn number<T: FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("`{text}` is not a number in range"))
}

fn positive<T: FromStr + PartialOrd + From<u8>>(text: &str) -> Result<T, String> {
    match text.parse() {
        Ok(value) if value >= T::from(1) => Ok(value),
        _ => Err(format!("`{text}` is not a whole number of at least 1")),
    }
}

fn duration(text: &str) -> Result<Duration, String> {
    match skill::parse_duration(text) {
        Ok(0) => Err("must be longer than nothing".into()),
        Ok(ms) => Ok(Duration::from_millis(ms)),
        Err(_) => Err(format!("`{text}` is not a duration such as 30s or 10m")),
    }
}

fn size(text: &str) -> Result<u64, String> {
    match skill::parse_memory(text) {
        Ok(0) | Err(_) => Err(format!("`{text}` is not a size such as 1048576 or 256Mi")),
        Ok(bytes) => Ok(bytes),
    }
}

fn size_in_memory(text: &str) -> Result<usize, String> {
    usize::try_from(size(text)?).map_err(|_| format!("`{text}` is too large for this machine"))
}

fn cpu(text: &str) -> Result<u32, String> {
    match skill::parse_cpu(text) {
        Ok(0) | Err(_) => Err(format!("`{text}` is not a number of CPUs such as 0.5, 500m or 2")),
        Ok(millis) => Ok(millis),
    }
}

fn log_level(text: &str) -> Result<String, String> {
    // The filter takes any other word for a target to be traced, and then says nothing at all.
    let level = |word: &&str| word.contains('=') || word.parse::<LevelFilter>().is_ok();
    if let Some(word) = words(text).find(|word| !level(word)) {
        return Err(format!("`{word}` is not a log level; use error, warn, info, debug, trace or off"));
    }
    let filter = tracing_subscriber::EnvFilter::builder().parse(text);
    filter.map(|_| text.to_owned()).map_err(|e| format!("`{text}` is not a log level such as info: {e}"))
}

fn log_format(text: &str) -> Result<LogFormat, String> {
    match text {
        "text" => Ok(LogFormat::Text),
        "json" => Ok(LogFormat::Json),
        _ => Err(format!("`{text}` is not a log format; use `text` or `json`")),
    }
}

impl Config {
    /// The database in force.
    pub fn dsn(&self) -> String {
        match &self.db_dsn {
            Some(dsn) => dsn.clone(),
            None => format!("sqlite:{}", self.data_dir.join("skillbox.db").display()),
        }
    }

    /// Whether only this machine can reach the server.
    pub fn is_loopback(&self) -> bool {
        self.bind.to_canonical().is_loopback()
    }
}
