//! A key for SSH, made for one job.

use aws_lc_rs::agreement::{ECDH_P521, PrivateKey};
use aws_lc_rs::encoding::{AsDer, EcPrivateKeyRfc5915Der};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

const ALGORITHM: &str = "ecdsa-sha2-nistp521";
const CURVE: &str = "nistp521";
/// Characters a line of PEM.
const LINE_LENGTH: usize = 64;

/// The data of the secret: the key as PEM, and what lets its holder in.
pub fn make() -> Result<Value, String> {
    let failed = |_| "could not make a key for SSH".to_owned();
    let key = PrivateKey::generate(&ECDH_P521).map_err(failed)?;
    let public = key.compute_public_key().map_err(failed)?;
    let der: EcPrivateKeyRfc5915Der<'_> = key.as_der().map_err(failed)?;
    let (private, public) = (pem(der.as_ref()), authorized(public.as_ref()));
    Ok(json!({
        "ssh-privatekey": STANDARD.encode(private),
        "ssh-publickey": STANDARD.encode(public),
    }))
}

fn pem(der: &[u8]) -> String {
    let text = STANDARD.encode(der);
    let lines = text.as_bytes().chunks(LINE_LENGTH).map(String::from_utf8_lossy);
    let mut pem = String::from("-----BEGIN EC PRIVATE KEY-----\n");
    for line in lines {
        pem.push_str(&line);
        pem.push('\n');
    }
    pem.push_str("-----END EC PRIVATE KEY-----\n");
    pem
}

/// A line of `authorized_keys`: strings with their lengths before them, in base64.
fn authorized(point: &[u8]) -> String {
    let mut wire = Vec::new();
    for part in [ALGORITHM.as_bytes(), CURVE.as_bytes(), point] {
        let length = u32::try_from(part.len()).unwrap_or(u32::MAX);
        wire.extend_from_slice(&length.to_be_bytes());
        wire.extend_from_slice(part);
    }
    format!("{ALGORITHM} {}\n", STANDARD.encode(wire))
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
        assert!(text("ssh-privatekey").starts_with("-----BEGIN EC PRIVATE KEY-----\nMIHcAgEBBE"));
        let public = text("ssh-publickey");
        assert!(public.starts_with("ecdsa-sha2-nistp521 AAAAE2VjZHNhLXNoYTItbmlzdHA1MjEAAAAIbmlz"));
        assert!(public.ends_with('\n'));
    }
}
