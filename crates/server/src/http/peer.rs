//! Where a request comes from: the address of the other end of the connection, or the one that a
//! trusted proxy names.
//!
//! Limits that count by address count an IPv6 network of 64 bits as one, because that is what one
//! subscriber gets.

use std::net::{IpAddr, Ipv6Addr};

use http::HeaderMap;
use http::request::Parts;

const FORWARDED_FOR: &str = "x-forwarded-for";

/// The other end of a connection. Every request carries it as an extension.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Peer(IpAddr);

impl Peer {
    pub fn new(address: IpAddr) -> Peer {
        Peer(address.to_canonical())
    }

    /// What limits count by: an IPv4 address, or the first 64 bits of an IPv6 address.
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

/// The proxies whose `X-Forwarded-For` is believed.
#[derive(Clone, Default)]
pub struct TrustedProxies(pub Vec<IpNetwork>);

impl TrustedProxies {
    pub fn contains(&self, peer: Peer) -> bool {
        self.0.iter().any(|network| network.contains(peer))
    }

    /// The client behind a request: the peer itself, unless that is a trusted proxy.
    pub fn client(&self, parts: &Parts) -> Peer {
        // A request without a connection is a test of the router.
        let peer =
            parts.extensions.get::<Peer>().copied().unwrap_or(Peer(Ipv6Addr::UNSPECIFIED.into()));
        if !self.contains(peer) {
            return peer;
        }
        self.forwarded(&parts.headers).unwrap_or(peer)
    }

    /// Each proxy appends the address it saw, so only the entries at the end were written by
    /// proxies we trust: the last that is not a proxy's own is the client. Where all are, the last
    /// one is taken, because a client can write the others.
    fn forwarded(&self, headers: &HeaderMap) -> Option<Peer> {
        let lines = headers
            .get_all(FORWARDED_FOR)
            .iter()
            .rev()
            .map(|line| line.to_str().unwrap_or_default());
        let mut hops = lines.flat_map(|line| line.rsplit(',')).map(|hop| address(hop.trim()));
        let last = hops.next()??;
        if !self.contains(last) {
            return Some(last);
        }
        // An entry that cannot be read ends the search: nothing to its left is known to be a
        // proxy's.
        let client = hops.map_while(|hop| hop).find(|hop| !self.contains(*hop));
        Some(client.unwrap_or(last))
    }
}

/// An address as proxies write it: plain, in brackets, or with a port.
fn address(text: &str) -> Option<Peer> {
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
    fn networks_are_read_and_compared() {
        let held = |network: &str, address: &str| proxies(&[network]).contains(peer(address));
        assert!(held("10.0.0.0/8", "10.255.1.2") && !held("10.0.0.0/8", "11.0.0.1"));
        assert!(held("127.0.0.1", "127.0.0.1") && !held("127.0.0.1", "127.0.0.2"));
        assert!(held("0.0.0.0/0", "192.0.2.1") && !held("0.0.0.0/0", "2001:db8::1"));
        assert!(held("2001:db8::/32", "2001:db8:1::1") && !held("2001:db8::/32", "2001:db9::1"));
        assert!(
            held("10.0.0.0/8", "::ffff:10.0.0.1"),
            "the same address on a socket for both families"
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
    fn only_a_trusted_proxy_names_the_client() {
        let trusted = proxies(&["10.0.0.0/8"]);
        assert_eq!(
            client(&trusted, "192.0.2.7", &["203.0.113.9"]),
            peer("192.0.2.7"),
            "anybody can send the header"
        );
        assert_eq!(
            client(&proxies(&[]), "10.0.0.1", &["203.0.113.9"]),
            peer("10.0.0.1"),
            "nobody is trusted unasked"
        );
        assert_eq!(client(&trusted, "10.0.0.1", &["203.0.113.9"]), peer("203.0.113.9"));
        assert_eq!(client(&trusted, "10.0.0.1", &[]), peer("10.0.0.1"));
        assert_eq!(client(&trusted, "10.0.0.1", &["[2001:db8::1]:4711"]), peer("2001:db8::1"));
    }

    #[test]
    fn a_client_cannot_write_itself_another_address() {
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
