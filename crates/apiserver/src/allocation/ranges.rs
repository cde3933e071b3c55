//! The ranges that services get their addresses from: what ServiceCIDR objects say.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use store::{KeyRange, PageRequest, Store};

use crate::object;
use crate::persist::stored;
use crate::registry::edit;
use crate::registry::names;
use crate::server::store_failure;
use crate::status::Error;

/// Where ServiceCIDRs are in the store.
const PREFIX: &str = "servicecidrs/";
/// The ServiceCIDR that the server makes.
pub const DEFAULT_NAME: &str = "kubernetes";
/// The most addresses of one range that are given out.
const ADDRESSES_MAX: u128 = 1 << 62;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Family {
    V4,
    V6,
}

impl Family {
    pub fn of(address: IpAddr) -> Family {
        if address.is_ipv4() { Family::V4 } else { Family::V6 }
    }

    pub fn parse(text: &str) -> Option<Family> {
        match text {
            "IPv4" => Some(Family::V4),
            "IPv6" => Some(Family::V6),
            _ => None,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Family::V4 => "IPv4",
            Family::V6 => "IPv6",
        }
    }

    pub fn other(self) -> Family {
        match self {
            Family::V4 => Family::V6,
            Family::V6 => Family::V4,
        }
    }
}

/// A range of addresses, for example `10.96.0.0/16`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Range {
    network: IpAddr,
    length: u8,
}

impl Range {
    pub fn parse(text: &str) -> Option<Range> {
        let (address, length) = names::parse_cidr(text)?;
        let range = Range { network: address, length };
        let first = range.first_number();
        Some(Range { network: number_to_address(range.family(), first), length })
    }

    pub fn family(&self) -> Family {
        Family::of(self.network)
    }

    fn bits(&self) -> u32 {
        if self.network.is_ipv4() { 32 } else { 128 }
    }

    /// How many addresses there are, less one.
    fn host_mask(&self) -> u128 {
        let host_bits = self.bits().saturating_sub(u32::from(self.length));
        if host_bits >= 128 { u128::MAX } else { (1 << host_bits) - 1 }
    }

    fn first_number(&self) -> u128 {
        address_to_number(self.network) & !self.host_mask()
    }

    pub fn contains(&self, address: IpAddr) -> bool {
        let same = Family::of(address) == self.family();
        same && address_to_number(address) & !self.host_mask() == self.first_number()
    }

    /// How many addresses can be given out: not the network's own, and in IPv4 not the last.
    pub fn usable(&self) -> u64 {
        let reserved = if self.network.is_ipv4() { 1 } else { 0 };
        self.host_mask().saturating_sub(reserved).min(ADDRESSES_MAX) as u64
    }

    /// The address at a place among those that can be given out, from 0.
    pub fn nth(&self, place: u64) -> IpAddr {
        number_to_address(self.family(), self.first_number() + 1 + u128::from(place))
    }

    /// Whether an address is one of those that can be given out.
    pub fn gives(&self, address: IpAddr) -> bool {
        let place = address_to_number(address).wrapping_sub(self.first_number() + 1);
        self.contains(address) && place < u128::from(self.usable())
    }
}

impl fmt::Display for Range {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}", self.network, self.length)
    }
}

fn address_to_number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u128::from(u32::from(address)),
        IpAddr::V6(address) => u128::from(address),
    }
}

fn number_to_address(family: Family, number: u128) -> IpAddr {
    match family {
        Family::V4 => Ipv4Addr::from(number as u32).into(),
        Family::V6 => Ipv6Addr::from(number).into(),
    }
}

/// What the cluster can give out.
#[derive(Clone, Debug, Default)]
pub struct Configured {
    /// The server's own first.
    pub ranges: Vec<Range>,
}

impl Configured {
    /// Reads the ServiceCIDRs; one that is going gives out nothing more.
    pub async fn load(store: &dyn Store) -> Result<Configured, Error> {
        let page = store.list(&KeyRange::prefix(PREFIX), PageRequest::all(), None).await;
        let mut configured = Configured::default();
        for entry in &page.map_err(store_failure)?.entries {
            let object = stored(entry).object(entry.modified);
            if object::is_terminating(&object) || is_unready(&object) {
                continue;
            }
            let texts = object::texts(edit::at(&object, &["spec", "cidrs"]));
            let ranges = texts.iter().filter_map(|text| Range::parse(text));
            let at = match object::name(&object) {
                DEFAULT_NAME => 0,
                _ => configured.ranges.len(),
            };
            let all: Vec<Range> = ranges.collect();
            configured.ranges.splice(at..at, all);
        }
        Ok(configured)
    }

    pub fn has(&self, family: Family) -> bool {
        self.of(family).next().is_some()
    }

    pub fn of(&self, family: Family) -> impl Iterator<Item = &Range> {
        self.ranges.iter().filter(move |range| range.family() == family)
    }

    pub fn is_dual(&self) -> bool {
        self.has(Family::V4) && self.has(Family::V6)
    }

    /// The family of services that do not say.
    pub fn default_family(&self) -> Family {
        self.ranges.first().map_or(Family::V4, Range::family)
    }
}

/// A range whose controller has not spoken counts as ready.
fn is_unready(range: &serde_json::Value) -> bool {
    let conditions = edit::list(range, &["status", "conditions"]);
    let ready = conditions.iter().find(|it| edit::text(it, &["type"]) == "Ready");
    ready.is_some_and(|it| edit::text(it, &["status"]) != "True")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_range_gives_out_neither_its_own_address_nor_the_last() {
        let cases = [
            ("10.96.0.0/16", 65_534, "10.96.0.1", "10.96.255.254"),
            ("10.96.0.0/27", 30, "10.96.0.1", "10.96.0.30"),
            ("192.0.2.8/30", 2, "192.0.2.9", "192.0.2.10"),
            ("fd00::/120", 255, "fd00::1", "fd00::ff"),
        ];
        for (text, usable, first, last) in cases {
            let range = Range::parse(text).unwrap();
            assert_eq!(range.usable(), usable, "{text}");
            assert_eq!(range.nth(0).to_string(), first, "{text}");
            assert_eq!(range.nth(usable - 1).to_string(), last, "{text}");
            assert!(!range.gives(range.network), "{text}");
        }
        assert_eq!(Range::parse("10.0.0.0/8").unwrap().to_string(), "10.0.0.0/8");
        assert_eq!(Range::parse("nonsense"), None);
    }

    proptest! {
        #[test]
        fn what_a_range_gives_is_within_it(number: u32, length in 1u8..=30, place: u64) {
            let network = Ipv4Addr::from(number);
            let range = Range::parse(&format!("{network}/{length}")).unwrap();
            let address = range.nth(place % range.usable());
            prop_assert!(range.gives(address), "{range} {address}");
            prop_assert!(range.contains(address));
        }
    }
}
