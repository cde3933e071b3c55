//! Sign-in of the console: a code that works once, for a short time, becomes a session.
//!
//! A session is a bearer token like any other. It is kept by the page that it was given to, not in
//! a cookie: this server also passes on what programs in the cluster serve (`services/proxy`),
//! under its own origin, and a browser sends a cookie with those requests too. Cookies also know
//! nothing of ports, so that every server of the same host would be shown it. What has to be sent
//! on purpose is sent to nobody else.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use aws_lc_rs::digest::{SHA256, digest};
use aws_lc_rs::rand::{SecureRandom, SystemRandom};
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;

use crate::identity::User;
use crate::status::Error;

/// How long a code waits for its browser.
pub const CODE_SECONDS: i64 = 300;
/// How long a session lasts.
pub const SESSION_SECONDS: i64 = 12 * 3_600;
/// Codes that wait at once, and sessions at once; the oldest give way.
const CODES_MAX: usize = 64;
const SESSIONS_MAX: usize = 1_024;
/// What the tokens of sessions begin with; other tokens have dots and no such beginning.
const PREFIX: &str = "setpoint-console-";
const SECRET_BYTES: usize = 32;

/// Who a code or a session is for.
#[derive(Clone)]
pub struct Holder {
    pub user: Arc<User>,
    /// The token by which they were known: when it no longer holds, neither does the session.
    pub token: Option<String>,
}

struct Kept {
    holder: Holder,
    ends: i64,
}

type Table = BTreeMap<[u8; 32], Kept>;

/// Codes and sessions; only hashes of them are kept.
#[derive(Default)]
pub struct Sessions(Mutex<(Table, Table)>);

/// Whether a token is that of a session.
pub fn is_session(token: &str) -> bool {
    token.starts_with(PREFIX)
}

impl Sessions {
    /// A code for somebody.
    pub fn new_code(&self, holder: Holder, now: i64) -> Result<String, Error> {
        let code = secret()?;
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        put(&mut kept.0, &code, Kept { holder, ends: now + CODE_SECONDS }, (CODES_MAX, now));
        Ok(code)
    }

    /// Takes a code, which is then gone, and answers with the token of a session.
    pub fn exchange(&self, code: &str, now: i64) -> Result<Option<(String, Holder)>, Error> {
        let token = format!("{PREFIX}{}", secret()?);
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(found) = kept.0.remove(&hash(code)).filter(|found| now < found.ends) else {
            return Ok(None);
        };
        let holder = found.holder;
        let session = Kept { holder: holder.clone(), ends: now + SESSION_SECONDS };
        put(&mut kept.1, &token, session, (SESSIONS_MAX, now));
        Ok(Some((token, holder)))
    }

    /// Whose session a token is.
    pub fn find(&self, token: &str, now: i64) -> Option<Holder> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.1.get(&hash(token)).filter(|found| now < found.ends).map(|found| found.holder.clone())
    }

    /// Ends a session; tells whether there was one.
    pub fn end(&self, token: &str) -> bool {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.1.remove(&hash(token)).is_some()
    }
}

/// Makes room first: what is over goes, and then what ends first.
fn put(table: &mut Table, secret: &str, kept: Kept, (max, now): (usize, i64)) {
    table.retain(|_, one| now < one.ends);
    if table.len() >= max {
        let first = table.iter().min_by_key(|(_, one)| one.ends).map(|(key, _)| *key);
        if let Some(key) = first {
            table.remove(&key);
        }
    }
    table.insert(hash(secret), kept);
}

fn hash(secret: &str) -> [u8; 32] {
    let mut bytes = [0; 32];
    bytes.copy_from_slice(digest(&SHA256, secret.as_bytes()).as_ref());
    bytes
}

fn secret() -> Result<String, Error> {
    let mut bytes = [0; SECRET_BYTES];
    let drawn = SystemRandom::new().fill(&mut bytes);
    drawn.map_err(|_| Error::internal("the system gave no randomness"))?;
    Ok(BASE64_URL_SAFE_NO_PAD.encode(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holder(name: &str) -> Holder {
        Holder { user: Arc::new(User::authenticated(name, ["team"])), token: None }
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
        assert!(sessions.end(&token));
        assert!(sessions.find(&token, 100).is_none());
        let late = sessions.new_code(holder("ada"), 100).unwrap();
        assert!(sessions.exchange(&late, 100 + CODE_SECONDS).unwrap().is_none());
    }

    #[test]
    fn codes_are_bounded_and_the_oldest_gives_way() {
        let sessions = Sessions::default();
        let first = sessions.new_code(holder("a"), 0).unwrap();
        let others: Vec<String> =
            (0..CODES_MAX).map(|_| sessions.new_code(holder("b"), 1).unwrap()).collect();
        assert!(sessions.exchange(&first, 1).unwrap().is_none());
        assert!(sessions.exchange(&others[0], 1).unwrap().is_some());
    }
}
