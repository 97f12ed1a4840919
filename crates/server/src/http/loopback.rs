//! The one rule of this crate for what is this machine. The crates `client` (whose rule the command
//! line uses) and `docker-proxy` know no other crate of ours, so each has its own copy; all of them
//! leave the addresses to `is_loopback` of the standard library.

use std::net::IpAddr;

use url::Host;

/// Whether only programs on this machine can reach the address. An IPv4 address inside an IPv6 one
/// is the same address.
pub(crate) fn is_loopback_address(address: IpAddr) -> bool {
    address.to_canonical().is_loopback()
}

/// Whether the host of a URL is this machine. Other names are never resolved: their answer could
/// change between the check and the use.
pub(crate) fn is_loopback_host(host: &Host<&str>) -> bool {
    match *host {
        Host::Domain(name) => name == "localhost",
        Host::Ipv4(address) => is_loopback_address(address.into()),
        Host::Ipv6(address) => is_loopback_address(address.into()),
    }
}

#[cfg(test)]
mod tests {
    use url::Url;

    use super::*;

    #[test]
    fn only_localhost_and_loopback_addresses_are_this_machine() {
        let loopback = |host: &str| {
            let url = Url::parse(&format!("http://{host}")).expect(host);
            is_loopback_host(&url.host().expect(host))
        };
        for host in ["localhost", "127.0.0.1", "127.9.9.9", "[::1]", "[::ffff:127.0.0.1]"] {
            assert!(loopback(host), "{host}");
        }
        for host in ["localhost.example.com", "10.0.0.1", "0.0.0.0", "[::]", "[::ffff:10.0.0.1]"] {
            assert!(!loopback(host), "{host}");
        }
    }
}
