//! Values that the store, its files and its backups must not show.
//!
//! Every write has a data key of its own; that key is wrapped by a key from a file. Both are bound
//! to the storage key, so that a sealed value is worth nothing in another place.
//!
//! ```text
//! magic | key id (8) | nonce (12) | wrapped data key (32 + 16) | nonce (12) | value (n + 16)
//! ```

pub mod kinds;
pub mod store;

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::rand::{SecureRandom, SystemRandom};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::identity::Error as KeyError;
use crate::identity::key_files::{self, KeyFiles};

/// No object of ours starts with a zero byte.
const MAGIC: &[u8] = b"\0setpoint-sealed-1\0";
const KEY_FILE: &str = "secrets.keys";
const KEY_OCTETS: usize = 32;
const KEY_ID_OCTETS: usize = 8;
const TAG_OCTETS: usize = 16;
const WRAPPED_OCTETS: usize = NONCE_LEN + KEY_OCTETS + TAG_OCTETS;
/// Keys that can be there at once; before another comes, all values are to be written again.
const KEYS_MAX: usize = 16;

/// What to do with a value that was never sealed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plain {
    /// Pass it through: it was written before sealing was turned on.
    Allowed,
    Refused,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("the value of {key} is not sealed")]
    NotSealed { key: String },
    #[error("the value of {key} was sealed with a key that is not in {KEY_FILE}")]
    UnknownKey { key: String },
    #[error("the value of {key} was changed after it was sealed, or belongs elsewhere")]
    Damaged { key: String },
    #[error("could not seal the value of {key}: the cryptographic library failed")]
    Seal { key: String },
}

impl Error {
    /// What to do about it, in one line.
    pub fn remedy(&self) -> &'static str {
        match self {
            Error::UnknownKey { .. } => {
                "put the secrets.keys back with which it was written, from a backup or from the \
                 machine that wrote it, beside the other keys in the data directory"
            }
            _ => "restore the data directory from a backup, or delete the object from the store",
        }
    }
}

/// Whether a value is sealed, with whatever key.
pub fn is_sealed(value: &[u8]) -> bool {
    value.starts_with(MAGIC)
}

/// Seals values and opens them.
pub struct Sealer {
    /// The first one seals.
    keys: Vec<WrappingKey>,
}

struct WrappingKey {
    id: [u8; KEY_ID_OCTETS],
    octets: [u8; KEY_OCTETS],
    cipher: LessSafeKey,
}

/// Shows which keys there are, never the keys.
impl std::fmt::Debug for Sealer {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_list().entries(self.keys.iter().map(|key| key.id)).finish()
    }
}

impl Sealer {
    /// Reads the keys, or makes one if there is none.
    pub fn load_or_create(files: &dyn KeyFiles) -> Result<Sealer, KeyError> {
        match Sealer::load(files)? {
            None => Sealer::create(files, Vec::new()),
            Some(sealer) => Ok(sealer),
        }
    }

    /// Reads the keys; `None` if there is no file of them.
    pub fn load(files: &dyn KeyFiles) -> Result<Option<Sealer>, KeyError> {
        let damaged = |why| KeyError::DamagedKeyFile { name: KEY_FILE.to_owned(), why };
        let Some(bytes) = key_files::read(files, KEY_FILE)? else { return Ok(None) };
        let keys = parse(&bytes).ok_or_else(|| damaged("a line of it is not a key"))?;
        if keys.is_empty() { Err(damaged("it has no key")) } else { Ok(Some(Sealer { keys })) }
    }

    /// Seals with another key from now on, and still opens what the former ones sealed. When all
    /// values were written again, [`Sealer::retire`] drops those.
    pub fn rotate(&self, files: &dyn KeyFiles) -> Result<Sealer, KeyError> {
        Sealer::create(files, self.keys.iter().take(KEYS_MAX - 1).map(|key| key.octets).collect())
    }

    /// Forgets every key but the one that seals.
    pub fn retire(&self, files: &dyn KeyFiles) -> Result<Sealer, KeyError> {
        let newest: Vec<_> = self.keys.iter().take(1).map(|key| key.octets).collect();
        Sealer::save(files, &newest)
    }

    /// Returns the ids of all keys, the encrypting one first.
    pub fn ids(&self) -> Vec<String> {
        let hex = |id: &[u8]| id.iter().map(|byte| format!("{byte:02x}")).collect();
        self.keys.iter().map(|key| hex(&key.id)).collect()
    }

    /// Whether the value was not sealed with the newest key, and is to be written again.
    pub fn is_stale(&self, sealed: &[u8]) -> bool {
        let newest = self.keys.first().map(|key| &key.id[..]);
        sealed.strip_prefix(MAGIC).and_then(|rest| rest.get(..KEY_ID_OCTETS)) != newest
    }

    pub fn seal(&self, key: &str, plain: &[u8]) -> Result<Vec<u8>, Error> {
        let failed = || Error::Seal { key: key.to_owned() };
        let wrapping = self.keys.first().ok_or_else(failed)?;
        let mut data_key: [u8; KEY_OCTETS] = random().ok_or_else(failed)?;
        let cipher = cipher(&data_key).ok_or_else(failed)?;
        let length = MAGIC.len() + KEY_ID_OCTETS + WRAPPED_OCTETS + NONCE_LEN + plain.len();
        let mut sealed = Vec::with_capacity(length + TAG_OCTETS);
        sealed.extend_from_slice(MAGIC);
        sealed.extend_from_slice(&wrapping.id);
        encrypt(&wrapping.cipher, &mut sealed, key, &data_key).ok_or_else(failed)?;
        encrypt(&cipher, &mut sealed, key, plain).ok_or_else(failed)?;
        data_key.fill(0);
        Ok(sealed)
    }

    pub fn open(&self, key: &str, bytes: &[u8], plain: Plain) -> Result<Vec<u8>, Error> {
        let Some(sealed) = bytes.strip_prefix(MAGIC) else {
            return match plain {
                Plain::Allowed => Ok(bytes.to_vec()),
                Plain::Refused => Err(Error::NotSealed { key: key.to_owned() }),
            };
        };
        let damaged = || Error::Damaged { key: key.to_owned() };
        let (id, sealed) = sealed.split_at_checked(KEY_ID_OCTETS).ok_or_else(damaged)?;
        let (wrapped, value) = sealed.split_at_checked(WRAPPED_OCTETS).ok_or_else(damaged)?;
        let wrapping = self
            .keys
            .iter()
            .find(|one| one.id == id)
            .ok_or_else(|| Error::UnknownKey { key: key.to_owned() })?;
        let data_key = decrypt(&wrapping.cipher, key, wrapped).ok_or_else(damaged)?;
        let cipher = cipher(&data_key).ok_or_else(damaged)?;
        decrypt(&cipher, key, value).ok_or_else(damaged)
    }

    fn create(files: &dyn KeyFiles, mut former: Vec<[u8; KEY_OCTETS]>) -> Result<Sealer, KeyError> {
        let key = random().ok_or(KeyError::Cryptography { doing: "make a key" })?;
        former.insert(0, key);
        Sealer::save(files, &former)
    }

    fn save(files: &dyn KeyFiles, keys: &[[u8; KEY_OCTETS]]) -> Result<Sealer, KeyError> {
        let lines: String = keys.iter().map(|key| format!("{}\n", STANDARD.encode(key))).collect();
        let text = format!("# Seals secrets; the first key seals, all of them open.\n{lines}");
        key_files::write_private(files, KEY_FILE, text.as_bytes())?;
        let keys: Option<Vec<WrappingKey>> = keys.iter().copied().map(WrappingKey::new).collect();
        Ok(Sealer { keys: keys.ok_or(KeyError::Cryptography { doing: "use a key" })? })
    }
}

impl WrappingKey {
    fn new(octets: [u8; KEY_OCTETS]) -> Option<WrappingKey> {
        let mut id = [0; KEY_ID_OCTETS];
        let hash = digest(&SHA256, &octets);
        id.copy_from_slice(hash.as_ref().get(..KEY_ID_OCTETS)?);
        Some(WrappingKey { id, cipher: cipher(&octets)?, octets })
    }
}

fn parse(bytes: &[u8]) -> Option<Vec<WrappingKey>> {
    let text = std::str::from_utf8(bytes).ok()?;
    text.lines()
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .map(|line| WrappingKey::new(STANDARD.decode(line).ok()?.try_into().ok()?))
        .collect()
}

fn cipher(key: &[u8]) -> Option<LessSafeKey> {
    UnboundKey::new(&AES_256_GCM, key).ok().map(LessSafeKey::new)
}

fn random<const N: usize>() -> Option<[u8; N]> {
    let mut bytes = [0; N];
    SystemRandom::new().fill(&mut bytes).ok()?;
    Some(bytes)
}

/// Appends a random nonce and the sealed bytes. A data key seals once, and a wrapping key fewer
/// than 2^32 times, below which random nonces are safe.
fn encrypt(cipher: &LessSafeKey, out: &mut Vec<u8>, key: &str, plain: &[u8]) -> Option<()> {
    let nonce: [u8; NONCE_LEN] = random()?;
    out.extend_from_slice(&nonce);
    let start = out.len();
    out.extend_from_slice(plain);
    let tag = cipher
        .seal_in_place_separate_tag(
            Nonce::assume_unique_for_key(nonce),
            Aad::from(key.as_bytes()),
            out.get_mut(start..)?,
        )
        .ok()?;
    out.extend_from_slice(tag.as_ref());
    Some(())
}

fn decrypt(cipher: &LessSafeKey, key: &str, sealed: &[u8]) -> Option<Vec<u8>> {
    let (nonce, sealed) = sealed.split_first_chunk::<NONCE_LEN>()?;
    let mut bytes = sealed.to_vec();
    let nonce = Nonce::assume_unique_for_key(*nonce);
    let length = cipher.open_in_place(nonce, Aad::from(key.as_bytes()), &mut bytes).ok()?.len();
    bytes.truncate(length);
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::identity::key_files::Privacy;
    use crate::identity::key_files::tests::Memory;

    const KEY: &str = "/registry/secrets/ns/a";
    const MARKER: &[u8] = b"0123456789-a-marker-of-32-bytes!";

    fn sealer() -> Sealer {
        Sealer::load_or_create(&Memory::default()).unwrap()
    }

    #[test]
    fn a_sealed_value_shows_nothing_and_opens_in_its_place_alone() {
        let sealer = sealer();
        let sealed = sealer.seal(KEY, MARKER).unwrap();
        assert!(!sealed.windows(8).any(|window| MARKER.windows(8).any(|part| part == window)));
        assert_eq!(sealer.open(KEY, &sealed, Plain::Refused).unwrap(), MARKER);
        assert_ne!(sealer.seal(KEY, MARKER).unwrap(), sealed, "every write has a key of its own");
        let moved = sealer.open("/registry/secrets/ns/b", &sealed, Plain::Refused);
        assert!(matches!(moved, Err(Error::Damaged { .. })));
        assert!(matches!(
            self::sealer().open(KEY, &sealed, Plain::Allowed),
            Err(Error::UnknownKey { .. })
        ));
    }

    #[test]
    fn parts_of_two_values_do_not_make_a_third() {
        let sealer = sealer();
        let (a, b) = (sealer.seal(KEY, MARKER).unwrap(), sealer.seal(KEY, b"other").unwrap());
        let cut = MAGIC.len() + KEY_ID_OCTETS + WRAPPED_OCTETS;
        let mixed = [&a[..cut], &b[cut..]].concat();
        assert!(sealer.open(KEY, &mixed, Plain::Allowed).is_err());
    }

    #[test]
    fn a_flipped_bit_or_a_lost_byte_is_noticed() {
        let sealer = sealer();
        let sealed = sealer.seal(KEY, MARKER).unwrap();
        for bit in 0..sealed.len() * 8 {
            let mut changed = sealed.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert!(sealer.open(KEY, &changed, Plain::Refused).is_err(), "bit {bit}");
        }
        for length in 0..sealed.len() {
            assert!(sealer.open(KEY, &sealed[..length], Plain::Refused).is_err(), "{length}");
        }
    }

    #[test]
    fn plain_values_pass_only_where_that_is_said() {
        let sealer = sealer();
        assert_eq!(sealer.open(KEY, b"{}", Plain::Allowed).unwrap(), b"{}");
        assert_eq!(
            sealer.open(KEY, b"{}", Plain::Refused),
            Err(Error::NotSealed { key: KEY.to_owned() })
        );
    }

    #[test]
    fn keys_rotate_and_retire() {
        let files = Memory::default();
        let first = Sealer::load_or_create(&files).unwrap();
        let sealed = first.seal(KEY, MARKER).unwrap();
        assert!(!first.is_stale(&sealed));
        let second = first.rotate(&files).unwrap();
        assert!(second.is_stale(&sealed) && second.is_stale(b"{}"));
        assert_eq!(second.open(KEY, &sealed, Plain::Refused).unwrap(), MARKER);
        let again = second.seal(KEY, MARKER).unwrap();
        assert!(first.open(KEY, &again, Plain::Refused).is_err(), "the first key did not seal it");

        let loaded = Sealer::load_or_create(&files).unwrap();
        assert_eq!(loaded.open(KEY, &sealed, Plain::Refused).unwrap(), MARKER);
        let retired = loaded.retire(&files).unwrap();
        assert_eq!(retired.open(KEY, &again, Plain::Refused).unwrap(), MARKER);
        let gone = retired.open(KEY, &sealed, Plain::Refused);
        assert!(matches!(gone, Err(Error::UnknownKey { .. })));
        assert!(files.files.lock().unwrap().values().all(|(_, it)| *it == Privacy::Private));
    }

    #[test]
    fn a_damaged_key_file_is_never_replaced_in_silence() {
        let files = Memory::default();
        for bad in [&b""[..], b"# none\n", b"short\n", b"\xff", b"AAAA\n"] {
            files.write(KEY_FILE, bad, Privacy::Private).unwrap();
            assert!(Sealer::load_or_create(&files).is_err());
        }
    }

    proptest! {
        #[test]
        fn anything_can_be_sealed(
            key in ".*",
            plain in prop::collection::vec(any::<u8>(), 0..300),
        ) {
            let sealer = sealer();
            let sealed = sealer.seal(&key, &plain).unwrap();
            prop_assert_eq!(sealer.open(&key, &sealed, Plain::Refused).unwrap(), plain);
        }

        #[test]
        fn junk_is_refused_without_a_panic(junk in prop::collection::vec(any::<u8>(), 0..200)) {
            let bytes = [MAGIC, &junk].concat();
            prop_assert!(sealer().open(KEY, &bytes, Plain::Allowed).is_err());
        }
    }
}
