//! Sign-in of the console: a code that works once, for a short time, becomes a session.
//!
//! A session is a bearer token like any other. The page keeps it, not a cookie: this server also
//! proxies programs of the cluster (`services/proxy`) under its own origin, and a browser would
//! send a cookie with those requests too. Cookies also ignore ports, so every server of the same
//! host would receive it.
//!
//! Sessions survive a restart: they are kept in a private file beside the keys of the server. The
//! file has only the hash of each token, and the user encrypted with a key derived from the token,
//! so that a copy of the file signs nobody in. Signing out removes the session from the file. Codes
//! are kept in memory only.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::rand::{SecureRandom, SystemRandom};
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use tracing::warn;

use crate::identity::User;
use crate::identity::key_files::{KeyFiles, Privacy};
use crate::status::Error;

/// How long a code waits for its browser.
pub const CODE_SECONDS: i64 = 300;
/// How long a session lasts.
pub const SESSION_SECONDS: i64 = 12 * 3_600;
/// Maximum number of codes and of sessions; the oldest are dropped.
const CODES_MAX: usize = 64;
/// Maximum number of codes of one user, who drops codes of their own first.
const CODES_PER_USER_MAX: usize = 8;
const SESSIONS_MAX: usize = 1_024;
/// Prefix of session tokens; other tokens have dots and no such prefix.
const PREFIX: &str = "setpoint-console-";
const SECRET_BYTES: usize = 32;
/// The file of the sessions, beside the keys of the server.
const FILE: &str = "console.sessions";
/// Separates the encryption key of a session from the hash by which it is found.
const KEY_CONTEXT: &[u8] = b"setpoint console session\0";

/// The user of a code or a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    pub user: Arc<User>,
    /// The user who impersonates `user`, if so; the session ends when that right does.
    pub impersonator: Option<Arc<User>>,
    /// The token by which the user signed in; the session ends when that token does.
    pub token: Option<String>,
}

impl Holder {
    /// Returns the user whose credential began the session.
    fn owner(&self) -> &str {
        &self.impersonator.as_ref().unwrap_or(&self.user).name
    }
}

struct Code {
    holder: Holder,
    ends: i64,
}

/// A session at rest.
#[derive(Clone, Serialize, Deserialize)]
struct Session {
    ends: i64,
    /// The [`Record`] of its holder, encrypted with a key derived from its token.
    holder: String,
}

/// [`Holder`] as it is encrypted.
#[derive(Serialize, Deserialize)]
struct Record {
    name: String,
    uid: String,
    groups: Vec<String>,
    extra: BTreeMap<String, Vec<String>>,
    #[serde(default)]
    impersonator: Option<ImpersonatorRecord>,
    token: Option<String>,
}

#[derive(Serialize, Deserialize)]
struct ImpersonatorRecord {
    name: String,
    uid: String,
    groups: Vec<String>,
    extra: BTreeMap<String, Vec<String>>,
}

type Hash = [u8; 32];

#[derive(Default)]
struct Tables {
    codes: BTreeMap<Hash, Code>,
    sessions: BTreeMap<Hash, Session>,
}

/// Codes and sessions, by the hashes of their secrets.
#[derive(Default)]
pub struct Sessions {
    tables: Mutex<Tables>,
    /// Storage of the sessions; `None` keeps them in memory only. Locked before `tables`, so that
    /// writes are ordered while readers do not wait for the disk.
    files: Mutex<Option<Box<dyn KeyFiles>>>,
}

/// Whether a token is that of a session.
pub fn is_session(token: &str) -> bool {
    token.starts_with(PREFIX)
}

impl Sessions {
    /// Reads the sessions of an earlier run. A file that cannot be read signs users out, and
    /// nothing else.
    pub fn load(files: impl KeyFiles + 'static) -> Sessions {
        let sessions = match files.read(FILE) {
            Ok(bytes) => bytes.map(|bytes| parse(&bytes)).unwrap_or_default(),
            Err(error) => {
                warn!(%error, file = FILE, "could not read console sessions");
                BTreeMap::new()
            }
        };
        let tables = Tables { sessions, ..Tables::default() };
        Sessions { tables: Mutex::new(tables), files: Mutex::new(Some(Box::new(files))) }
    }

    /// Returns a new code for a user.
    pub fn new_code(&self, holder: Holder, now: i64) -> Result<String, Error> {
        let code = secret()?;
        let mut tables = self.tables();
        let codes = &mut tables.codes;
        codes.retain(|_, one| now < one.ends);
        drop_oldest_of(codes, holder.owner(), CODES_PER_USER_MAX);
        if codes.len() >= CODES_MAX
            && let Some(owner) = heaviest_owner(codes)
        {
            drop_oldest_of(codes, &owner, 0);
        }
        codes.insert(hash(&code), Code { holder, ends: now + CODE_SECONDS });
        Ok(code)
    }

    /// Consumes a code and returns the token of a new session.
    pub fn exchange(&self, code: &str, now: i64) -> Result<Option<(String, Holder)>, Error> {
        let token = format!("{PREFIX}{}", secret()?);
        let found = self.tables().codes.remove(&hash(code));
        let Some(found) = found.filter(|found| now < found.ends) else { return Ok(None) };
        let holder = seal(&token, &found.holder)?;
        let session = Session { ends: now + SESSION_SECONDS, holder };
        let kept = self.change(|sessions| {
            sessions.retain(|_, one| now < one.ends);
            drop_oldest(sessions, SESSIONS_MAX, |one| one.ends);
            sessions.insert(hash(&token), session);
        });
        if let Err(error) = kept {
            // It works until the server restarts.
            warn!(%error, file = FILE, "could not write console sessions");
        }
        Ok(Some((token, found.holder)))
    }

    /// Returns the user of a session.
    pub fn find(&self, token: &str, now: i64) -> Option<Holder> {
        let session = self.tables().sessions.get(&hash(token)).cloned()?;
        if now >= session.ends {
            return None;
        }
        open(token, &session.holder)
    }

    /// Ends a session; returns whether it existed.
    pub fn end(&self, token: &str) -> Result<bool, Error> {
        let mut existed = false;
        let kept = self.change(|sessions| existed = sessions.remove(&hash(token)).is_some());
        // A session that is still in the file would be valid again after a restart.
        kept.map_err(|error| Error::internal(format!("could not write {FILE}: {error}")))?;
        Ok(existed)
    }

    /// Ends all sessions and codes.
    pub fn end_all(&self) -> std::io::Result<()> {
        self.tables().codes.clear();
        self.change(BTreeMap::clear)
    }

    fn tables(&self) -> MutexGuard<'_, Tables> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the sessions and writes them.
    fn change(&self, change: impl FnOnce(&mut BTreeMap<Hash, Session>)) -> std::io::Result<()> {
        let files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        let text = {
            let mut tables = self.tables();
            change(&mut tables.sessions);
            print(&tables.sessions)
        };
        match &*files {
            Some(files) => files.write(FILE, text.as_bytes(), Privacy::Private),
            None => Ok(()),
        }
    }
}

/// Removes the oldest code of a user who has at least `max` of them.
fn drop_oldest_of(codes: &mut BTreeMap<Hash, Code>, owner: &str, max: usize) {
    let own = || codes.iter().filter(|(_, code)| code.holder.owner() == owner);
    if own().count() < max {
        return;
    }
    let first = own().min_by_key(|(_, code)| code.ends).map(|(key, _)| *key);
    if let Some(key) = first {
        codes.remove(&key);
    }
}

/// Returns the user with the most codes.
fn heaviest_owner(codes: &BTreeMap<Hash, Code>) -> Option<String> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for code in codes.values() {
        *counts.entry(code.holder.owner()).or_default() += 1;
    }
    counts.into_iter().max_by_key(|(_, count)| *count).map(|(owner, _)| owner.to_owned())
}

/// Removes the entry that ends first if there is no space for another one.
fn drop_oldest<T>(table: &mut BTreeMap<Hash, T>, max: usize, ends: impl Fn(&T) -> i64) {
    if table.len() < max {
        return;
    }
    let first = table.iter().min_by_key(|(_, one)| ends(one)).map(|(key, _)| *key);
    if let Some(key) = first {
        table.remove(&key);
    }
}

/// One line per session: its hash and the session as JSON. Lines that cannot be read are skipped.
fn parse(bytes: &[u8]) -> BTreeMap<Hash, Session> {
    let entry = |line: &str| {
        let (hash, session) = line.split_once(' ')?;
        let hash: Hash = BASE64_URL_SAFE_NO_PAD.decode(hash).ok()?.try_into().ok()?;
        Some((hash, serde_json::from_str(session).ok()?))
    };
    String::from_utf8_lossy(bytes).lines().filter_map(entry).take(SESSIONS_MAX).collect()
}

fn print(sessions: &BTreeMap<Hash, Session>) -> String {
    let line = |(hash, session): (&Hash, &Session)| {
        let hash = BASE64_URL_SAFE_NO_PAD.encode(hash);
        let session = serde_json::to_string(session).unwrap_or_default();
        format!("{hash} {session}\n")
    };
    sessions.iter().map(line).collect()
}

/// Encrypts a holder; each key is used once, so the nonce is constant.
fn seal(token: &str, holder: &Holder) -> Result<String, Error> {
    let User { name, uid, groups, extra } = &*holder.user;
    let record = Record {
        name: name.to_string(),
        uid: uid.clone(),
        groups: groups.iter().map(|group| group.to_string()).collect(),
        extra: extra.clone(),
        impersonator: holder.impersonator.as_ref().map(|user| ImpersonatorRecord {
            name: user.name.to_string(),
            uid: user.uid.clone(),
            groups: user.groups.iter().map(|group| group.to_string()).collect(),
            extra: user.extra.clone(),
        }),
        token: holder.token.clone(),
    };
    let failed = |_| Error::internal("could not encrypt the session");
    let mut bytes = serde_json::to_vec(&record)
        .map_err(|error| Error::internal(format!("could not encode the session: {error}")))?;
    let nonce = Nonce::assume_unique_for_key([0; NONCE_LEN]);
    let sealed = cipher(token)
        .and_then(|cipher| cipher.seal_in_place_append_tag(nonce, Aad::empty(), &mut bytes));
    sealed.map_err(failed)?;
    Ok(BASE64_URL_SAFE_NO_PAD.encode(bytes))
}

fn open(token: &str, sealed: &str) -> Option<Holder> {
    let mut bytes = BASE64_URL_SAFE_NO_PAD.decode(sealed).ok()?;
    let nonce = Nonce::assume_unique_for_key([0; NONCE_LEN]);
    let plain = cipher(token).ok()?.open_in_place(nonce, Aad::empty(), &mut bytes).ok()?;
    let Record { name, uid, groups: own, extra, impersonator, token } =
        serde_json::from_slice(plain).ok()?;
    let groups = |groups: &[String]| groups.iter().map(|group| group.as_str().into()).collect();
    let user = User { name: name.as_str().into(), uid, groups: groups(&own), extra };
    let impersonator = impersonator.map(|record| {
        let ImpersonatorRecord { name, uid, groups: own, extra } = record;
        Arc::new(User { name: name.as_str().into(), uid, groups: groups(&own), extra })
    });
    Some(Holder { user: Arc::new(user), impersonator, token })
}

fn cipher(token: &str) -> Result<LessSafeKey, aws_lc_rs::error::Unspecified> {
    let key = digest(&SHA256, &[KEY_CONTEXT, token.as_bytes()].concat());
    UnboundKey::new(&AES_256_GCM, key.as_ref()).map(LessSafeKey::new)
}

fn hash(secret: &str) -> Hash {
    let mut bytes = [0; 32];
    bytes.copy_from_slice(digest(&SHA256, secret.as_bytes()).as_ref());
    bytes
}

fn secret() -> Result<String, Error> {
    let mut bytes = [0; SECRET_BYTES];
    let drawn = SystemRandom::new().fill(&mut bytes);
    drawn.map_err(|_| Error::internal("the system provides no random numbers"))?;
    Ok(BASE64_URL_SAFE_NO_PAD.encode(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::key_files::Directory;
    use crate::identity::key_files::tests::Scratch;

    fn holder(name: &str) -> Holder {
        let user = Arc::new(User::authenticated(name, ["team"]));
        Holder { user, impersonator: None, token: None }
    }

    #[test]
    fn a_code_works_once_and_in_time_and_a_session_ends() {
        let sessions = Sessions::default();
        let code = sessions.new_code(holder("ada"), 100).unwrap();
        assert!(sessions.exchange("guess", 100).unwrap().is_none());
        assert!(sessions.find(&code, 100).is_none(), "a code is no session");
        let (token, found) = sessions.exchange(&code, 100).unwrap().unwrap();
        assert_eq!(&*found.user.name, "ada");
        assert!(is_session(&token));
        assert!(sessions.exchange(&code, 100).unwrap().is_none(), "twice");
        assert_eq!(&*sessions.find(&token, 100).unwrap().user.name, "ada");
        assert!(sessions.find(&token, 100 + SESSION_SECONDS).is_none());
        assert!(sessions.end(&token).unwrap());
        assert!(sessions.find(&token, 100).is_none());
        let late = sessions.new_code(holder("ada"), 100).unwrap();
        assert!(sessions.exchange(&late, 100 + CODE_SECONDS).unwrap().is_none());
    }

    #[test]
    fn one_user_does_not_take_the_codes_of_others() {
        let sessions = Sessions::default();
        let first = sessions.new_code(holder("a"), 0).unwrap();
        let own: Vec<String> = (0..CODES_MAX)
            .map(|at| sessions.new_code(holder("b"), 1 + at as i64).unwrap())
            .collect();
        assert!(sessions.exchange(&own[0], 70).unwrap().is_none(), "the oldest gives way");
        assert!(sessions.exchange(&own[CODES_MAX - 1], 70).unwrap().is_some());
        // The names that one user impersonates do not make more of them.
        let admin = Arc::new(User::authenticated("admin", [""; 0]));
        for at in 0..CODES_MAX {
            let as_other =
                Holder { impersonator: Some(admin.clone()), ..holder(&format!("u{at}")) };
            sessions.new_code(as_other, 70).unwrap();
        }
        assert!(sessions.exchange(&first, 70).unwrap().is_some());
    }

    #[test]
    fn codes_of_many_users_are_bounded() {
        let sessions = Sessions::default();
        let first = sessions.new_code(holder("a"), 0).unwrap();
        for at in 0..CODES_MAX * 2 {
            sessions.new_code(holder(&format!("u{}", at / CODES_PER_USER_MAX)), 1).unwrap();
        }
        assert!(sessions.tables().codes.len() <= CODES_MAX);
        assert!(sessions.exchange(&first, 1).unwrap().is_some(), "the heaviest user gives way");
    }

    #[test]
    fn sessions_survive_a_restart_until_they_end_or_are_signed_out() {
        let scratch = Scratch::new("console-sessions");
        let files = || Directory { path: scratch.0.clone() };
        let mut user = User::authenticated("ada", ["team"]);
        user.uid = "7".to_owned();
        user.extra.insert("scope".to_owned(), vec!["all".to_owned()]);
        let impersonator = Some(Arc::new(User::authenticated("root", ["system:masters"])));
        let token = Some("bearer-of-ada".to_owned());
        let ada = Holder { user: Arc::new(user), impersonator, token };

        let first = Sessions::load(files());
        let code = first.new_code(ada.clone(), 100).unwrap();
        let unused = first.new_code(ada.clone(), 100).unwrap();
        let (token, _) = first.exchange(&code, 100).unwrap().unwrap();
        let text = std::fs::read_to_string(scratch.0.join(FILE)).unwrap();
        for secret in ["ada", "bearer", &token] {
            assert!(!text.contains(secret), "a copy of the file must be worthless: {text}");
        }

        let second = Sessions::load(files());
        assert_eq!(second.find(&token, 100), Some(ada));
        assert!(second.find(&token, 100 + SESSION_SECONDS).is_none(), "it still ends");
        assert!(second.find(&format!("{token}x"), 100).is_none());
        assert!(second.exchange(&unused, 100).unwrap().is_none(), "codes are not kept");
        assert!(second.end(&token).unwrap());
        assert!(Sessions::load(files()).find(&token, 100).is_none(), "signed out for good");

        std::fs::write(scratch.0.join(FILE), "damaged\n\u{fffd} {}\n").unwrap();
        assert!(Sessions::load(files()).find(&token, 100).is_none());
    }
}
