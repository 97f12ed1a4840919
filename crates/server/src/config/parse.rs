//! One parser per type of value. Each error names what would be accepted and never repeats a secret.

use std::net::{IpAddr, Ipv4Addr};
use std::str::FromStr;
use std::time::Duration;

use sandbox::Control;
use tracing::level_filters::LevelFilter;

use super::sandboxes::SandboxKind;
use super::{LogFormat, Rate, Role};
use crate::auth::check_key_string;
use crate::http::loopback::is_loopback_host;
use crate::http::peer::{IpNetwork, TrustedProxies};

/// The secret must be as hard to guess as 32 random bytes; the length is all that can be checked.
const MIN_SECRET_LENGTH: usize = 32;

pub(super) fn role(text: &str) -> Result<Role, String> {
    match text {
        "all" => Ok(Role::All),
        "api" => Ok(Role::Api),
        "worker" => Ok(Role::Worker),
        _ => Err(format!("`{text}` is not a role; use `all`, `api` or `worker`")),
    }
}

pub(super) fn sandbox_kind(text: &str) -> Result<SandboxKind, String> {
    match text {
        "native" => Ok(SandboxKind::Native),
        "docker" => Ok(SandboxKind::Docker),
        "kubernetes" => Ok(SandboxKind::Kubernetes),
        _ => Err(format!("`{text}` is not a sandbox; use `native`, `docker` or `kubernetes`")),
    }
}

/// The name of a namespace, or of anything else that Kubernetes names alike.
pub(super) fn namespace(text: &str) -> Result<String, String> {
    let plain = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit() || c == b'-' || c == b'.';
    match text.len() <= 63
        && text.bytes().all(plain)
        && !text.starts_with(['-', '.'])
        && !text.ends_with(['-', '.'])
    {
        true => Ok(text.to_owned()),
        false => Err(format!("`{text}` is not a name such as `skillbox-sandboxes` or `gvisor`")),
    }
}

/// The place of a seccomp profile below the kubelet's directory of them.
pub(super) fn profile(text: &str) -> Result<String, String> {
    let outside =
        text.starts_with('/') || text.split('/').any(|part| part.is_empty() || part == "..");
    match outside || text.contains(char::is_whitespace) {
        true => Err(format!(
            "`{text}` is not a path such as `profiles/skillbox.json`, below the kubelet's own directory"
        )),
        false => Ok(text.to_owned()),
    }
}

pub(super) fn docker_host(text: &str) -> Result<String, String> {
    let socket =
        text.strip_prefix("unix://").is_some_and(|path| path.starts_with('/') && path.len() > 1);
    let address = text.strip_prefix("tcp://").is_some_and(|host| {
        host.parse::<http::uri::Authority>()
            .is_ok_and(|host| host.port().is_some() && !host.as_str().contains('@'))
    });
    match socket || address {
        true => Ok(text.to_owned()),
        false => Err(format!(
            "`{text}` is not an engine such as unix:///var/run/docker.sock or tcp://proxy:2375"
        )),
    }
}

pub(super) fn dsn(text: &str) -> Result<String, String> {
    // The value may hold a password, so it is not repeated.
    let known = ["sqlite:", "postgres://", "postgresql://"];
    match known.iter().any(|scheme| text.starts_with(scheme)) {
        true => Ok(text.to_owned()),
        false => Err("must start with `sqlite:` or `postgres://`".into()),
    }
}

pub(super) fn address(text: &str) -> Result<IpAddr, String> {
    match text {
        "localhost" => Ok(Ipv4Addr::LOCALHOST.into()),
        _ => text
            .parse()
            .map_err(|_| format!("`{text}` is not an IP address such as 127.0.0.1 or 0.0.0.0")),
    }
}

pub(super) fn base_url(text: &str) -> Result<String, String> {
    let text = text.trim_end_matches('/');
    let host = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    let usable = host.is_some_and(|host| !host.is_empty()) && text.parse::<http::Uri>().is_ok();
    if !usable || text.contains(['?', '#', '@']) {
        return Err(format!("`{text}` is not a base URL such as https://skills.example.com"));
    }
    Ok(text.to_owned())
}

/// The URL of the keys that verify tokens. Without TLS an attacker on the path could replace them,
/// and with them every identity.
pub(super) fn jwks_url(text: &str) -> Result<String, String> {
    let refusal = || format!("`{text}` is not an https:// URL (http:// only on this machine)");
    let url: url::Url = text.parse().map_err(|_| refusal())?;
    let loopback = url.host().is_some_and(|host| is_loopback_host(&host));
    let secure = url.scheme() == "https" || (url.scheme() == "http" && loopback);
    let has_credentials = !url.username().is_empty() || url.password().is_some();
    match secure && url.has_host() && !has_credentials {
        true => Ok(text.to_owned()),
        false => Err(refusal()),
    }
}

/// A secret of the operator's own making; the value itself is never repeated.
pub(super) fn long_secret(text: &str) -> Result<String, String> {
    match text.chars().count() >= MIN_SECRET_LENGTH {
        true => Ok(text.to_owned()),
        false => Err(format!(
            "must have at least {MIN_SECRET_LENGTH} characters; `openssl rand -hex 32` makes one"
        )),
    }
}

/// The same for one that callers send in a header.
pub(super) fn bearer_token(text: &str) -> Result<String, String> {
    long_secret(text).and_then(|text| header_word(&text))
}

/// A value that ends up in a header or a claim.
pub(super) fn header_word(text: &str) -> Result<String, String> {
    match text.bytes().all(|byte| byte.is_ascii_graphic()) {
        true => Ok(text.to_owned()),
        false => Err("must be printable ASCII without spaces".into()),
    }
}

pub(super) fn claim(text: &str) -> Result<String, String> {
    let known = ["iss", "aud", "exp", "nbf", "iat", "jti"];
    match header_word(text) {
        Ok(name) if !known.contains(&name.as_str()) => Ok(name),
        _ => Err(format!(
            "`{text}` is not a claim that can carry this; use one such as `tenant` or `scope`"
        )),
    }
}

pub(super) fn bucket(text: &str) -> Result<String, String> {
    let inner = |byte: u8| {
        byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'.')
    };
    let edge = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = text.as_bytes();
    let named = (3..=63).contains(&bytes.len()) && bytes.iter().all(|byte| inner(*byte));
    match named && edge(bytes.first()) && edge(bytes.last()) {
        true => Ok(text.to_owned()),
        false => Err(format!(
            "`{text}` is not a bucket: 3 to 63 lower-case letters, digits, `-` and `.`"
        )),
    }
}

pub(super) fn flag(text: &str) -> Result<bool, String> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "yes" | "on" | "1" => Ok(true),
        "false" | "no" | "off" | "0" => Ok(false),
        _ => Err(format!("`{text}` is neither `true` nor `false`")),
    }
}

/// Which of the keys for receipts signs. All up to it are derived at the start.
pub(super) fn generation(text: &str) -> Result<u32, String> {
    match text.parse() {
        Ok(generation @ 1..=1000) => Ok(generation),
        _ => Err(format!("`{text}` is not a generation; use a number from 1 to 1000")),
    }
}

/// The name of an OCI runtime.
pub(super) fn word(text: &str) -> Result<String, String> {
    match text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte)) {
        true => Ok(text.to_owned()),
        false => Err(format!("`{text}` is not a name such as `runc` or `runsc`")),
    }
}

pub(super) fn image(text: &str) -> Result<String, String> {
    match text.contains(|c: char| c.is_whitespace() || c == ',') {
        true => Err(format!("`{text}` is not an image such as python:3.12-slim")),
        false => Ok(text.to_owned()),
    }
}

pub(super) fn hosts(text: &str) -> Result<Vec<String>, String> {
    let host = |text: &str| match url::Host::parse(text) {
        Ok(host) => Ok(host.to_string()),
        Err(_) => Err(format!("`{text}` is not a host such as hooks.internal or 10.0.0.5")),
    };
    words(text).map(host).collect()
}

pub(super) fn networks(text: &str) -> Result<TrustedProxies, String> {
    let network = |text: &str| {
        IpNetwork::parse(text).ok_or_else(|| {
            format!("`{text}` is not an address or network such as 10.0.0.5 or 10.1.0.0/16")
        })
    };
    words(text).map(network).collect::<Result<_, _>>().map(TrustedProxies)
}

/// As many at once as in a minute.
pub(super) fn per_minute(text: &str) -> Result<Rate, String> {
    let burst: u32 = positive(text)?;
    Ok(Rate { burst, per_second: f64::from(burst) / 60.0 })
}

pub(super) fn key(text: &str) -> Result<String, String> {
    // The value is a secret, so the message does not repeat it.
    check_key_string(text).map_err(|error| error.to_string())?;
    Ok(text.to_owned())
}

pub(super) fn controls(text: &str) -> Result<Vec<Control>, String> {
    words(text)
        .map(|word| {
            word.parse()
                .map_err(|_| format!("`{word}` is not a control; `skillbox doctor` lists them"))
        })
        .collect()
}

pub(super) fn images(text: &str) -> Result<Vec<String>, String> {
    let images: Vec<String> = words(text).map(str::to_owned).collect();
    match images.iter().find(|image| image.contains(char::is_whitespace)) {
        Some(image) => Err(format!("`{image}` is not an image; write them with commas in between")),
        None if images.is_empty() => Err("names no image such as python:3.12-slim".into()),
        None => Ok(images),
    }
}

pub(super) fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').map(str::trim).filter(|word| !word.is_empty())
}

pub(super) fn number<T: FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("`{text}` is not a number in range"))
}

pub(super) fn positive<T: FromStr + PartialOrd + From<u8>>(text: &str) -> Result<T, String> {
    match text.parse() {
        Ok(value) if value >= T::from(1) => Ok(value),
        _ => Err(format!("`{text}` is not a whole number of at least 1")),
    }
}

pub(super) fn duration(text: &str) -> Result<Duration, String> {
    match skill::parse_duration(text) {
        Ok(0) => Err("must be longer than nothing".into()),
        Ok(ms) => Ok(Duration::from_millis(ms)),
        Err(_) => Err(format!("`{text}` is not a duration such as 30s or 10m")),
    }
}

/// A duration that may be written in days, or `forever`.
pub(super) fn period(text: &str) -> Result<Option<Duration>, String> {
    if text == "forever" {
        return Ok(None);
    }
    let days = text.strip_suffix('d').and_then(|days| days.parse::<u32>().ok());
    match days {
        Some(0) => Err("must be longer than nothing".into()),
        Some(days) => Ok(Some(Duration::from_secs(86_400 * u64::from(days)))),
        None => match duration(text) {
            Ok(time) => Ok(Some(time)),
            Err(_) => Err(format!("`{text}` is not a time such as 30d, 12h or `forever`")),
        },
    }
}

pub(super) fn size(text: &str) -> Result<u64, String> {
    match skill::parse_memory(text) {
        Ok(0) | Err(_) => Err(format!("`{text}` is not a size such as 1048576 or 256Mi")),
        Ok(bytes) => Ok(bytes),
    }
}

pub(super) fn size_in_memory(text: &str) -> Result<usize, String> {
    usize::try_from(size(text)?).map_err(|_| format!("`{text}` is too large for this machine"))
}

pub(super) fn cpu(text: &str) -> Result<u32, String> {
    match skill::parse_cpu(text) {
        Ok(0) | Err(_) => Err(format!("`{text}` is not a number of CPUs such as 0.5, 500m or 2")),
        Ok(millis) => Ok(millis),
    }
}

pub(super) fn log_level(text: &str) -> Result<String, String> {
    // The filter takes any other word for a target to be traced, and then says nothing at all.
    let level = |word: &&str| word.contains('=') || word.parse::<LevelFilter>().is_ok();
    if let Some(word) = words(text).find(|word| !level(word)) {
        return Err(format!(
            "`{word}` is not a log level; use error, warn, info, debug, trace or off"
        ));
    }
    let filter = tracing_subscriber::EnvFilter::builder().parse(text);
    filter
        .map(|_| text.to_owned())
        .map_err(|e| format!("`{text}` is not a log level such as info: {e}"))
}

pub(super) fn log_format(text: &str) -> Result<LogFormat, String> {
    match text {
        "text" => Ok(LogFormat::Text),
        "json" => Ok(LogFormat::Json),
        _ => Err(format!("`{text}` is not a log format; use `text` or `json`")),
    }
}
