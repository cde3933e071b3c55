//! The formats of strings that are enforced; all others are ignored.
//!
//! Upstream: kube-openapi/pkg/validation/strfmt, and the list of
//! apiextensions-apiserver/pkg/apiserver/validation/formats.go

mod address;
mod numbers;
mod quantity;
mod time;

use std::sync::LazyLock;

use regex::Regex;

pub(crate) use time::is_date_time;

/// Whether a string has a format; `None` if the format is not one that is enforced. Dashes in the
/// name do not count.
pub(crate) fn matches(format: &str, text: &str) -> Option<bool> {
    let check = check_of(format)?;
    Some(check(text))
}

/// Whether a format of strings is enforced.
pub(crate) fn is_enforced(format: &str) -> bool {
    check_of(format).is_some()
}

type Check = fn(&str) -> bool;

fn check_of(format: &str) -> Option<Check> {
    let plain = match format.contains('-') {
        true => &*format.replace('-', ""),
        false => format,
    };
    Some(match plain {
        "bsonobjectid" => |text| text.len() == 24 && text.bytes().all(|b| b.is_ascii_hexdigit()),
        "uri" => address::is_request_uri,
        "email" => address::is_email,
        "hostname" => is_hostname,
        "ipv4" => |text| text.contains('.') && address::is_ip(text),
        "ipv6" => |text| text.contains(':') && address::is_ip(text),
        "cidr" => address::is_cidr,
        "mac" => address::is_mac,
        "uuid" => |text| is_uuid(text, None),
        "uuid3" => |text| is_uuid(text, Some(3)),
        "uuid4" => |text| is_uuid(text, Some(4)),
        "uuid5" => |text| is_uuid(text, Some(5)),
        "isbn" => |text| numbers::is_isbn10(text) || numbers::is_isbn13(text),
        "isbn10" => numbers::is_isbn10,
        "isbn13" => numbers::is_isbn13,
        "creditcard" => numbers::is_credit_card,
        "ssn" => numbers::is_ssn,
        "hexcolor" => is_hex_color,
        "rgbcolor" => numbers::is_rgb_color,
        "byte" => is_base64,
        "password" => |_| true,
        "date" => time::is_date,
        "duration" => time::is_duration,
        "datetime" => time::is_date_time,
        "quantity" => quantity::is_quantity,
        "k8sshortname" => |text| text.len() <= 63 && is_label(text),
        "k8slongname" => |text| text.len() <= 253 && text.split('.').all(is_label),
        _ => return None,
    })
}

static HOSTNAME: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(concat!(
        r"^([a-zA-Z0-9\p{S}\p{L}]((-?[a-zA-Z0-9\p{S}\p{L}]{0,62})?)|",
        r"([a-zA-Z0-9\p{S}\p{L}](([a-zA-Z0-9\-\p{S}\p{L}]{0,61}[a-zA-Z0-9\p{S}\p{L}])?)(\.)){1,}",
        r"([a-zA-Z0-9\p{S}\p{L}])(-?[a-zA-Z0-9\p{S}\p{L}]){1,62})$",
    ))
    .expect("the expression is a constant")
});

fn is_hostname(text: &str) -> bool {
    text.len() <= 255 && text.split('.').all(|label| label.len() <= 63) && HOSTNAME.is_match(text)
}

/// 32 hexadecimal digits, with or without each of the usual dashes.
fn is_uuid(text: &str, version: Option<u8>) -> bool {
    let mut digits = Vec::with_capacity(32);
    let mut dashes_at = Vec::new();
    for byte in text.bytes() {
        match byte {
            b'-' => dashes_at.push(digits.len()),
            byte if byte.is_ascii_hexdigit() => digits.push(byte.to_ascii_lowercase()),
            _ => return false,
        }
    }
    let placed = dashes_at.windows(2).all(|pair| pair[0] < pair[1])
        && dashes_at.iter().all(|at| matches!(at, 8 | 12 | 16 | 20));
    if digits.len() != 32 || !placed {
        return false;
    }
    match version {
        None => true,
        Some(3) => digits[12] == b'3',
        Some(version) => {
            digits[12] == b'0' + version && matches!(digits[16], b'8' | b'9' | b'a' | b'b')
        }
    }
}

fn is_hex_color(text: &str) -> bool {
    let digits = text.strip_prefix('#').unwrap_or(text);
    matches!(digits.len(), 3 | 6) && digits.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Whole groups of four characters of the standard alphabet; not empty.
fn is_base64(text: &str) -> bool {
    let bytes = text.as_bytes();
    let padding = bytes.iter().rev().take_while(|byte| **byte == b'=').count();
    let body = &bytes[..bytes.len() - padding];
    let alphabet = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/');
    !bytes.is_empty() && bytes.len().is_multiple_of(4) && padding <= 2 && body.iter().all(alphabet)
}

fn is_label(text: &str) -> bool {
    let bytes = text.as_bytes();
    let end = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    bytes.first().is_some_and(end)
        && bytes.last().is_some_and(end)
        && bytes.iter().all(|byte| end(byte) || *byte == b'-')
}
