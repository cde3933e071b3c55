//! Which addresses the pods of this node get. Pure.

use std::fmt;
use std::net::Ipv4Addr;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Where nodes that nobody gave a range look for one.
pub const CLUSTER: Range = Range { network: Ipv4Addr::new(10, 42, 0, 0), length: 16 };
/// How large a part of it a node takes.
const NODE_LENGTH: u8 = 24;

/// A range of addresses, as `10.42.7.0/24`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Range {
    pub network: Ipv4Addr,
    pub length: u8,
}

impl Range {
    pub fn mask(self) -> Ipv4Addr {
        Ipv4Addr::from_bits(u32::MAX.checked_shl(32 - u32::from(self.length)).unwrap_or(0))
    }

    pub fn contains(self, address: Ipv4Addr) -> bool {
        address & self.mask() == self.network
    }

    pub fn overlaps(self, other: Range) -> bool {
        self.contains(other.network) || other.contains(self.network)
    }

    /// The address at a place in the range; none beyond its end.
    pub fn nth(self, place: u32) -> Option<Ipv4Addr> {
        let address = Ipv4Addr::from_bits(self.network.to_bits().checked_add(place)?);
        self.contains(address).then_some(address)
    }

    /// What the node itself has in the range.
    pub fn gateway(self) -> Ipv4Addr {
        self.nth(1).unwrap_or(self.network)
    }

    /// The places that pods get: neither the network, the node, nor the last.
    pub fn places(self) -> std::ops::Range<u32> {
        let count = 1_u32.checked_shl(32 - u32::from(self.length)).unwrap_or(0);
        2..count.saturating_sub(1)
    }
}

impl FromStr for Range {
    type Err = ();

    fn from_str(text: &str) -> Result<Range, ()> {
        let (address, length) = text.split_once('/').ok_or(())?;
        let network: Ipv4Addr = address.parse().map_err(drop)?;
        let length: u8 = length.parse().map_err(drop)?;
        let range = Range { network, length };
        // A smaller one has no room for pods.
        if !(8..=29).contains(&length) {
            return Err(());
        }
        Ok(Range { network: network & range.mask(), length })
    }
}

impl fmt::Display for Range {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}", self.network, self.length)
    }
}

/// A range that collides with no route of the machine; where to begin to look is the caller's, so
/// that nodes do not all want the same.
pub fn choose(routes: &[Range], begin: u32) -> Option<Range> {
    let count = 1 << (NODE_LENGTH - CLUSTER.length);
    let candidate = |step: u32| {
        let place = (begin.wrapping_add(step) % count) << (32 - NODE_LENGTH);
        CLUSTER.nth(place).map(|network| Range { network, length: NODE_LENGTH })
    };
    (0..count)
        .filter_map(candidate)
        .find(|range| !routes.iter().any(|route| route.overlaps(*range)))
}

/// The routes that `/proc/net/route` tells of, but for the default ones.
pub fn routes(text: &str) -> Vec<Range> {
    let parse = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let number = |field: &str| u32::from_str_radix(field, 16).ok();
        // The kernel prints the bytes as a number of its own order.
        let bytes = |field: &str| number(field).map(|number| Ipv4Addr::from(number.to_ne_bytes()));
        let (network, mask) = (bytes(fields.get(1)?)?, bytes(fields.get(7)?)?);
        let length = u8::try_from(mask.to_bits().leading_ones()).ok()?;
        (length > 0).then_some(Range { network, length })
    };
    text.lines().skip(1).filter_map(parse).collect()
}

/// The interfaces that packets to elsewhere leave by.
pub fn default_interfaces(text: &str) -> Vec<String> {
    let lines = text.lines().skip(1).map(|line| line.split_whitespace().collect::<Vec<_>>());
    let defaults = lines
        .filter(|fields| fields.get(1) == Some(&"00000000") && fields.get(7) == Some(&"00000000"));
    defaults.filter_map(|fields| fields.first().map(|&name| name.to_owned())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROUTES: &str = "\
Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT
eth0\t00000000\t010200C0\t0003\t0\t0\t0\t00000000\t0\t0\t0
eth0\t000200C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0
*\t00012A0A\t00000000\t0201\t0\t0\t0\t00FFFFFF\t0\t0\t0
";

    #[test]
    fn routes_are_read_and_kept_clear_of() {
        let routes = routes(ROUTES);
        let texts: Vec<String> = routes.iter().map(Range::to_string).collect();
        assert_eq!(texts, ["192.0.2.0/24", "10.42.1.0/24"]);
        assert_eq!(default_interfaces(ROUTES), ["eth0"]);
        for (begin, chosen) in [(0, "10.42.0.0/24"), (1, "10.42.2.0/24"), (256, "10.42.0.0/24")] {
            assert_eq!(choose(&routes, begin).unwrap().to_string(), chosen);
        }
        assert_eq!(choose(&["10.0.0.0/8".parse().unwrap()], 0), None);
    }

    #[test]
    fn a_range_has_a_gateway_and_places_for_pods() {
        let range: Range = "10.1.2.77/28".parse().unwrap();
        assert_eq!(range.to_string(), "10.1.2.64/28");
        assert_eq!(range.gateway().to_string(), "10.1.2.65");
        assert_eq!(range.places(), 2..15);
        assert_eq!(range.nth(15).unwrap().to_string(), "10.1.2.79");
        assert_eq!(range.nth(16), None);
        for bad in ["", "10.0.0.0", "10.0.0.0/31", "10.0.0.0/x", "::1/64"] {
            assert!(bad.parse::<Range>().is_err(), "{bad}");
        }
    }
}
