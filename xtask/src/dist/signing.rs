//! The release key: an ECDSA key on P-256, used through `openssl`, which the installer uses too.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::printed;
use crate::workspace::{self, check};

/// Length of an uncompressed point of P-256: the end of its public key in DER.
const POINT_BYTES: usize = 65;

/// A private key in a PEM file.
pub struct Key {
    file: PathBuf,
}

/// Returns the given key, or a key of this working copy for releases that are only tried out.
pub fn load_or_generate(file: Option<&Path>) -> Result<Key> {
    if let Some(file) = file {
        if !file.is_file() {
            bail!("there is no signing key {}", file.display());
        }
        return Ok(Key { file: file.to_owned() });
    }
    let file = workspace::target_directory()?.join("trial-signing-key.pem");
    if !file.is_file() {
        println!("xtask: no --signing-key: signing with a trial key, {}", file.display());
        check(
            Command::new("openssl")
                .args(["ecparam", "-name", "prime256v1", "-genkey", "-noout", "-out"])
                .arg(&file),
        )?;
    }
    Ok(Key { file })
}

impl Key {
    /// Returns the public key as PEM text.
    pub fn public_pem(&self) -> Result<String> {
        printed(Command::new("openssl").args(["ec", "-pubout", "-in"]).arg(&self.file))
    }

    /// Returns the public key as an uncompressed point in hexadecimal digits.
    pub fn public_point(&self) -> Result<String> {
        let mut openssl = Command::new("openssl");
        openssl.args(["ec", "-pubout", "-outform", "DER", "-in"]).arg(&self.file);
        let output = openssl.output().context("could not run openssl")?;
        let der = output.stdout;
        let point = der.len().checked_sub(POINT_BYTES).map(|start| &der[start..]);
        match point {
            Some(point) if point[0] == 4 => {
                Ok(point.iter().map(|byte| format!("{byte:02x}")).collect())
            }
            _ => bail!("{} is not a P-256 key", self.file.display()),
        }
    }

    /// Writes the signature of a file beside it, as `FILE.sig`.
    pub fn sign(&self, file: &Path) -> Result<()> {
        let mut signature = file.as_os_str().to_owned();
        signature.push(".sig");
        let _ = fs::remove_file(&signature);
        let mut openssl = Command::new("openssl");
        openssl.args(["dgst", "-sha256", "-sign"]).arg(&self.file);
        check(openssl.arg("-out").arg(&signature).arg(file))
    }
}
