//! The keys with which the leader of MPI lets itself in.

use aws_lc_rs::encoding::{AsDer, Pkcs8V1Der};
use aws_lc_rs::rsa::{KeyPair, KeySize};
use aws_lc_rs::signature::KeyPair as _;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

const ALGORITHM: &str = "ssh-rsa";
/// Characters a line of PEM.
const LINE_LENGTH: usize = 64;
/// What stands before the key proper in its envelope: version, algorithm, lengths.
const ENVELOPE_BYTES: usize = 26;

/// The data of the secret: the key as PEM, and what lets its holder in.
pub fn make() -> Result<Value, String> {
    let failed = |_| "could not make a key for MPI".to_owned();
    let key = KeyPair::generate(KeySize::Rsa2048).map_err(failed)?;
    let der: Pkcs8V1Der<'_> = key.as_der().map_err(failed)?;
    let inner = der.as_ref().get(ENVELOPE_BYTES..).unwrap_or_default();
    let public = numbers(key.public_key().as_ref());
    let [modulus, exponent] = public.ok_or("could not read a key for MPI".to_owned())?;
    Ok(json!({
        "private.key": STANDARD.encode(pem(inner)),
        "private.key.pub": STANDARD.encode(authorized(exponent, modulus)),
    }))
}

fn pem(der: &[u8]) -> String {
    let text = STANDARD.encode(der);
    let lines = text.as_bytes().chunks(LINE_LENGTH).map(String::from_utf8_lossy);
    let mut pem = String::from("-----BEGIN RSA PRIVATE KEY-----\n");
    for line in lines {
        pem.push_str(&line);
        pem.push('\n');
    }
    pem.push_str("-----END RSA PRIVATE KEY-----\n");
    pem
}

/// A line of `authorized_keys`: parts with their lengths before them, in base64.
fn authorized(exponent: &[u8], modulus: &[u8]) -> String {
    let mut wire = Vec::new();
    for part in [ALGORITHM.as_bytes(), exponent, modulus] {
        let length = u32::try_from(part.len()).unwrap_or(u32::MAX);
        wire.extend_from_slice(&length.to_be_bytes());
        wire.extend_from_slice(part);
    }
    format!("{ALGORITHM} {}\n", STANDARD.encode(wire))
}

/// The two numbers of a public key: DER writes them as SSH does.
fn numbers(der: &[u8]) -> Option<[&[u8]; 2]> {
    let (whole, _) = element(der)?;
    let (modulus, rest) = element(whole)?;
    let (exponent, _) = element(rest)?;
    Some([modulus, exponent])
}

/// What an element of DER holds, and what follows it.
fn element(der: &[u8]) -> Option<(&[u8], &[u8])> {
    let (_, rest) = der.split_first()?;
    let (first, rest) = rest.split_first()?;
    let (length, rest) = match first {
        0..=0x7f => (usize::from(*first), rest),
        _ => {
            let (digits, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
            let add = |length: usize, digit: &u8| (length << 8) | usize::from(*digit);
            (digits.iter().fold(0, add), rest)
        }
    };
    rest.split_at_checked(length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_in_the_forms_that_ssh_reads() {
        let made = make().expect("a key");
        let text = |field: &str| {
            let bytes = STANDARD.decode(made[field].as_str().unwrap_or_default());
            String::from_utf8(bytes.expect("base64")).expect("text")
        };
        let begins = "-----BEGIN RSA PRIVATE KEY-----\nMIIE";
        assert!(text("private.key").starts_with(begins), "{}", text("private.key"));
        assert!(text("private.key.pub").starts_with("ssh-rsa AAAAB3NzaC1yc2EAAAADAQAB"));
    }
}
