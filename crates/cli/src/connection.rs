//! From the global flags to a client: which server, which key.

use std::path::PathBuf;

use anyhow::Result;
use client::Client;
use server::config::Config;
use url::{Host, Url};

use crate::args::Global;

/// A client for the server the flags name.
pub fn open(global: &Global) -> Result<Client> {
    let key = given(global.api_key.as_deref()).or_else(|| first_key(&global.server));
    Ok(with_key(&global.server, key, given(global.tenant.as_deref()))?)
}

/// A client with a key that is already known.
pub fn with_key(
    server: &str,
    key: Option<String>,
    tenant: Option<String>,
) -> Result<Client, client::ClientError> {
    let user_agent = concat!("skillbox/", env!("CARGO_PKG_VERSION"));
    Client::builder().key(key).tenant(tenant).user_agent(user_agent).build(server)
}

/// An empty variable is how people unset one.
fn given(value: Option<&str>) -> Option<String> {
    value.map(str::trim).filter(|value| !value.is_empty()).map(str::to_owned)
}

/// The first key of the embedded server on this machine, if this user may read it.
/// It is never sent to another machine.
fn first_key(server: &str) -> Option<String> {
    if !is_this_machine(server) {
        return None;
    }
    let config = Config::load_for_client().ok()?;
    given(std::fs::read_to_string(first_key_path(&config)).ok().as_deref())
}

/// Where the embedded server keeps the key it made on its first start.
pub fn first_key_path(config: &Config) -> PathBuf {
    config.data_dir.join("key")
}

fn is_this_machine(server: &str) -> bool {
    let text = if server.contains("://") { server.to_owned() } else { format!("http://{server}") };
    match Url::parse(&text).ok().as_ref().and_then(Url::host) {
        Some(Host::Domain(name)) => name == "localhost",
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_local_key_stays_on_this_machine() {
        for server in ["http://localhost:8080", "localhost", "http://127.0.0.1:9", "http://[::1]:1"]
        {
            assert!(is_this_machine(server), "{server}");
        }
        for server in [
            "https://skills.example.com", "http://10.0.0.1", "http://localhost.example.com",
            "http://localhost@evil.example", "",
        ] {
            assert!(!is_this_machine(server), "{server}");
        }
    }
}
