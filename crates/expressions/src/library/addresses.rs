//! IP addresses and networks.
//!
//! Upstream: staging/src/k8s.io/apiserver/pkg/cel/library/ip.go, cidr.go

use std::net::IpAddr;

use crate::cost::Cost;
use crate::evaluate::{Failure, Fuel};
use crate::library::Function;
use crate::value::{Opaque, Value};

type Outcome<'a> = Result<Value<'a>, Failure>;

macro_rules! question {
    ($name:literal, $ask:expr) => {
        Function {
            name: $name,
            overloads: &[concat!("net.IP.", $name, "() bool")],
            cost: Cost::One,
            call: |_, values| {
                let ask: fn(IpAddr) -> bool = $ask;
                Ok(Value::Bool(ask(ip_of(&values[0])?)))
            },
        }
    };
}

pub(crate) const FUNCTIONS: &[Function] = &[
    Function {
        name: "ip",
        overloads: &["ip(string) net.IP", "net.CIDR.ip() net.IP"],
        cost: Cost::ParseIp,
        call: ip,
    },
    Function { name: "isIP", overloads: &["isIP(string) bool"], cost: Cost::Scan(0), call: is_ip },
    Function {
        name: "ip.isCanonical",
        overloads: &["ip.isCanonical(string) bool"],
        cost: Cost::ScanTwice,
        call: is_canonical,
    },
    Function { name: "family", overloads: &["net.IP.family() int"], cost: Cost::One, call: family },
    question!("isUnspecified", |ip| ip.is_unspecified()),
    question!("isLoopback", |ip| ip.is_loopback()),
    question!("isLinkLocalMulticast", |ip| match ip {
        IpAddr::V4(ip) => ip.octets()[..3] == [224, 0, 0],
        IpAddr::V6(ip) => ip.segments()[0] & 0xff0f == 0xff02,
    }),
    question!("isLinkLocalUnicast", |ip| match ip {
        IpAddr::V4(ip) => ip.is_link_local(),
        IpAddr::V6(ip) => ip.segments()[0] & 0xffc0 == 0xfe80,
    }),
    question!("isGlobalUnicast", |ip| match ip {
        IpAddr::V4(ip) => {
            !(ip.is_unspecified()
                || ip.is_loopback()
                || ip.is_multicast()
                || ip.is_broadcast()
                || ip.is_link_local())
        }
        IpAddr::V6(ip) => {
            !(ip.is_unspecified()
                || ip.is_loopback()
                || ip.is_multicast()
                || ip.segments()[0] & 0xffc0 == 0xfe80)
        }
    }),
    Function {
        name: "cidr",
        overloads: &["cidr(string) net.CIDR"],
        cost: Cost::Scan(0),
        call: cidr,
    },
    Function {
        name: "isCIDR",
        overloads: &["isCIDR(string) bool"],
        cost: Cost::Scan(0),
        call: is_cidr,
    },
    Function {
        name: "containsIP",
        overloads: &["net.CIDR.containsIP(net.IP) bool", "net.CIDR.containsIP(string) bool"],
        cost: Cost::ContainsIp,
        call: contains_ip,
    },
    Function {
        name: "containsCIDR",
        overloads: &["net.CIDR.containsCIDR(net.CIDR) bool", "net.CIDR.containsCIDR(string) bool"],
        cost: Cost::ContainsCidr,
        call: contains_cidr,
    },
    Function {
        name: "prefixLength",
        overloads: &["net.CIDR.prefixLength() int"],
        cost: Cost::One,
        call: prefix_length,
    },
    Function {
        name: "masked",
        overloads: &["net.CIDR.masked() net.CIDR"],
        cost: Cost::One,
        call: masked,
    },
];

fn text_of<'v>(value: &'v Value<'_>) -> Result<&'v str, Failure> {
    value.as_str().ok_or_else(Failure::no_such_overload)
}

/// Neither zones nor IPv4 inside IPv6 are taken.
pub(crate) fn parse_ip(text: &str) -> Result<IpAddr, Failure> {
    match text.parse::<IpAddr>() {
        Ok(IpAddr::V6(ip)) if ip.to_ipv4_mapped().is_some() => {
            Err(Failure::evaluation("IPv4-mapped IPv6 address is not allowed"))
        }
        Ok(ip) => Ok(ip),
        Err(_) => Err(Failure::evaluation(format!(
            "IP Address \"{text}\" parse error during conversion from string: unable to parse IP"
        ))),
    }
}

fn parse_cidr(text: &str) -> Result<(IpAddr, u8), Failure> {
    let malformed = || {
        Failure::evaluation(format!(
            "network address parse error during conversion from string: \"{text}\""
        ))
    };
    let (address, length) = text.split_once('/').ok_or_else(malformed)?;
    let address = parse_ip(address).map_err(|_| malformed())?;
    let plain = length.bytes().all(|byte| byte.is_ascii_digit())
        && (length == "0" || !length.starts_with('0'));
    let length: u8 = length.parse().map_err(|_| malformed())?;
    let max = if address.is_ipv4() { 32 } else { 128 };
    if plain && length <= max { Ok((address, length)) } else { Err(malformed()) }
}

fn ip_of(value: &Value<'_>) -> Result<IpAddr, Failure> {
    match value {
        Value::Opaque(opaque) => match opaque.as_ref() {
            Opaque::Ip(ip) => Ok(*ip),
            _ => Err(Failure::no_such_overload()),
        },
        _ => Err(Failure::no_such_overload()),
    }
}

fn cidr_of(value: &Value<'_>) -> Result<(IpAddr, u8), Failure> {
    match value {
        Value::Opaque(opaque) => match opaque.as_ref() {
            Opaque::Cidr(ip, length) => Ok((*ip, *length)),
            _ => Err(Failure::no_such_overload()),
        },
        _ => Err(Failure::no_such_overload()),
    }
}

fn ip<'a>(_: &mut Fuel, values: &[Value<'a>]) -> Outcome<'a> {
    let address = match &values[0] {
        Value::String(text) => parse_ip(text.as_str())?,
        network => cidr_of(network)?.0,
    };
    Ok(Value::opaque(Opaque::Ip(address)))
}

fn is_ip<'a>(_: &mut Fuel, values: &[Value<'a>]) -> Outcome<'a> {
    Ok(Value::Bool(parse_ip(text_of(&values[0])?).is_ok()))
}

fn is_canonical<'a>(_: &mut Fuel, values: &[Value<'a>]) -> Outcome<'a> {
    let text = text_of(&values[0])?;
    Ok(Value::Bool(parse_ip(text)?.to_string() == text))
}

fn family<'a>(_: &mut Fuel, values: &[Value<'a>]) -> Outcome<'a> {
    Ok(Value::Int(if ip_of(&values[0])?.is_ipv4() { 4 } else { 6 }))
}

fn cidr<'a>(_: &mut Fuel, values: &[Value<'a>]) -> Outcome<'a> {
    let (address, length) = parse_cidr(text_of(&values[0])?)?;
    Ok(Value::opaque(Opaque::Cidr(address, length)))
}

fn is_cidr<'a>(_: &mut Fuel, values: &[Value<'a>]) -> Outcome<'a> {
    Ok(Value::Bool(parse_cidr(text_of(&values[0])?).is_ok()))
}

/// The first bits of an address, as a number.
fn masked_bits(address: IpAddr, length: u8) -> u128 {
    let (bits, width) = match address {
        IpAddr::V4(ip) => (u128::from(u32::from(ip)), 32),
        IpAddr::V6(ip) => (u128::from(ip), 128),
    };
    let dropped = u32::from(width - length.min(width));
    bits.checked_shr(dropped).and_then(|kept| kept.checked_shl(dropped)).unwrap_or(0)
}

fn holds(network: (IpAddr, u8), address: IpAddr) -> bool {
    let (base, length) = network;
    base.is_ipv4() == address.is_ipv4() && masked_bits(base, length) == masked_bits(address, length)
}

fn contains_ip<'a>(_: &mut Fuel, values: &[Value<'a>]) -> Outcome<'a> {
    let address = match &values[1] {
        Value::String(text) => parse_ip(text.as_str())?,
        value => ip_of(value)?,
    };
    Ok(Value::Bool(holds(cidr_of(&values[0])?, address)))
}

fn contains_cidr<'a>(_: &mut Fuel, values: &[Value<'a>]) -> Outcome<'a> {
    let outer = cidr_of(&values[0])?;
    let (address, length) = match &values[1] {
        Value::String(text) => parse_cidr(text.as_str())?,
        value => cidr_of(value)?,
    };
    Ok(Value::Bool(outer.1 <= length && holds(outer, address)))
}

fn prefix_length<'a>(_: &mut Fuel, values: &[Value<'a>]) -> Outcome<'a> {
    Ok(Value::Int(i64::from(cidr_of(&values[0])?.1)))
}

fn masked<'a>(_: &mut Fuel, values: &[Value<'a>]) -> Outcome<'a> {
    let (address, length) = cidr_of(&values[0])?;
    let bits = masked_bits(address, length);
    let address = match address {
        IpAddr::V4(_) => IpAddr::V4((bits as u32).into()),
        IpAddr::V6(_) => IpAddr::V6(bits.into()),
    };
    Ok(Value::opaque(Opaque::Cidr(address, length)))
}
