//! Addresses of the network, as Go parses them.

use std::net::{Ipv4Addr, Ipv6Addr};

/// An address without a zone. Go refuses leading zeros in IPv4, as this parser does.
pub(super) fn is_ip(text: &str) -> bool {
    text.parse::<Ipv4Addr>().is_ok() || text.parse::<Ipv6Addr>().is_ok()
}

pub(super) fn is_cidr(text: &str) -> bool {
    let Some((address, bits)) = text.split_once('/') else {
        return false;
    };
    let bits_max = match (address.parse::<Ipv4Addr>(), address.parse::<Ipv6Addr>()) {
        (Ok(_), _) => 32,
        (_, Ok(_)) => 128,
        _ => return false,
    };
    let digits = !bits.is_empty() && bits.len() <= 3 && bits.bytes().all(|b| b.is_ascii_digit());
    let plain = bits == "0" || !bits.starts_with('0');
    digits && plain && bits.parse::<u32>().is_ok_and(|bits| bits <= bits_max)
}

/// 6, 8 or 20 bytes: `00:00:5e:00:53:01`, with dashes, or dots every two bytes.
pub(super) fn is_mac(text: &str) -> bool {
    let (separator, digits) = match text {
        _ if text.contains('.') => ('.', 4),
        _ if text.contains('-') => ('-', 2),
        _ => (':', 2),
    };
    let groups: Vec<_> = text.split(separator).collect();
    let shaped = groups
        .iter()
        .all(|group| group.len() == digits && group.bytes().all(|byte| byte.is_ascii_hexdigit()));
    shaped && matches!(groups.len() * digits / 2, 6 | 8 | 20)
}

/// What Go's `url.ParseRequestURI` takes: an absolute URI or an absolute path.
pub(super) fn is_request_uri(text: &str) -> bool {
    if text.is_empty() || text.bytes().any(|byte| byte < b' ' || byte == 0x7f) {
        return false;
    }
    if text == "*" {
        return true;
    }
    let (scheme, rest) = match scheme(text) {
        Some(found) => found,
        None => return false,
    };
    let rest = rest.split_once('?').map_or(rest, |(rest, _)| rest);
    if !rest.starts_with('/') {
        // An opaque URI, as `mailto:a@b`, needs its scheme.
        return !scheme.is_empty() && !rest.is_empty();
    }
    let (authority, path) = match rest.strip_prefix("//") {
        Some(after) if !scheme.is_empty() || !rest.starts_with("///") => match after.find('/') {
            Some(at) => (&after[..at], &after[at..]),
            None => (after, ""),
        },
        _ => ("", rest),
    };
    is_authority(authority) && is_escaped(path)
}

/// The scheme and what follows; an empty scheme if there is none, and nothing if it is malformed.
fn scheme(text: &str) -> Option<(&str, &str)> {
    for (at, character) in text.char_indices() {
        match character {
            'a'..='z' | 'A'..='Z' => {}
            '0'..='9' | '+' | '-' | '.' if at > 0 => {}
            ':' if at > 0 => return Some((&text[..at], &text[at + 1..])),
            ':' => return None,
            _ => return Some(("", text)),
        }
    }
    Some(("", text))
}

fn is_authority(authority: &str) -> bool {
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    let (name, port) = match host.strip_prefix('[') {
        Some(inside) => match inside.split_once(']') {
            Some((name, rest)) => (name, rest),
            None => return false,
        },
        None => match host.find(':') {
            Some(at) => (&host[..at], &host[at..]),
            None => (host, ""),
        },
    };
    let port_digits = match port {
        "" => true,
        port => port.strip_prefix(':').is_some_and(|port| port.bytes().all(|b| b.is_ascii_digit())),
    };
    let refused = |character: char| {
        matches!(character, ' ' | '"' | '<' | '>' | '\\' | '^' | '`' | '{' | '|' | '}')
    };
    port_digits && !name.contains(refused) && is_escaped(name)
}

/// Whether every percent sign is followed by two hexadecimal digits.
fn is_escaped(text: &str) -> bool {
    let mut parts = text.split('%');
    parts.next();
    parts.all(|part| {
        let bytes = part.as_bytes();
        bytes.len() >= 2 && bytes[..2].iter().all(u8::is_ascii_hexdigit)
    })
}

/// One address, bare or with a name before it in angle brackets.
pub(super) fn is_email(text: &str) -> bool {
    let text = text.trim();
    let address = match (text.find('<'), text.strip_suffix('>')) {
        (Some(open), Some(inside)) => &inside[open + 1..],
        (None, None) => text,
        _ => return false,
    };
    let Some((local, domain)) = address.rsplit_once('@') else {
        return false;
    };
    let quoted = local.len() > 2 && local.starts_with('"') && local.ends_with('"');
    let literal = domain.starts_with('[') && domain.ends_with(']');
    (quoted || is_dot_atom(local)) && (literal || is_dot_atom(domain))
}

fn is_dot_atom(text: &str) -> bool {
    let atom = |character: char| {
        character.is_ascii_alphanumeric()
            || "!#$%&'*+-/=?^_`{|}~".contains(character)
            || !character.is_ascii()
    };
    !text.is_empty() && text.split('.').all(|part| !part.is_empty() && part.chars().all(atom))
}
