//! The `Host` header: whether a request was sent to this proxy on purpose.
//!
//! With DNS rebinding, an attacker points the name of a web page at this machine. For the browser
//! the page and the proxy then have one origin, so its requests have no `Origin` header. They are
//! recognized by their `Host`, a name that was not configured for this proxy.

use std::net::IpAddr;

use http::header::{self, HeaderMap};
use http::uri::Authority;

use crate::address::Address;
use crate::request_error::{RequestResult, forbidden, malformed};

/// The names of this proxy besides loopback ones.
pub(crate) struct AllowedHosts(Vec<String>);

impl AllowedHosts {
    pub(crate) fn new(listen: &Address, configured: &[String]) -> AllowedHosts {
        let bound = match listen {
            Address::Tcp(authority) => authority.rsplit_once(':').map(|(host, _)| host.to_owned()),
            Address::Unix(_) => None,
        };
        AllowedHosts(bound.iter().chain(configured).map(|name| normalized(name)).collect())
    }

    /// `local` is the local address of the connection; none on a Unix socket, which browsers cannot
    /// connect to.
    pub(crate) fn check(&self, headers: &HeaderMap, local: Option<IpAddr>) -> RequestResult {
        let mut given = headers.get_all(header::HOST).iter();
        let (host, more) = (given.next(), given.next());
        if more.is_some() {
            return malformed("it has two Host headers");
        }
        let Some(local) = local else { return Ok(()) };
        let host = host.and_then(|host| Authority::try_from(host.as_bytes()).ok());
        let Some(host) = host.filter(|host| !host.as_str().contains('@')) else {
            return malformed("its Host header is missing or invalid");
        };
        let host = normalized(host.host());
        if self.is_known(&host, local) {
            return Ok(());
        }
        forbidden(format!(
            "a request for the host {host:?}, which is not this proxy; if servers reach it by that name, add it with \
             --hosts"
        ))
    }

    /// The rule for loopback is the same as in `server` and `client`: this crate knows no other
    /// crate of ours.
    fn is_known(&self, host: &str, local: IpAddr) -> bool {
        let address = host.parse::<IpAddr>().map(|address| address.to_canonical());
        host == "localhost"
            || address.is_ok_and(|address| address.is_loopback() || address == local.to_canonical())
            || self.0.iter().any(|known| known == host)
    }
}

/// Lower case, and an IPv6 address without its brackets.
fn normalized(host: &str) -> String {
    host.trim_start_matches('[').trim_end_matches(']').to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(hosts: &[&str]) -> HeaderMap {
        hosts.iter().map(|host| (header::HOST, host.parse().expect("a value"))).collect()
    }

    #[test]
    fn accepts_only_names_of_this_proxy() {
        let listen = "tcp://0.0.0.0:2375".parse().expect("an address");
        let hosts = AllowedHosts::new(&listen, &["Docker-Proxy".to_owned()]);
        let local = Some("10.1.2.3".parse().expect("an address"));
        for host in [
            "localhost", "LOCALHOST:2375", "127.0.0.1:2375", "127.9.9.9", "[::1]:80",
            "10.1.2.3:2375", "0.0.0.0:2375", "docker-proxy:2375", "[::ffff:10.1.2.3]:1",
        ] {
            assert_eq!(hosts.check(&headers(&[host]), local), Ok(()), "{host}");
        }
        for host in [
            "evil.example", "evil.example:2375", "10.1.2.4:2375", "docker-proxy.evil.example",
            "localhost.evil.example", "x@localhost", "localhost@evil.example", "", "localhost/",
            "evil.localhost", "127.0.0.1.evil.example", "2130706433", "0x7f.1",
        ] {
            assert!(hosts.check(&headers(&[host]), local).is_err(), "{host}");
        }
        assert!(hosts.check(&headers(&[]), local).is_err());
        assert!(hosts.check(&headers(&["localhost", "localhost"]), local).is_err());
        assert_eq!(hosts.check(&headers(&["anything"]), None), Ok(()), "a Unix socket");
    }
}
