//! The certificate by which the brokers of one job know each other. It follows from the job's UID,
//! so that it is the same whenever it is made.

use aws_lc_rs::agreement::{PrivateKey, X25519};
use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

const ALPHABET: &[u8; 85] =
    b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#";

/// The file, in base64 as secrets have it.
pub fn certificate(job: &str, uid: &str) -> Result<String, String> {
    let secret = digest(&SHA256, uid.as_bytes());
    let failed = |_| "could not make a key for Flux".to_owned();
    let key = PrivateKey::from_private_key(&X25519, secret.as_ref()).map_err(failed)?;
    let public = key.compute_public_key().map_err(|_| failed_unspecified())?;
    let text = format!(
        "#   ZeroMQ CURVE **Secret** Certificate\n\
         #   DO NOT PROVIDE THIS FILE TO OTHER USERS nor change its permissions.\n\
         \n\
         metadata\n    name = \"{job}\"\ncurve\n    public-key = \"{}\"\n    secret-key = \"{}\"\n",
        z85(public.as_ref()),
        z85(secret.as_ref()),
    );
    Ok(STANDARD.encode(text))
}

fn failed_unspecified() -> String {
    "could not make a key for Flux".to_owned()
}

/// Bytes as ZeroMQ writes them: four become five characters.
fn z85(bytes: &[u8]) -> String {
    let mut text = String::new();
    for four in bytes.chunks_exact(4) {
        let number = four.iter().fold(0_u32, |number, byte| (number << 8) | u32::from(*byte));
        for place in (0..5).rev() {
            let digit = number / 85_u32.pow(place) % 85;
            text.push(char::from(ALPHABET[usize::try_from(digit).unwrap_or(0)]));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_written_as_the_rfc_of_zeromq_says() {
        let bytes = [0x86, 0x4f, 0xd2, 0x6f, 0xb5, 0x59, 0xf7, 0x5b];
        assert_eq!(z85(&bytes), "HelloWorld");
    }

    #[test]
    fn one_job_has_one_certificate() {
        let made = certificate("a", "uid").expect("a certificate");
        assert_eq!(made, certificate("a", "uid").expect("a certificate"));
        assert_ne!(made, certificate("a", "other").expect("a certificate"));
        let text = String::from_utf8(STANDARD.decode(made).expect("base64")).expect("text");
        let keys = text.lines().filter_map(|line| line.split_once("-key = "));
        let lengths: Vec<usize> = keys.map(|(_, key)| key.len()).collect();
        assert_eq!(lengths, [42, 42]);
    }
}
