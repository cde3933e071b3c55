//! Names of children that follow from their owner, so that a repeated create finds the first.

use crate::defects::{Defect, is_planted};

/// The longest name that is also a valid label and host name.
pub const NAME_BYTES_MAX: usize = 63;

const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";

/// A short text that stands for others: letters that spell no words, as Kubernetes uses.
pub fn digest(parts: &[&str]) -> String {
    let mut hash = Fnv::new();
    for part in parts {
        hash.write(part.as_bytes());
        // So that ("ab", "c") and ("a", "bc") differ.
        hash.write(&[0xff]);
    }
    if is_planted(Defect::RandomChildNames) {
        use std::sync::atomic::{AtomicU64, Ordering};
        static NEXT: AtomicU64 = AtomicU64::new(0);
        hash.write(&NEXT.fetch_add(1, Ordering::Relaxed).to_le_bytes());
    }
    let mut rest = hash.finish();
    let mut text = String::new();
    for _ in 0..10 {
        let at = usize::try_from(rest % ALPHABET.len() as u64).unwrap_or(0);
        text.push(char::from(ALPHABET[at]));
        rest /= ALPHABET.len() as u64;
    }
    text
}

/// `base-suffix`, with the base cut so that the whole is a valid name.
pub fn child(base: &str, suffix: &str) -> String {
    let room = NAME_BYTES_MAX.saturating_sub(suffix.len() + 1);
    let mut end = base.len().min(room);
    while !base.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}-{suffix}", base[..end].trim_end_matches(['-', '.']))
}

/// FNV-1a over 64 bits: the same on every machine and in every version.
struct Fnv(u64);

impl Fnv {
    fn new() -> Fnv {
        Fnv(0xcbf2_9ce4_8422_2325)
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }

    /// The low bits of FNV mix badly; fold the high ones in.
    fn finish(&self) -> u64 {
        let mixed = (self.0 ^ (self.0 >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
        mixed ^ (mixed >> 33)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_tells_its_parts_apart_and_stays_the_same() {
        assert_ne!(digest(&["ab", "c"]), digest(&["a", "bc"]));
        assert_eq!(digest(&["owner", "3"]), digest(&["owner", "3"]));
        assert_eq!(digest(&[]).len(), 10);
    }

    #[test]
    fn a_child_of_a_long_name_is_a_valid_name() {
        let name = child(&"x".repeat(100), "abcde");
        assert_eq!(name.len(), NAME_BYTES_MAX);
        assert_eq!(child("web-", "a"), "web-a");
    }
}
