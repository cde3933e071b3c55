//! Keys of a cluster as files: their inventory, their rotation with overlap, and the revocation of
//! administrators' certificates.
//!
//! Rotation writes files only. A server reads keys when it starts, and revocations all the time;
//! whatever former keys signed or encrypted stays valid, so that nothing breaks in between.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};

use super::certificates::{Authority, BACKDATED_SECONDS};
use super::key_files::{self, KeyFiles};
use super::tls::Holder;
use super::tokens::Tokens;
use super::{Error, pem, x509};
use crate::secrets_at_rest::Sealer;
use crate::start::{ADMIN_NAME, ISSUER};

/// Name of the file of revocations, beside the keys.
const REVOCATIONS_FILE: &str = "revocations.json";
/// Sessions of the console that administrators began end with their certificates.
const SESSIONS_FILE: &str = "console.sessions";
const DAY: i64 = 86_400;
/// A key that expires sooner is warned about.
pub const EXPIRY_WARNING_SECONDS: i64 = 60 * DAY;

/// Keys that can be rotated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RotatedKey {
    /// The certificate authority.
    Authority,
    /// The key that signs tokens of service accounts.
    Tokens,
    /// The key that encrypts Secrets at rest.
    Secrets,
    /// The certificate of the administrator.
    Admin,
}

/// Role of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum KeyUse {
    /// Signs or encrypts.
    Active,
    /// Only verifies or decrypts what it signed or encrypted before.
    Former,
}

/// One key of a cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct KeyEntry {
    /// `ca`, `serving`, `tokens` or `secrets`.
    pub name: &'static str,
    pub id: String,
    #[serde(rename = "use")]
    pub role: KeyUse,
    /// Seconds since 1970; `None` for keys that do not expire.
    pub expires_at: Option<i64>,
}

impl KeyEntry {
    /// Returns whether a key in use expires within [`EXPIRY_WARNING_SECONDS`].
    pub fn expires_soon(&self, now: i64) -> bool {
        let is_soon = |at: i64| at - now < EXPIRY_WARNING_SECONDS;
        self.role == KeyUse::Active && self.expires_at.is_some_and(is_soon)
    }
}

/// Returns the keys in a directory, those in use first. Makes none.
pub fn inventory(files: &dyn KeyFiles) -> Result<Vec<KeyEntry>, Error> {
    let mut entries = Vec::new();
    for (name, file) in [("ca", "ca.pem"), ("serving", "serving.pem")] {
        let Some(bytes) = key_files::read(files, file)? else { continue };
        let damaged = |why| Error::DamagedKeyFile { name: file.to_owned(), why };
        let sections = pem::decode(&bytes).ok_or_else(|| damaged("it is not PEM"))?;
        for (at, certificate) in sections.certificates.iter().enumerate() {
            let summary = x509::summary(certificate);
            let summary = summary.ok_or_else(|| damaged("a certificate cannot be read"))?;
            entries.push(KeyEntry {
                name,
                id: fingerprint(certificate),
                role: if at == 0 { KeyUse::Active } else { KeyUse::Former },
                expires_at: Some(summary.not_after),
            });
        }
    }
    let ids = |name: &'static str, ids: Vec<String>| {
        ids.into_iter().enumerate().map(move |(at, id)| KeyEntry {
            name,
            id,
            role: if at == 0 { KeyUse::Active } else { KeyUse::Former },
            expires_at: None,
        })
    };
    if key_files::read(files, super::tokens::KEY_FILE)?.is_some() {
        entries.extend(ids("tokens", Tokens::load_or_create(files, ISSUER)?.ids()));
    }
    if let Some(sealer) = Sealer::load(files)? {
        entries.extend(ids("secrets", sealer.ids()));
    }
    Ok(entries)
}

fn fingerprint(certificate: &[u8]) -> String {
    let hash = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, certificate);
    hash.as_ref().iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

/// Rotates a key. What the former one signed or encrypted stays valid.
pub fn rotate(files: &dyn KeyFiles, key: RotatedKey, now: i64) -> Result<(), Error> {
    match key {
        RotatedKey::Authority => {
            let authority = Authority::load_or_create(files, now)?;
            // Clients that know the former authority alone accept what it signed: the server shows
            // that until it is old.
            authority.renew_serving(files, now)?;
            authority.rotate(files, now).map(drop)
        }
        RotatedKey::Tokens => Tokens::load_or_create(files, ISSUER)?.rotate(files).map(drop),
        RotatedKey::Secrets => Sealer::load_or_create(files)?.rotate(files).map(drop),
        RotatedKey::Admin => revoke_admins(files, now),
    }
}

/// Revokes all certificates of administrators that were issued up to now.
fn revoke_admins(files: &dyn KeyFiles, now: i64) -> Result<(), Error> {
    let record = RevocationRecord { admin_issued_before: now + 1 };
    let text = serde_json::to_vec(&record)
        .map_err(|_| Error::Cryptography { doing: "write revocations" })?;
    key_files::write_private(files, SESSIONS_FILE, b"")?;
    key_files::write_private(files, REVOCATIONS_FILE, &text)
}

#[derive(Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RevocationRecord {
    /// Seconds since 1970.
    admin_issued_before: i64,
}

/// State of the keys that a running server follows: revocations and expiry.
#[derive(Debug, Default)]
pub struct KeyState {
    /// Administrators' certificates that were issued before are revoked.
    admin_issued_before: AtomicI64,
    entries: Mutex<Vec<KeyEntry>>,
}

impl KeyState {
    /// Reads the revocations again, and returns whether they changed.
    pub fn reload_revocations(&self, files: &dyn KeyFiles) -> Result<bool, Error> {
        let record: RevocationRecord = match key_files::read(files, REVOCATIONS_FILE)? {
            None => RevocationRecord::default(),
            Some(bytes) => serde_json::from_slice(&bytes).map_err(|_| Error::DamagedKeyFile {
                name: REVOCATIONS_FILE.to_owned(),
                why: "it is not JSON",
            })?,
        };
        let before = self.admin_issued_before.swap(record.admin_issued_before, Ordering::Relaxed);
        Ok(before != record.admin_issued_before)
    }

    /// Reads the inventory again, and logs which keys expire soon.
    pub fn reload_inventory(&self, files: &dyn KeyFiles, now: i64) -> Result<(), Error> {
        let entries = inventory(files)?;
        for entry in entries.iter().filter(|entry| entry.expires_soon(now)) {
            let days = entry.expires_at.map(|at| (at - now) / DAY);
            tracing::warn!(key = entry.name, days, "key expires soon; run `setpoint keys rotate`");
        }
        *self.entries.lock().unwrap_or_else(PoisonError::into_inner) = entries;
        Ok(())
    }

    /// Returns the time from which administrators' certificates are accepted.
    pub fn admin_accepted_from(&self) -> i64 {
        self.admin_issued_before.load(Ordering::Relaxed)
    }

    /// Returns whether the certificate of a connection is revoked.
    pub fn is_revoked(&self, holder: &Holder) -> bool {
        let issued = holder.not_before() + BACKDATED_SECONDS;
        holder.name() == ADMIN_NAME && issued < self.admin_accepted_from()
    }

    /// Returns seconds until keys in use expire, as Prometheus reads them.
    pub fn metrics(&self, now: i64) -> String {
        let mut text = String::from(
            "# HELP setpoint_key_expiry_seconds Seconds until a key of the cluster expires.\n\
             # TYPE setpoint_key_expiry_seconds gauge\n",
        );
        let entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        for entry in entries.iter().filter(|entry| entry.role == KeyUse::Active) {
            if let Some(at) = entry.expires_at {
                let (name, left) = (entry.name, at - now);
                // Writing to a string cannot fail.
                let _ = writeln!(text, "setpoint_key_expiry_seconds{{key=\"{name}\"}} {left}");
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::certificates::ClientRequest;
    use crate::identity::key_files::tests::Memory;
    use crate::identity::{GROUP_MASTERS, User};

    const NOW: i64 = 1_800_000_000;

    fn count(files: &Memory, name: &str) -> usize {
        inventory(files).unwrap().iter().filter(|one| one.name == name).count()
    }

    #[test]
    fn keys_rotate_with_overlap_and_are_listed_with_their_expiry() {
        let files = Memory::default();
        assert_eq!(inventory(&files).unwrap(), [], "nothing is made");
        let authority = Authority::load_or_create(&files, NOW).unwrap();
        authority.serving(&files, &[], NOW).unwrap();
        Tokens::load_or_create(&files, ISSUER).unwrap();
        Sealer::load_or_create(&files).unwrap();
        for key in [RotatedKey::Authority, RotatedKey::Tokens, RotatedKey::Secrets] {
            rotate(&files, key, NOW).unwrap();
        }
        for name in ["ca", "tokens", "secrets"] {
            assert_eq!(count(&files, name), 2, "{name}");
        }
        let all = inventory(&files).unwrap();
        let ca = all.iter().find(|one| one.name == "ca").unwrap();
        assert_eq!(ca.expires_at, Some(NOW + 3650 * DAY));
        assert!(!ca.expires_soon(NOW) && ca.expires_soon(NOW + 3600 * DAY));
        // The former authority signed what is served, and the new one accepts it.
        let rotated = Authority::load_or_create(&files, NOW).unwrap();
        let served = rotated.serving(&files, &[], NOW + DAY).unwrap();
        assert!(authority.vouches_for(&served, &[]), "clients of the former authority go on");
        let later = rotated.serving(&files, &[], NOW + 300 * DAY).unwrap();
        assert!(!authority.vouches_for(&later, &[]), "the overlap ends");
    }

    #[test]
    fn a_revoked_administrator_is_not_accepted_and_the_next_one_is() {
        let files = Memory::default();
        let authority = Authority::load_or_create(&files, NOW).unwrap();
        let holder = |name: &str, at: i64| {
            let user = User::authenticated(name, [GROUP_MASTERS]);
            let request = ClientRequest { user: &user, lifetime_seconds: DAY };
            let issued = authority.issue_client(request, at).unwrap();
            Holder::of_certificate(&issued.certificate).unwrap()
        };
        let state = KeyState::default();
        let leaked = holder(ADMIN_NAME, NOW);
        assert!(!state.reload_revocations(&files).unwrap() && !state.is_revoked(&leaked));
        rotate(&files, RotatedKey::Admin, NOW).unwrap();
        assert!(state.reload_revocations(&files).unwrap());
        assert!(!state.reload_revocations(&files).unwrap(), "only changes are told");
        assert!(state.is_revoked(&leaked), "also of the same second");
        let next = holder(ADMIN_NAME, state.admin_accepted_from());
        assert!(!state.is_revoked(&next));
        assert!(!state.is_revoked(&holder("other", NOW)), "others are no administrators");
        state.reload_inventory(&files, NOW).unwrap();
        let line = format!("setpoint_key_expiry_seconds{{key=\"ca\"}} {}\n", 3650 * DAY);
        assert!(state.metrics(NOW).contains(&line), "{}", state.metrics(NOW));
    }
}
