//! Where images may be read from. Whoever names a URL need not be trusted with what this machine
//! alone can reach: itself, and services that tell machines who they are.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// What may be reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reach {
    #[default]
    Others,
    /// Also this machine.
    Everything,
}

impl Reach {
    pub fn allows(self, address: IpAddr) -> bool {
        match (self, address) {
            (Reach::Everything, _) => true,
            (Reach::Others, IpAddr::V4(address)) => is_elsewhere_4(address),
            (Reach::Others, IpAddr::V6(address)) => is_elsewhere_6(address),
        }
    }
}

fn is_elsewhere_4(address: Ipv4Addr) -> bool {
    let metadata = [Ipv4Addr::new(100, 100, 100, 200), Ipv4Addr::new(168, 63, 129, 16)];
    let is_this_network = address.octets()[0] == 0;
    !(address.is_loopback()
        || address.is_link_local()
        || address.is_multicast()
        || address.is_broadcast()
        || is_this_network
        || metadata.contains(&address))
}

fn is_elsewhere_6(address: Ipv6Addr) -> bool {
    if let Some(address) = address.to_ipv4_mapped() {
        return is_elsewhere_4(address);
    }
    let metadata = Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254);
    let is_translated = address.segments()[..6] == [0x64, 0xff9b, 0, 0, 0, 0];
    !(address.is_loopback()
        || address.is_unspecified()
        || address.is_multicast()
        || address.is_unicast_link_local()
        || is_translated
        || address == metadata)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_and_what_tells_it_who_it_is_are_not_reached() {
        for address in [
            "127.0.0.1",
            "127.8.8.8",
            "0.0.0.0",
            "169.254.169.254",
            "100.100.100.200",
            "224.0.0.1",
            "255.255.255.255",
            "::1",
            "::",
            "fe80::1",
            "::ffff:127.0.0.1",
            "::ffff:169.254.169.254",
            "64:ff9b::a9fe:a9fe",
            "fd00:ec2::254",
        ] {
            assert!(!Reach::Others.allows(address.parse().unwrap()), "{address}");
            assert!(Reach::Everything.allows(address.parse().unwrap()), "{address}");
        }
        for address in ["93.184.216.34", "10.1.2.3", "192.168.1.1", "2606:2800::1"] {
            assert!(Reach::Others.allows(address.parse().unwrap()), "{address}");
        }
    }
}
