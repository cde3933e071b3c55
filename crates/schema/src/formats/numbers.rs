//! Numbers with a check digit and other strings of digits.

fn digits_of(text: &str, ignored: impl Fn(char) -> bool) -> String {
    text.chars().filter(|character| !ignored(*character)).collect()
}

fn is_dash_or_space(character: char) -> bool {
    character == '-' || character.is_whitespace()
}

pub(super) fn is_isbn10(text: &str) -> bool {
    let digits = digits_of(text, is_dash_or_space);
    let bytes = digits.as_bytes();
    if bytes.len() != 10 || !bytes[..9].iter().all(u8::is_ascii_digit) {
        return false;
    }
    let last = match bytes[9] {
        b'X' | b'x' => 10,
        byte if byte.is_ascii_digit() => u32::from(byte - b'0'),
        _ => return false,
    };
    let sum: u32 = (1..).zip(&bytes[..9]).map(|(at, byte)| at * u32::from(byte - b'0')).sum();
    (sum + 10 * last).is_multiple_of(11)
}

pub(super) fn is_isbn13(text: &str) -> bool {
    let digits = digits_of(text, is_dash_or_space);
    let bytes = digits.as_bytes();
    if bytes.len() != 13 || !bytes.iter().all(u8::is_ascii_digit) {
        return false;
    }
    let weights = [1, 3].into_iter().cycle();
    let sum: u32 = weights.zip(bytes).map(|(weight, byte)| weight * u32::from(byte - b'0')).sum();
    sum.is_multiple_of(10)
}

/// A number of a known issuer with a good check digit; anything but digits is ignored.
pub(super) fn is_credit_card(text: &str) -> bool {
    let digits = digits_of(text, |character| !character.is_ascii_digit());
    let starts = |prefixes: &[&str]| prefixes.iter().any(|prefix| digits.starts_with(prefix));
    let second = digits.as_bytes().get(1).copied().unwrap_or_default();
    let known = match digits.len() {
        13 => starts(&["4"]),
        14 => starts(&["300", "301", "302", "303", "304", "305", "36", "38"]),
        15 => starts(&["34", "37", "2131", "1800"]),
        16 => {
            starts(&["4", "6011", "65", "35"])
                || digits.starts_with('5') && (b'1'..=b'5').contains(&second)
                || digits.starts_with('2') && (b'2'..=b'7').contains(&second)
        }
        _ => false,
    };
    known && luhn(digits.as_bytes())
}

fn luhn(digits: &[u8]) -> bool {
    let doubled = [false, true].into_iter().cycle();
    let sum: u32 = digits
        .iter()
        .rev()
        .zip(doubled)
        .map(|(byte, double)| match (u32::from(byte - b'0'), double) {
            (digit, false) => digit,
            (digit, true) => digit * 2 / 10 + digit * 2 % 10,
        })
        .sum();
    sum.is_multiple_of(10)
}

/// `111-22-3333`, the separators optional, dashes or spaces.
pub(super) fn is_ssn(text: &str) -> bool {
    let mut rest = text;
    for (index, count) in [3, 2, 4].into_iter().enumerate() {
        if index > 0 {
            rest = rest.strip_prefix(['-', ' ']).unwrap_or(rest);
        }
        match rest.as_bytes().get(..count) {
            Some(digits) if digits.iter().all(u8::is_ascii_digit) => rest = &rest[count..],
            _ => return false,
        }
    }
    rest.is_empty()
}

/// `rgb(0, 128, 255)`.
pub(super) fn is_rgb_color(text: &str) -> bool {
    let Some(inside) = text.strip_prefix("rgb(").and_then(|rest| rest.strip_suffix(')')) else {
        return false;
    };
    let parts: Vec<_> = inside.split(',').map(str::trim).collect();
    let channel = |part: &&str| {
        part.bytes().all(|byte| byte.is_ascii_digit())
            && part.len() <= 3
            && (*part == "0" || !part.starts_with('0'))
            && part.parse::<u32>().is_ok_and(|value| value <= 255)
    };
    parts.len() == 3 && parts.iter().all(channel)
}
