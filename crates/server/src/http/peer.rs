//! The client address of a request: the peer of the connection, or the address that a trusted proxy
//! reports.
//!
//! Limits by address count an IPv6 network of 64 bits as one address, because one subscriber gets
//! that many.

use std::net::{IpAddr, Ipv6Addr};

use http::HeaderMap;
use http::request::Parts;

const FORWARDED_FOR: &str = "x-forwarded-for";

/// The peer of a connection. Every request has it as an extension.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Peer(IpAddr);

impl Peer {
    pub fn new(address: IpAddr) -> Peer {
        Peer(address.to_canonical())
    }

    /// The unit of limits by address: an IPv4 address, or the first 64 bits of an IPv6 address.
    pub fn network(self) -> Peer {
        match self.0 {
            IpAddr::V4(_) => self,
            IpAddr::V6(address) => {
                Peer(Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX)).into())
            }
        }
    }
}

/// A range of addresses: `10.0.0.0/8`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IpNetwork {
    address: IpAddr,
    prefix: u8,
}

impl IpNetwork {
    /// Reads `10.0.0.0/8`, or a single address.
    pub fn parse(text: &str) -> Option<IpNetwork> {
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix.parse().ok()?)),
            None => (text, None),
        };
        let address: IpAddr = address.parse().ok()?;
        let bits = if address.is_ipv4() { 32 } else { 128 };
        let prefix = prefix.unwrap_or(bits);
        (prefix <= bits).then_some(IpNetwork { address, prefix })
    }

    fn contains(&self, Peer(peer): Peer) -> bool {
        match (self.address, peer) {
            (IpAddr::V4(own), IpAddr::V4(peer)) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(self.prefix)).unwrap_or(0);
                own.to_bits() & mask == peer.to_bits() & mask
            }
            (IpAddr::V6(own), IpAddr::V6(peer)) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(self.prefix)).unwrap_or(0);
                own.to_bits() & mask == peer.to_bits() & mask
            }
            _ => false,
        }
    }
}

/// The proxies whose `X-Forwarded-For` is trusted.
#[derive(Clone, Default)]
pub struct TrustedProxies(pub Vec<IpNetwork>);

impl TrustedProxies {
    pub fn contains(&self, peer: Peer) -> bool {
        self.0.iter().any(|network| network.contains(peer))
    }

    /// The client behind a request: the peer itself, unless that is a trusted proxy.
    pub fn client(&self, parts: &Parts) -> Peer {
        // Only tests of the router make requests without a connection.
        let peer =
            parts.extensions.get::<Peer>().copied().unwrap_or(Peer(Ipv6Addr::UNSPECIFIED.into()));
        if !self.contains(peer) {
            return peer;
        }
        self.forwarded_client(&parts.headers).unwrap_or(peer)
    }

    /// The client by `X-Forwarded-For`. Each proxy appends the address of its peer, so only the
    /// entries at the end were written by trusted proxies: the last one that is not the address of a
    /// proxy is the client. When all entries are addresses of proxies, the last one is used, because
    /// a client can forge the others.
    fn forwarded_client(&self, headers: &HeaderMap) -> Option<Peer> {
        let lines = headers
            .get_all(FORWARDED_FOR)
            .iter()
            .rev()
            .map(|line| line.to_str().unwrap_or_default());
        let mut hops = lines.flat_map(|line| line.rsplit(',')).map(|hop| parse_address(hop.trim()));
        let last = hops.next()??;
        if !self.contains(last) {
            return Some(last);
        }
        // An unparsable entry ends the search: no trusted proxy wrote anything to its left.
        let client = hops.map_while(|hop| hop).find(|hop| !self.contains(*hop));
        Some(client.unwrap_or(last))
    }
}

/// Parses an address as proxies write it: plain, in brackets, or with a port.
fn parse_address(text: &str) -> Option<Peer> {
    let plain = text.parse::<IpAddr>().ok();
    let with_port = || text.parse::<std::net::SocketAddr>().ok().map(|address| address.ip());
    let bracketed = || text.strip_prefix('[')?.strip_suffix(']')?.parse::<IpAddr>().ok();
    plain.or_else(with_port).or_else(bracketed).map(Peer::new)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(text: &str) -> Peer {
        Peer::new(text.parse().expect("an address"))
    }

    fn proxies(networks: &[&str]) -> TrustedProxies {
        TrustedProxies(
            networks.iter().map(|text| IpNetwork::parse(text).expect("a network")).collect(),
        )
    }

    fn client(proxies: &TrustedProxies, from: &str, forwarded: &[&str]) -> Peer {
        let mut request = http::Request::builder().extension(peer(from));
        for line in forwarded {
            request = request.header(FORWARDED_FOR, *line);
        }
        proxies.client(&request.body(()).expect("a request").into_parts().0)
    }

    #[test]
    fn networks_are_parsed_and_compared() {
        let contains = |network: &str, address: &str| proxies(&[network]).contains(peer(address));
        assert!(contains("10.0.0.0/8", "10.255.1.2") && !contains("10.0.0.0/8", "11.0.0.1"));
        assert!(contains("127.0.0.1", "127.0.0.1") && !contains("127.0.0.1", "127.0.0.2"));
        assert!(contains("0.0.0.0/0", "192.0.2.1") && !contains("0.0.0.0/0", "2001:db8::1"));
        assert!(
            contains("2001:db8::/32", "2001:db8:1::1") && !contains("2001:db8::/32", "2001:db9::1")
        );
        assert!(
            contains("10.0.0.0/8", "::ffff:10.0.0.1"),
            "the same address on a dual-stack socket"
        );
        for wrong in ["", "10.0.0.0/33", "::/129", "proxy", "10.0.0.0/-1", "10.0.0.0/8/8"] {
            assert_eq!(IpNetwork::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn an_ipv6_subscriber_counts_once() {
        assert_eq!(peer("2001:db8:1:2::3").network(), peer("2001:db8:1:2:ffff::").network());
        assert_ne!(peer("2001:db8:1:2::3").network(), peer("2001:db8:1:3::3").network());
        assert_ne!(peer("192.0.2.1").network(), peer("192.0.2.2").network());
    }

    #[test]
    fn only_a_trusted_proxy_reports_the_client() {
        let trusted = proxies(&["10.0.0.0/8"]);
        assert_eq!(
            client(&trusted, "192.0.2.7", &["203.0.113.9"]),
            peer("192.0.2.7"),
            "any client can send the header"
        );
        assert_eq!(
            client(&proxies(&[]), "10.0.0.1", &["203.0.113.9"]),
            peer("10.0.0.1"),
            "no proxy is trusted by default"
        );
        assert_eq!(client(&trusted, "10.0.0.1", &["203.0.113.9"]), peer("203.0.113.9"));
        assert_eq!(client(&trusted, "10.0.0.1", &[]), peer("10.0.0.1"));
        assert_eq!(client(&trusted, "10.0.0.1", &["[2001:db8::1]:4711"]), peer("2001:db8::1"));
    }

    #[test]
    fn a_client_cannot_forge_its_address() {
        let trusted = proxies(&["10.0.0.0/8"]);
        let cases = [
            (vec!["198.51.100.1, 203.0.113.9"], "203.0.113.9"),
            (vec!["198.51.100.1", "203.0.113.9"], "203.0.113.9"),
            (vec!["198.51.100.1, 203.0.113.9, 10.0.0.2"], "203.0.113.9"),
            (vec!["198.51.100.1, nonsense, 10.0.0.2"], "10.0.0.2"),
            (vec!["10.9.9.9, 10.0.0.2"], "10.0.0.2"),
            (vec!["198.51.100.1, nonsense"], "10.0.0.1"),
        ];
        for (forwarded, expected) in cases {
            assert_eq!(client(&trusted, "10.0.0.1", &forwarded), peer(expected), "{forwarded:?}");
        }
    }
}
