//! Which IP addresses belong to the public internet.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Whether the address is public. Any other address is this machine, this network or reserved: a
/// caller who names one may want this server to reach what the caller cannot (SSRF).
pub(super) fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let special = match address.octets() {
        // "This network", private, shared (carrier NAT), loopback, link-local with the metadata
        // services.
        [0 | 10 | 127, ..] | [169, 254, ..] | [192, 168, ..] => true,
        [172, second, ..] => second & 0xf0 == 16,
        [100, second, ..] => second & 0xc0 == 64,
        // Protocol assignments, documentation, the old 6to4 relays, benchmarks.
        [192, 0, 0 | 2, _]
        | [192, 88, 99, _]
        | [198, 51, 100, _]
        | [203, 0, 113, _]
        | [198, 18 | 19, ..] => true,
        // Multicast, reserved, broadcast.
        [first, ..] => first >= 224,
    };
    !special
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let [first, second, ..] = address.segments();
    // Only 2000::/3 is handed out. That leaves out loopback, mapped and translated IPv4
    // (::ffff:0:0/96, 64:ff9b::/96), unique local, link-local and multicast; inside it, tunnels
    // lead to IPv4 addresses of the caller's choice.
    let unicast = first & 0xe000 == 0x2000;
    let teredo = first == 0x2001 && second < 0x0200;
    let documentation =
        (first == 0x2001 && second == 0x0db8) || (first == 0x3fff && second < 0x1000);
    unicast && !teredo && !documentation && first != 0x2002
}

#[cfg(test)]
mod tests {
    use super::*;

    fn public(text: &str) -> bool {
        is_public(text.parse().expect(text))
    }

    #[test]
    fn addresses_outside_the_public_internet_are_refused() {
        for address in [
            "0.0.0.0", "0.1.2.3", "10.0.0.1", "100.64.0.1", "100.127.255.255", "127.0.0.1",
            "127.255.0.1", "169.254.169.254", "169.254.170.2", "172.16.0.1", "172.31.255.255",
            "192.0.0.8", "192.0.2.1", "192.88.99.1", "192.168.1.1", "198.18.0.1", "198.19.255.255",
            "198.51.100.7", "203.0.113.7", "224.0.0.1", "239.255.255.255", "240.0.0.1",
            "255.255.255.255", "::", "::1", "::127.0.0.1", "::ffff:127.0.0.1",
            "::ffff:169.254.169.254", "::ffff:8.8.8.8", "64:ff9b::7f00:1", "64:ff9b:1::1",
            "100::1", "fc00::1", "fd00:ec2::254", "fe80::1", "fec0::1", "ff02::1", "2001::1",
            "2001:0:7f00:1::", "2001:10::1", "2001:20::1", "2001:db8::1", "2002:7f00:1::",
            "2002:a9fe:a9fe::", "3fff::1", "4000::1",
        ] {
            assert!(!public(address), "{address}");
        }
    }

    #[test]
    fn public_addresses_are_allowed() {
        for address in [
            "1.1.1.1", "8.8.8.8", "100.63.255.255", "100.128.0.1", "172.15.0.1", "172.32.0.1",
            "192.0.1.1", "192.167.0.1", "198.17.0.1", "198.20.0.1", "223.255.255.255",
            "2600:1f18::1", "2a00:1450::1", "2001:4860:4860::8888",
        ] {
            assert!(public(address), "{address}");
        }
    }
}
