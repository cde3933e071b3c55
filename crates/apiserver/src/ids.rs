//! Ids of objects and names that the server makes up.

use store::Environment;

/// The letters of generated names: no vowels, so that no words come up.
const LETTERS: &[u8; 27] = b"bcdfghjklmnpqrstvwxz2456789";
const SUFFIX_LENGTH: usize = 5;
/// The longest base that leaves room for the suffix within a label.
const BASE_MAX: usize = 63 - SUFFIX_LENGTH;

/// A random UUID of version 4.
pub fn uuid(environment: &dyn Environment) -> String {
    let (high, low) = (environment.random(), environment.random());
    let high = high & 0xffff_ffff_ffff_0fff | 0x4000;
    let low = low & 0x3fff_ffff_ffff_ffff | 0x8000_0000_0000_0000;
    format!(
        "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
        high >> 32,
        high >> 16 & 0xffff,
        high & 0xffff,
        low >> 48,
        low & 0xffff_ffff_ffff
    )
}

/// A name that begins with a base and ends at random.
pub fn generated_name(base: &str, environment: &dyn Environment) -> String {
    let mut end = base.len().min(BASE_MAX);
    while !base.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}{}", &base[..end], suffix(environment))
}

pub fn suffix(environment: &dyn Environment) -> String {
    let mut number = environment.random();
    let mut letter = || {
        let at = number % LETTERS.len() as u64;
        number /= LETTERS.len() as u64;
        LETTERS[at as usize] as char
    };
    (0..SUFFIX_LENGTH).map(|_| letter()).collect()
}

#[cfg(test)]
mod tests {
    use store::System;

    use super::*;

    #[test]
    fn a_uuid_has_its_version_and_variant() {
        let uuid = uuid(&System);
        let parts: Vec<_> = uuid.split('-').map(str::len).collect();
        assert_eq!(parts, [8, 4, 4, 4, 12]);
        assert_eq!(uuid.as_bytes()[14], b'4');
        assert!(matches!(uuid.as_bytes()[19], b'8' | b'9' | b'a' | b'b'));
    }

    #[test]
    fn a_generated_name_fits_a_label() {
        assert_eq!(generated_name("web-", &System).len(), 9);
        assert_eq!(generated_name(&"x".repeat(100), &System).len(), 63);
    }
}
