//! Where images may be read from. Whoever names a URL need not be trusted with what this machine
//! alone can reach: itself, and services that tell machines who they are.

use std::net::IpAddr;

use link::destination::forbidden;

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
        match self {
            Reach::Everything => true,
            Reach::Others => forbidden(address).is_none(),
        }
    }
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
