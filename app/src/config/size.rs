//! Sizes in bytes: `256MiB`, `1GB`, or a plain number.

/// For messages.
pub const EXPECTED: &str = "a size such as 256MiB, or a number of bytes";

const UNITS: &[(&str, u64)] = &[
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
    ("KB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
    ("B", 1),
];

/// Reads a size.
pub fn parse(text: &str) -> Option<u64> {
    let unit = UNITS.iter().find(|(unit, _)| text.ends_with(unit));
    let (digits, bytes) = match unit {
        Some((unit, bytes)) => (text.strip_suffix(unit)?, *bytes),
        None => (text, 1),
    };
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    if is_number { digits.parse::<u64>().ok()?.checked_mul(bytes) } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_with_and_without_a_unit() {
        let cases = [("256MiB", 256 << 20), ("1024", 1024), ("2GB", 2_000_000_000), ("7B", 7)];
        for (text, bytes) in cases {
            assert_eq!(parse(text), Some(bytes), "{text}");
        }
    }

    #[test]
    fn what_is_no_size_is_refused() {
        for text in ["", "MiB", "1.5MiB", "-1", "+1", "1 TB", "many", "99999999999TiB"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
