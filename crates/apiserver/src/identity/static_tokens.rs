//! Bearer tokens that are known beforehand.

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::digest::{SHA256, digest};

use super::User;

/// Users by their tokens. Only hashes of the tokens are kept.
#[derive(Clone, Debug, Default)]
pub struct StaticTokens {
    users: Vec<([u8; 32], User)>,
}

impl StaticTokens {
    /// An empty token is nobody's.
    pub fn insert(&mut self, token: &str, user: User) {
        if !token.is_empty() {
            self.users.push((hash(token), user));
        }
    }

    /// Takes as long whichever token matches, and however well.
    pub fn find(&self, token: &str) -> Option<&User> {
        let wanted = hash(token);
        let mut found = None;
        for (hash, user) in &self.users {
            if verify_slices_are_equal(hash, &wanted).is_ok() {
                found = Some(user);
            }
        }
        found
    }
}

fn hash(token: &str) -> [u8; 32] {
    let mut bytes = [0; 32];
    bytes.copy_from_slice(digest(&SHA256, token.as_bytes()).as_ref());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_its_users_and_nobody_elses() {
        let mut tokens = StaticTokens::default();
        tokens.insert("secret-a", User::component("a"));
        tokens.insert("secret-b", User::component("b"));
        tokens.insert("", User::component("empty"));
        assert_eq!(tokens.find("secret-a").map(|user| &*user.name), Some("a"));
        assert_eq!(tokens.find("secret-b").map(|user| &*user.name), Some("b"));
        for wrong in ["", "secret", "secret-a ", "secret-c", "SECRET-A"] {
            assert_eq!(tokens.find(wrong), None, "{wrong:?}");
        }
        assert!(!format!("{tokens:?}").contains("secret"));
    }
}
