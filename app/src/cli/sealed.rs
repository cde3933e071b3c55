//! Secrets in a file: sealed by a key that a passphrase makes.
//!
//! PBKDF2 with SHA-256 makes the key, AES-256-GCM seals; both are told with what is sealed, so that
//! the numbers can grow.

use std::num::NonZeroU32;
use std::path::PathBuf;

use anyhow::{Context as _, Result, anyhow, bail};
use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::pbkdf2::{PBKDF2_HMAC_SHA256, derive};
use aws_lc_rs::rand::{SecureRandom, SystemRandom};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clap::Args;
use serde_json::{Value, json};

const ITERATIONS: u32 = 600_000;
/// What a file may ask for: more would keep the machine busy.
const ITERATIONS_MAX: u64 = 10_000_000;
const SALT_BYTES: usize = 16;
const KEY_BYTES: usize = 32;
const CIPHER: &str = "AES-256-GCM";
const DERIVATION: &str = "PBKDF2-HMAC-SHA256";
const VARIABLE: &str = "SETPOINT_PASSPHRASE";
/// Bound to what is sealed, so that it is worth nothing elsewhere.
const PURPOSE: &[u8] = b"setpoint export: secrets";

/// Where the passphrase of an export is.
#[derive(Args, Clone)]
pub struct Passphrase {
    /// A file whose first line is the passphrase for Secrets. Else SETPOINT_PASSPHRASE.
    #[arg(long, value_name = "FILE")]
    passphrase_file: Option<PathBuf>,

    /// Leave Secrets out.
    #[arg(long, conflicts_with = "passphrase_file")]
    without_secrets: bool,
}

impl Passphrase {
    /// The passphrase; `None` where Secrets are left out.
    pub fn read(&self) -> Result<Option<String>> {
        if self.without_secrets {
            return Ok(None);
        }
        let text = match &self.passphrase_file {
            Some(path) => std::fs::read_to_string(path)
                .with_context(|| format!("could not read {}", path.display()))?,
            None => std::env::var(VARIABLE).unwrap_or_default(),
        };
        match text.lines().next().unwrap_or_default() {
            "" => bail!(
                "Secrets need a passphrase: set {VARIABLE}, name a file with --passphrase-file, or \
                 leave them out with --without-secrets"
            ),
            line => Ok(Some(line.to_owned())),
        }
    }
}

pub fn base64(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

fn key(passphrase: &str, salt: &[u8], iterations: u32) -> Result<LessSafeKey> {
    let iterations = NonZeroU32::new(iterations).context("a key of no iterations")?;
    let mut key = [0; KEY_BYTES];
    derive(PBKDF2_HMAC_SHA256, iterations, salt, passphrase.as_bytes(), &mut key);
    let key = UnboundKey::new(&AES_256_GCM, &key).map_err(|_| anyhow!("no key could be made"))?;
    Ok(LessSafeKey::new(key))
}

/// Seals bytes.
pub fn seal(passphrase: &str, plain: &[u8]) -> Result<Value> {
    let (mut salt, mut nonce) = ([0; SALT_BYTES], [0; NONCE_LEN]);
    let random = SystemRandom::new();
    for bytes in [&mut salt[..], &mut nonce[..]] {
        random.fill(bytes).map_err(|_| anyhow!("the machine gave no random numbers"))?;
    }
    let mut bytes = plain.to_vec();
    let sealing = Nonce::assume_unique_for_key(nonce);
    key(passphrase, &salt, ITERATIONS)?
        .seal_in_place_append_tag(sealing, Aad::from(PURPOSE), &mut bytes)
        .map_err(|_| anyhow!("the secrets could not be sealed"))?;
    Ok(json!({"cipher": CIPHER, "derivation": DERIVATION, "iterations": ITERATIONS,
        "salt": base64(&salt), "nonce": base64(&nonce), "sealed": base64(&bytes)}))
}

/// Opens what was sealed.
pub fn open(passphrase: &str, sealed: &Value) -> Result<Vec<u8>> {
    if sealed["cipher"] != CIPHER || sealed["derivation"] != DERIVATION {
        bail!("the secrets are sealed in a way that this program does not know");
    }
    let bytes = |field: &str| {
        let text = sealed[field].as_str().unwrap_or_default();
        STANDARD.decode(text).with_context(|| format!("the sealed secrets have a bad {field}"))
    };
    let iterations = sealed["iterations"].as_u64().filter(|count| *count <= ITERATIONS_MAX);
    let iterations = iterations.context("the sealed secrets ask for too many iterations")?;
    let nonce = Nonce::try_assume_unique_for_key(&bytes("nonce")?)
        .map_err(|_| anyhow!("the sealed secrets have a bad nonce"))?;
    let mut plain = bytes("sealed")?;
    let key = key(passphrase, &bytes("salt")?, u32::try_from(iterations)?)?;
    let opened = key.open_in_place(nonce, Aad::from(PURPOSE), &mut plain);
    let opened = opened.map_err(|_| anyhow!("the passphrase is not the one of this export"))?;
    Ok(opened.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sealed_opens_with_its_passphrase_alone() {
        let sealed = seal("right", b"hunter2").unwrap();
        assert!(!sealed.to_string().contains("hunter2"));
        assert_eq!(open("right", &sealed).unwrap(), b"hunter2");
        assert!(open("wrong", &sealed).is_err());
        let mut changed = sealed.clone();
        changed["salt"] = json!(base64(&[0; SALT_BYTES]));
        assert!(open("right", &changed).is_err());
        let mut slow = sealed;
        slow["iterations"] = json!(u64::MAX);
        assert!(open("right", &slow).is_err());
    }
}
