//! Makes a client from the global flags: selects the server and the key.

use std::path::PathBuf;

use anyhow::Result;
use client::Client;
use server::config::Config;
use url::Url;

use crate::args::Global;

/// A client for the server that the flags select.
pub(crate) fn open(global: &Global) -> Result<Client> {
    let key = non_empty(global.api_key.as_deref()).or_else(|| first_key(&global.server));
    Ok(with_key(&global.server, key, non_empty(global.tenant.as_deref()))?)
}

/// A client with an explicit key.
pub(crate) fn with_key(
    server: &str,
    key: Option<String>,
    tenant: Option<String>,
) -> Result<Client, client::ClientError> {
    let user_agent = concat!("skillbox/", env!("CARGO_PKG_VERSION"));
    Client::builder().key(key).tenant(tenant).user_agent(user_agent).build(server)
}

/// Treats an empty value as missing, because an empty variable is a common way to unset one.
fn non_empty(value: Option<&str>) -> Option<String> {
    value.map(str::trim).filter(|value| !value.is_empty()).map(str::to_owned)
}

/// The first key of the embedded server on this machine, if this user may read it. It is never sent
/// to another machine.
fn first_key(server: &str) -> Option<String> {
    if !is_loopback(server) {
        return None;
    }
    let config = Config::load_for_client().ok()?;
    non_empty(std::fs::read_to_string(first_key_path(&config)).ok().as_deref())
}

/// The file of the key that the embedded server created on its first start.
pub(crate) fn first_key_path(config: &Config) -> PathBuf {
    config.data_dir.join("key")
}

fn is_loopback(server: &str) -> bool {
    let text = if server.contains("://") { server.to_owned() } else { format!("http://{server}") };
    Url::parse(&text).is_ok_and(|url| client::is_loopback_url(&url))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_key_is_sent_to_loopback_only() {
        for server in ["http://localhost:8080", "localhost", "http://127.0.0.1:9", "http://[::1]:1"]
        {
            assert!(is_loopback(server), "{server}");
        }
        for server in [
            "https://skills.example.com", "http://10.0.0.1", "http://localhost.example.com",
            "http://localhost@evil.example", "",
        ] {
            assert!(!is_loopback(server), "{server}");
        }
    }
}
