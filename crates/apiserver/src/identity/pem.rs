//! DER in text armour.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rustls_pki_types::pem::{SectionKind, SliceIter};

const LINE_COLUMNS: usize = 64;

pub const CERTIFICATE: &str = "CERTIFICATE";
pub const PRIVATE_KEY: &str = "PRIVATE KEY";
pub const PUBLIC_KEY: &str = "PUBLIC KEY";

pub fn encode(label: &str, der: &[u8]) -> String {
    let mut text = format!("-----BEGIN {label}-----\n");
    let armour = STANDARD.encode(der);
    let mut rest = armour.as_str();
    while !rest.is_empty() {
        let (line, after) = rest.split_at(rest.len().min(LINE_COLUMNS));
        text.push_str(line);
        text.push('\n');
        rest = after;
    }
    text.push_str(&format!("-----END {label}-----\n"));
    text
}

/// What a file of ours holds. Nothing if any part of it is broken.
#[derive(Debug, Default)]
pub struct Sections {
    pub certificates: Vec<Vec<u8>>,
    pub private_keys: Vec<Vec<u8>>,
    pub public_keys: Vec<Vec<u8>>,
}

pub fn decode(text: &[u8]) -> Option<Sections> {
    let mut sections = Sections::default();
    for section in SliceIter::<(SectionKind, Vec<u8>)>::new(text) {
        let (kind, der) = section.ok()?;
        match kind {
            SectionKind::Certificate => sections.certificates.push(der),
            SectionKind::PrivateKey => sections.private_keys.push(der),
            SectionKind::PublicKey => sections.public_keys.push(der),
            _ => return None,
        }
    }
    Some(sections)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_encoded_comes_back() {
        let mut text = String::new();
        for length in [0, 1, 47, 48, 49, 500] {
            text.push_str(&encode(CERTIFICATE, &vec![length as u8; length]));
        }
        text.push_str(&encode(PRIVATE_KEY, b"key"));
        assert!(text.lines().all(|line| line.len() <= 64));
        let sections = decode(text.as_bytes()).unwrap();
        let lengths: Vec<usize> = sections.certificates.iter().map(Vec::len).collect();
        assert_eq!(lengths, [0, 1, 47, 48, 49, 500]);
        assert_eq!(sections.private_keys, [b"key".to_vec()]);
        assert!(decode(b"-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n").is_none());
    }
}
