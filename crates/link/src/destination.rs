//! Addresses that must not be reached on behalf of a client: the host itself, its link, and the
//! services that tell a cloud VM its credentials.
//!
//! The proxy subresource, webhooks and image downloads connect to addresses that a client chose.
//! All of them decide by this list, so that none forgets a form of an address.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Instance metadata services outside of the link-local range.
const METADATA: [IpAddr; 4] = [
    IpAddr::V4(Ipv4Addr::new(100, 100, 100, 200)),
    IpAddr::V4(Ipv4Addr::new(168, 63, 129, 16)),
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254)),
    IpAddr::V6(Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254)),
];

/// Reason why an address is not a destination for requests of clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Forbidden {
    Loopback,
    /// `0.0.0.0/8` and `::`: the kernel connects to the host itself.
    Unspecified,
    LinkLocal,
    Multicast,
    Broadcast,
    Metadata,
    /// Translated by a gateway in a way that only its operator knows.
    Translated,
}

/// Returns why an address is forbidden; `None` if it may be reached. IPv4 addresses inside of IPv6
/// ones count as the IPv4 address.
pub fn forbidden(address: IpAddr) -> Option<Forbidden> {
    if METADATA.contains(&address) {
        return Some(Forbidden::Metadata);
    }
    match address {
        IpAddr::V4(address) => forbidden_4(address),
        IpAddr::V6(address) => forbidden_6(address),
    }
}

/// Reports whether pods of an unprivileged node have such addresses: a part of the loopback range
/// in which programs of the host do not listen, unless they listen on all addresses.
pub fn is_loopback_pod(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => {
            let [first, second, ..] = address.octets();
            first == 127 && second & 0xc0 == 64
        }
        IpAddr::V6(_) => false,
    }
}

fn forbidden_4(address: Ipv4Addr) -> Option<Forbidden> {
    if address.octets()[0] == 0 {
        return Some(Forbidden::Unspecified);
    }
    let kinds = [
        (address.is_loopback(), Forbidden::Loopback),
        (address.is_link_local(), Forbidden::LinkLocal),
        (address.is_multicast(), Forbidden::Multicast),
        (address.is_broadcast(), Forbidden::Broadcast),
    ];
    kinds.into_iter().find_map(|(is_kind, kind)| is_kind.then_some(kind))
}

fn forbidden_6(address: Ipv6Addr) -> Option<Forbidden> {
    if address.is_loopback() {
        return Some(Forbidden::Loopback);
    }
    if address.is_unspecified() {
        return Some(Forbidden::Unspecified);
    }
    if address.is_multicast() {
        return Some(Forbidden::Multicast);
    }
    // Site-local addresses are deprecated and were used like link-local ones.
    if address.is_unicast_link_local() || address.segments()[0] & 0xffc0 == 0xfec0 {
        return Some(Forbidden::LinkLocal);
    }
    if address.segments()[..3] == [0x64, 0xff9b, 1] {
        return Some(Forbidden::Translated);
    }
    embedded_ipv4(address).and_then(|embedded| forbidden(embedded.into()))
}

/// Returns the IPv4 address that packets to an IPv6 address are delivered to, for the forms that
/// name one: IPv4-mapped, IPv4-compatible, IPv4-translated, NAT64, 6to4, ISATAP and Teredo.
fn embedded_ipv4(address: Ipv6Addr) -> Option<Ipv4Addr> {
    let segments = address.segments();
    let at = |high: u16, low: u16| {
        let [a, b] = high.to_be_bytes();
        let [c, d] = low.to_be_bytes();
        Ipv4Addr::new(a, b, c, d)
    };
    let last = at(segments[6], segments[7]);
    match segments {
        [0, 0, 0, 0, 0, 0 | 0xffff, ..] => Some(last),
        [0, 0, 0, 0, 0xffff, 0, ..] => Some(last),
        [0x64, 0xff9b, 0, 0, 0, 0, ..] => Some(last),
        [0x2002, high, low, ..] => Some(at(high, low)),
        // A Teredo client is the last 32 bits, inverted.
        [0x2001, 0, ..] => Some(at(!segments[6], !segments[7])),
        [_, _, _, _, 0 | 0x200, 0x5efe, ..] => Some(last),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_host_its_link_and_metadata_services_are_forbidden_in_every_form() {
        for (text, expected) in [
            ("127.0.0.1", Forbidden::Loopback),
            ("127.255.0.3", Forbidden::Loopback),
            ("127.64.0.1", Forbidden::Loopback),
            ("0.0.0.0", Forbidden::Unspecified),
            ("0.0.0.1", Forbidden::Unspecified),
            ("169.254.169.254", Forbidden::LinkLocal),
            ("224.0.0.1", Forbidden::Multicast),
            ("255.255.255.255", Forbidden::Broadcast),
            ("100.100.100.200", Forbidden::Metadata),
            ("168.63.129.16", Forbidden::Metadata),
            ("fd00:ec2::254", Forbidden::Metadata),
            ("fd20:ce::254", Forbidden::Metadata),
            ("::1", Forbidden::Loopback),
            ("::", Forbidden::Unspecified),
            ("fe80::1", Forbidden::LinkLocal),
            ("fec0::1", Forbidden::LinkLocal),
            ("ff02::1", Forbidden::Multicast),
            ("::ffff:127.0.0.1", Forbidden::Loopback),
            ("::ffff:169.254.169.254", Forbidden::LinkLocal),
            ("::ffff:100.100.100.200", Forbidden::Metadata),
            ("::127.0.0.1", Forbidden::Loopback),
            ("::ffff:0:127.0.0.1", Forbidden::Loopback),
            ("64:ff9b::a9fe:a9fe", Forbidden::LinkLocal),
            ("64:ff9b::7f00:1", Forbidden::Loopback),
            ("64:ff9b:1::a9fe:a9fe", Forbidden::Translated),
            ("2002:7f00:1::", Forbidden::Loopback),
            ("2002:a9fe:a9fe::1", Forbidden::LinkLocal),
            ("2001:0:1:2:3:4:80ff:fffe", Forbidden::Loopback),
            ("2001:db8::5efe:127.0.0.1", Forbidden::Loopback),
        ] {
            assert_eq!(forbidden(text.parse().unwrap()), Some(expected), "{text}");
        }
    }

    #[test]
    fn other_hosts_may_be_reached() {
        for text in [
            "10.0.0.1",
            "10.96.0.1",
            "192.168.1.1",
            "93.184.216.34",
            "fd00::1",
            "2001:db8::1",
            "2606:2800::1",
            "::ffff:10.1.2.3",
            "64:ff9b::5db8:d822",
            "2002:5db8:d822::1",
        ] {
            assert_eq!(forbidden(text.parse().unwrap()), None, "{text}");
        }
        assert!(is_loopback_pod("127.70.1.2".parse().unwrap()));
        assert!(!is_loopback_pod("127.0.0.1".parse().unwrap()));
        assert!(!is_loopback_pod("127.128.0.1".parse().unwrap()));
    }
}
