//! Which addresses a destination may lead to. What is judged is the address that is connected, not a name of it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{Ipv4Net, Ipv6Net};

/// Whose an address is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Zone {
    /// Anybody's on the internet.
    Public,
    /// A private network's, or one shared by the customers of a carrier.
    Private,
    /// This machine's own. In a function, its runtime's interface is there.
    Loopback,
    /// Never a valid destination: link-local, where a cloud keeps its credentials, multicast, unspecified,
    /// documentation, reserved, or a tunnel to any other address.
    Forbidden,
}

const V4: [(&str, Zone); 16] = [
    ("0.0.0.0/8", Zone::Forbidden),
    ("10.0.0.0/8", Zone::Private),
    ("100.64.0.0/10", Zone::Private),
    ("127.0.0.0/8", Zone::Loopback),
    ("169.254.0.0/16", Zone::Forbidden),
    ("172.16.0.0/12", Zone::Private),
    ("192.0.0.0/24", Zone::Forbidden),
    ("192.0.2.0/24", Zone::Forbidden),
    ("192.31.196.0/24", Zone::Forbidden),
    ("192.52.193.0/24", Zone::Forbidden),
    ("192.88.99.0/24", Zone::Forbidden),
    ("192.168.0.0/16", Zone::Private),
    ("198.18.0.0/15", Zone::Forbidden),
    ("198.51.100.0/24", Zone::Forbidden),
    ("203.0.113.0/24", Zone::Forbidden),
    ("224.0.0.0/3", Zone::Forbidden),
];

/// Loopback and private networks; and within `2000::/3`, what is not global unicast: Teredo and other protocols'
/// addresses, documentation, 6to4.
const V6: [(&str, Zone); 7] = [
    ("::1/128", Zone::Loopback),
    // The credentials of AWS, which are in the range of private networks.
    ("fd00:ec2::/32", Zone::Forbidden),
    ("fc00::/7", Zone::Private),
    ("2001::/23", Zone::Forbidden),
    ("2001:db8::/32", Zone::Forbidden),
    ("2002::/16", Zone::Forbidden),
    ("3fff::/20", Zone::Forbidden),
];

/// Whose this address is. An IPv4 address inside an IPv6 address, mapped or translated (NAT64), counts as itself.
/// Tunnels (6to4, Teredo) are forbidden whatever is inside.
pub fn zone(address: IpAddr) -> Zone {
    match address {
        IpAddr::V4(address) => zone_v4(address),
        IpAddr::V6(address) => embedded(address).map_or_else(|| zone_v6(address), zone_v4),
    }
}

fn zone_v4(address: Ipv4Addr) -> Zone {
    let found = V4.iter().find(|(net, _)| net.parse::<Ipv4Net>().is_ok_and(|net| net.contains(&address)));
    found.map_or(Zone::Public, |(_, zone)| *zone)
}

fn zone_v6(address: Ipv6Addr) -> Zone {
    let found = V6.iter().find(|(net, _)| net.parse::<Ipv6Net>().is_ok_and(|net| net.contains(&address)));
    let global = address.octets()[0] >> 5 == 0b001;
    found.map_or(if global { Zone::Public } else { Zone::Forbidden }, |(_, zone)| *zone)
}

/// The IPv4 address inside: `::ffff:0:0/96` maps it, `64:ff9b::/96` translates it.
fn embedded(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let translated = |[a, b, c, d, e, f, high, low]: [u16; 8]| {
        let [w, x] = high.to_be_bytes();
        let [y, z] = low.to_be_bytes();
        ([a, b, c, d, e, f] == [0x64, 0xff9b, 0, 0, 0, 0]).then(|| Ipv4Addr::new(w, x, y, z))
    };
    address.to_ipv4_mapped().or_else(|| translated(address.segments()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_public_addresses_are_public() {
        for (zone_of, addresses) in [
            (Zone::Public, "1.1.1.1 99.255.255.255 172.32.0.1 2606:4700::1 2a00::1 ::ffff:1.1.1.1 64:ff9b::8.8.8.8"),
            (Zone::Private, "10.0.0.1 172.31.255.255 192.168.1.1 100.64.0.1 100.127.255.255 fd00::1 fd00:ec3::1"),
            (Zone::Private, "::ffff:10.0.0.1 64:ff9b::192.168.0.1"),
            (Zone::Loopback, "127.0.0.1 127.255.0.1 ::1 ::ffff:127.0.0.1 64:ff9b::7f00:1"),
            (Zone::Forbidden, "0.0.0.0 169.254.169.254 169.254.170.2 224.0.0.1 240.0.0.1 255.255.255.255"),
            (Zone::Forbidden, "fd00:ec2::254 fd00:ec2::23"),
            (Zone::Forbidden, "192.0.0.8 192.0.2.1 198.18.0.1 198.51.100.1 203.0.113.1 192.88.99.1"),
            (Zone::Forbidden, ":: ::7f00:1 fe80::1 fec0::1 ff02::1 2001:db8::1 3fff::1 100::1"),
            (Zone::Forbidden, "2002:7f00:1::1 2002:808:808::1 2001:0:1::1 ::ffff:169.254.169.254"),
            (Zone::Forbidden, "64:ff9b::a9fe:a9fe 64:ff9b:1::1 2001:2::1 2001:20::1 5f00::1"),
        ] {
            for address in addresses.split(' ') {
                assert_eq!(zone(address.parse().unwrap()), zone_of, "{address}");
            }
        }
    }

    #[test]
    fn every_range_is_one() {
        assert!(V4.iter().all(|(net, _)| net.parse::<Ipv4Net>().is_ok_and(|net| net.addr() == net.network())));
        assert!(V6.iter().all(|(net, _)| net.parse::<Ipv6Net>().is_ok_and(|net| net.addr() == net.network())));
    }
}
