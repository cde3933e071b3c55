//! The forms of names, labels, ports, addresses and paths, with the texts of their faults.
//!
//! Each rule returns what is wrong, and nothing when all is well.
//!
//! Upstream: apimachinery/pkg/util/validation/validation.go, .../util/validation/ip.go,
//! apimachinery/pkg/api/validate/content/kube.go

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

pub type Faults = Vec<String>;

pub const SUBDOMAIN_BYTES_MAX: usize = 253;
pub const LABEL_BYTES_MAX: usize = 63;

const LABEL: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";
const SUBDOMAIN: &str = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";
const QUALIFIED: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";

/// How a kind names its objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameRule {
    /// An RFC 1123 subdomain: most kinds.
    Subdomain,
    /// An RFC 1123 label: namespaces.
    Label,
    /// An RFC 1035 label: services.
    Dns1035,
    /// Anything that fits into a path: RBAC, events.
    PathSegment,
    /// A canonical IP address: IPAddress.
    Address,
}

impl NameRule {
    pub fn faults(self, name: &str) -> Faults {
        match self {
            NameRule::Subdomain => subdomain(name),
            NameRule::Label => label(name),
            NameRule::Dns1035 => dns1035_label(name),
            NameRule::PathSegment => path_segment(name),
            NameRule::Address => address(name).into_iter().collect(),
        }
    }

    /// A prefix may end in a dash, since more will follow.
    pub fn prefix_faults(self, prefix: &str) -> Faults {
        match self {
            NameRule::PathSegment => path_segment_prefix(prefix),
            NameRule::Address => Faults::new(),
            rule if prefix.len() > 1 && prefix.ends_with('-') => {
                rule.faults(&format!("{}a", &prefix[..prefix.len() - 1]))
            }
            rule => rule.faults(prefix),
        }
    }
}

fn too_long(max: usize) -> String {
    format!("must be no more than {max} characters")
}

fn too_many_bytes(max: usize) -> String {
    format!("must be no more than {max} bytes")
}

fn pattern(what: &str, regex: &str, examples: &[&str]) -> String {
    if examples.is_empty() {
        return format!("{what} (regex used for validation is '{regex}')");
    }
    let mut text = format!("{what} (e.g. ");
    for (index, example) in examples.iter().enumerate() {
        if index > 0 {
            text.push_str(" or ");
        }
        text.push_str(&format!("'{example}', "));
    }
    text + &format!("regex used for validation is '{regex}')")
}

pub fn range(low: i64, high: i64) -> String {
    format!("must be between {low} and {high}, inclusive")
}

fn is_label(text: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = text.as_bytes();
    match (bytes.first(), bytes.last()) {
        (Some(first), Some(last)) => {
            inner(*first) && inner(*last) && bytes.iter().all(|byte| inner(*byte) || *byte == b'-')
        }
        _ => false,
    }
}

fn is_subdomain(text: &str) -> bool {
    text.split('.').all(is_label)
}

pub fn subdomain(name: &str) -> Faults {
    let mut faults = Faults::new();
    if name.len() > SUBDOMAIN_BYTES_MAX {
        faults.push(too_long(SUBDOMAIN_BYTES_MAX));
    }
    if !is_subdomain(name) {
        let what = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric \
                    characters, '-' or '.', and must start and end with an alphanumeric character";
        faults.push(pattern(what, SUBDOMAIN, &["example.com"]));
    }
    faults
}

/// A subdomain whose labels may have underscores: DNS search paths.
pub fn subdomain_with_underscore(name: &str) -> Faults {
    let mut faults = Faults::new();
    if name.len() > SUBDOMAIN_BYTES_MAX {
        faults.push(too_long(SUBDOMAIN_BYTES_MAX));
    }
    let is_part = |part: &str| {
        let part = part.strip_prefix('_').unwrap_or(part);
        !part.starts_with('_') && !part.ends_with('_') && is_label(&part.replace('_', "-"))
    };
    if !name.split('.').all(is_part) {
        let what = "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric \
                    characters, '_', '-' or '.', and must start and end with an alphanumeric \
                    character";
        let part = "_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?";
        faults.push(pattern(what, &format!("{part}(\\.{part})*"), &["example.com"]));
    }
    faults
}

pub fn wildcard_subdomain(name: &str) -> Faults {
    let mut faults = Faults::new();
    if name.len() > SUBDOMAIN_BYTES_MAX {
        faults.push(too_long(SUBDOMAIN_BYTES_MAX));
    }
    if !name.strip_prefix("*.").is_some_and(is_subdomain) {
        let what = "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS \
                    subdomain, which must consist of lower case alphanumeric characters, '-' or \
                    '.' and end with an alphanumeric character";
        faults.push(pattern(what, &format!("\\*\\.{SUBDOMAIN}"), &["*.example.com"]));
    }
    faults
}

pub fn label(name: &str) -> Faults {
    let mut faults = Faults::new();
    if name.len() > LABEL_BYTES_MAX {
        faults.push(too_long(LABEL_BYTES_MAX));
    }
    if is_label(name) {
        return faults;
    }
    if is_subdomain(name) {
        faults.push("must not contain dots".to_owned());
    } else {
        let what = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters \
                    or '-', and must start and end with an alphanumeric character";
        faults.push(pattern(what, LABEL, &["my-name", "123-abc"]));
    }
    faults
}

pub fn dns1035_label(name: &str) -> Faults {
    let mut faults = Faults::new();
    if name.len() > LABEL_BYTES_MAX {
        faults.push(too_long(LABEL_BYTES_MAX));
    }
    if !is_label(name) || !name.starts_with(|first: char| first.is_ascii_lowercase()) {
        let what = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', \
                    start with an alphabetic character, and end with an alphanumeric character";
        faults.push(pattern(what, "[a-z]([-a-z0-9]*[a-z0-9])?", &["my-name", "abc-123"]));
    }
    faults
}

pub fn path_segment(name: &str) -> Faults {
    if name == "." || name == ".." {
        return vec![format!("may not be '{name}'")];
    }
    path_segment_prefix(name)
}

fn path_segment_prefix(name: &str) -> Faults {
    let holds = |part: &&str| name.contains(*part);
    ["/", "%"]
        .iter()
        .filter(|part| holds(part))
        .map(|it| format!("may not contain '{it}'"))
        .collect()
}

fn is_qualified_part(text: &str) -> bool {
    let alphanumeric = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = text.as_bytes();
    let inner = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.".contains(byte);
    alphanumeric(bytes.first()) && alphanumeric(bytes.last()) && bytes.iter().all(inner)
}

/// A label key, an annotation key, a finalizer, a resource name.
pub fn qualified_name(name: &str) -> Faults {
    let what = "must consist of alphanumeric characters, '-', '_' or '.', and must start and end \
                with an alphanumeric character";
    let form = || pattern(what, QUALIFIED, &["MyName", "my.name", "123-abc"]);
    let mut faults = Faults::new();
    let parts: Vec<_> = name.split('/').collect();
    let last = match parts[..] {
        [last] => last,
        [prefix, last] => {
            if prefix.is_empty() {
                faults.push("prefix part must be non-empty".to_owned());
            } else {
                let prefixed = subdomain(prefix).into_iter().map(|it| format!("prefix part {it}"));
                faults.extend(prefixed);
            }
            last
        }
        _ => {
            return vec![format!(
                "a valid label key {} with an optional DNS subdomain prefix and '/' (e.g. \
                 'example.com/MyName')",
                form()
            )];
        }
    };
    if last.is_empty() {
        faults.push("name part must be non-empty".to_owned());
    } else if last.len() > LABEL_BYTES_MAX {
        faults.push(format!("name part {}", too_many_bytes(LABEL_BYTES_MAX)));
    }
    if !is_qualified_part(last) {
        faults.push(format!("name part {}", form()));
    }
    faults
}

pub fn label_value(value: &str) -> Faults {
    let mut faults = Faults::new();
    if value.len() > LABEL_BYTES_MAX {
        faults.push(too_many_bytes(LABEL_BYTES_MAX));
    }
    if !value.is_empty() && !is_qualified_part(value) {
        let what = "a valid label must be an empty string or consist of alphanumeric characters, \
                    '-', '_' or '.', and must start and end with an alphanumeric character";
        let regex = format!("({QUALIFIED})?");
        faults.push(pattern(what, &regex, &["MyValue", "my_value", "12345"]));
    }
    faults
}

pub fn port_number(port: i64) -> Faults {
    in_range(port, 1, 65535)
}

pub fn in_range(value: i64, low: i64, high: i64) -> Faults {
    if (low..=high).contains(&value) { Faults::new() } else { vec![range(low, high)] }
}

pub fn port_name(name: &str) -> Faults {
    let mut faults = Faults::new();
    if name.len() > 15 {
        faults.push(too_long(15));
    }
    let known = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    if name.is_empty() || !name.bytes().all(known) {
        let text = "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)";
        faults.push(text.to_owned());
    }
    if !name.bytes().any(|byte| byte.is_ascii_lowercase()) {
        faults.push("must contain at least one letter (a-z)".to_owned());
    }
    if name.contains("--") {
        faults.push("must not contain consecutive hyphens".to_owned());
    }
    if name.starts_with('-') || name.ends_with('-') {
        faults.push("must not begin or end with a hyphen".to_owned());
    }
    faults
}

pub fn env_name(name: &str) -> Faults {
    if name.is_empty() {
        return vec!["environment variable name must be non-empty".to_owned()];
    }
    let printable = |it: char| (' '..='~').contains(&it) && it != '=';
    if name.chars().all(printable) {
        return Faults::new();
    }
    let text = "a valid environment variable name must consist only of printable ASCII characters \
                other than '='";
    vec![text.to_owned()]
}

fn parent_directory(name: &str) -> Option<String> {
    match name {
        "." => Some("must not be '.'".to_owned()),
        ".." => Some("must not be '..'".to_owned()),
        name if name.starts_with("..") => Some("must not start with '..'".to_owned()),
        _ => None,
    }
}

/// A key of a ConfigMap or Secret.
pub fn config_key(key: &str) -> Faults {
    let mut faults = Faults::new();
    if key.len() > SUBDOMAIN_BYTES_MAX {
        faults.push(too_long(SUBDOMAIN_BYTES_MAX));
    }
    let known = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
    if key.is_empty() || !key.bytes().all(known) {
        let what = "a valid config key must consist of alphanumeric characters, '-', '_' or '.'";
        let examples = ["key.name", "KEY_NAME", "key-name"];
        faults.push(pattern(what, "[-._a-zA-Z0-9]+", &examples));
    }
    faults.extend(parent_directory(key));
    faults
}

pub fn header_name(name: &str) -> Faults {
    let known = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    if !name.is_empty() && name.bytes().all(known) {
        return Faults::new();
    }
    let what = "a valid HTTP header must consist of alphanumeric characters or '-'";
    vec![pattern(what, "[-A-Za-z0-9]+", &["X-Header-Name"])]
}

pub fn percent(text: &str) -> Faults {
    let digits = text.strip_suffix('%').unwrap_or("");
    if !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Faults::new();
    }
    let what = "a valid percent string must be a numeric string followed by an ending '%'";
    vec![pattern(what, "[0-9]+%", &["1%", "93%"])]
}

/// An address; zeros before a number are refused, as they once meant octal.
pub fn address(text: &str) -> Option<String> {
    let fault = "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)";
    parse_address(text).is_none().then(|| fault.to_owned())
}

pub fn parse_address(text: &str) -> Option<IpAddr> {
    text.parse().ok()
}

pub fn is_ipv6(text: &str) -> bool {
    text.parse::<Ipv6Addr>().is_ok()
}

pub fn is_ipv4(text: &str) -> bool {
    text.parse::<Ipv4Addr>().is_ok()
}

/// `10.0.0.0/8`: an address and how many of its bits count.
pub fn parse_cidr(text: &str) -> Option<(IpAddr, u8)> {
    let (address, bits) = text.split_once('/')?;
    let address = parse_address(address)?;
    let plain = !bits.is_empty() && bits.bytes().all(|byte| byte.is_ascii_digit());
    let bits = plain.then(|| bits.parse::<u8>().ok()).flatten()?;
    let bits_max = if address.is_ipv4() { 32 } else { 128 };
    (bits <= bits_max).then_some((address, bits))
}

pub fn cidr(text: &str) -> Option<String> {
    let fault = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)";
    parse_cidr(text).is_none().then(|| fault.to_owned())
}

/// A path below a directory: neither absolute nor leading upwards.
pub fn descending_path(path: &str) -> Option<String> {
    if path.starts_with('/') {
        return Some("must be a relative path".to_owned());
    }
    no_backsteps(path)
}

pub fn no_backsteps(path: &str) -> Option<String> {
    path.split('/').any(|part| part == "..").then(|| "must not contain '..'".to_owned())
}

/// A file of a projected volume; names that start with two dots are the kubelet's.
pub fn descending_file(path: &str) -> Option<String> {
    descending_path(path)
        .or_else(|| path.starts_with("..").then(|| "must not start with '..'".to_owned()))
}
