//! Who is asking: users, and the ways in which they prove it.
//!
//! | file | |
//! |---|---|
//! | `certificates.rs` | the cluster's authority, serving and client certificates |
//! | `tls.rs` | how the server speaks TLS, and the user of a client's certificate |
//! | `x509.rs`, `der.rs`, `pem.rs` | certificates as bytes |
//! | `key_files.rs` | where keys are kept |
//! | `rotation.rs` | inventory, rotation and revocation of keys |
//! | `tokens.rs`, `claims.rs` | tokens of service accounts |
//! | `token_requests.rs` | TokenRequest and TokenReview |
//! | `static_tokens.rs` | tokens known beforehand |
//! | `impersonation.rs` | asking as somebody else |
//! | `kubeconfig.rs` | how clients find the server and show who they are |
//!
//! What a user may do is decided in [`crate::rbac`].

pub mod certificates;
pub mod claims;
mod der;
mod error;
pub mod impersonation;
pub mod key_files;
pub mod kubeconfig;
pub mod openid;
pub mod peers;
mod pem;
pub mod rotation;
pub mod static_tokens;
pub mod tls;
pub mod token_requests;
pub mod tokens;
pub(crate) mod x509;
pub(crate) mod yaml_text;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};

pub use error::Error;
pub use x509::AlternativeName;

/// The key of a user's extra fields that tells credentials apart in an audit.
pub const CREDENTIAL_ID: &str = "authentication.kubernetes.io/credential-id";

/// The key of a user's extra fields that only parts of this program have.
const COMPONENT: &str = "setpoint.io/component";

pub const GROUP_MASTERS: &str = "system:masters";
pub const GROUP_AUTHENTICATED: &str = "system:authenticated";
pub const GROUP_UNAUTHENTICATED: &str = "system:unauthenticated";
pub const GROUP_SERVICE_ACCOUNTS: &str = "system:serviceaccounts";
pub const GROUP_NODES: &str = "system:nodes";
pub const USER_ANONYMOUS: &str = "system:anonymous";

const SERVICE_ACCOUNT_PREFIX: &str = "system:serviceaccount:";

/// Somebody who asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    pub name: Arc<str>,
    /// Empty where the credential has none.
    pub uid: String,
    pub groups: Vec<Arc<str>>,
    pub extra: BTreeMap<String, Vec<String>>,
}

impl User {
    /// Somebody who showed no credential at all.
    pub fn anonymous() -> User {
        User {
            name: USER_ANONYMOUS.into(),
            uid: String::new(),
            groups: vec![GROUP_UNAUTHENTICATED.into()],
            extra: BTreeMap::new(),
        }
    }

    /// Somebody whose credential held; the group of all such users is added.
    pub fn authenticated<G: AsRef<str>>(name: &str, groups: impl IntoIterator<Item = G>) -> User {
        let mut groups: Vec<Arc<str>> = groups.into_iter().map(|g| g.as_ref().into()).collect();
        if !groups.iter().any(|group| &**group == GROUP_AUTHENTICATED) {
            groups.push(GROUP_AUTHENTICATED.into());
        }
        User { name: name.into(), uid: String::new(), groups, extra: BTreeMap::new() }
    }

    /// A part of this program, for example `system:kube-controller-manager`.
    pub fn component(name: &str) -> User {
        let mut user = User::authenticated(name, [] as [&str; 0]);
        user.extra.insert(COMPONENT.to_owned(), vec!["true".to_owned()]);
        user
    }

    /// Whether this is a part of this program itself, whatever it is called. No credential and
    /// no impersonation makes one.
    pub fn is_component(&self) -> bool {
        self.extra.contains_key(COMPONENT)
    }

    /// The agent of a node, as its certificate would make it.
    pub fn node(name: &str) -> User {
        User::authenticated(&format!("system:node:{name}"), [GROUP_NODES])
    }

    /// A service account, as its token would make it.
    pub fn service_account(namespace: &str, name: &str, uid: &str) -> User {
        let user = service_account_name(namespace, name);
        let groups = service_account_groups(namespace);
        User { uid: uid.to_owned(), ..User::authenticated(&user, groups) }
    }

    pub fn is_in(&self, group: &str) -> bool {
        self.groups.iter().any(|one| &**one == group)
    }

    /// Whether the user passes every authorization.
    pub fn is_master(&self) -> bool {
        self.is_in(GROUP_MASTERS)
    }

    pub fn is_anonymous(&self) -> bool {
        &*self.name == USER_ANONYMOUS
    }

    /// The `UserInfo` of reviews and of admission.
    pub fn to_info(&self) -> Value {
        let mut info = json!({ "username": &*self.name });
        if !self.uid.is_empty() {
            info["uid"] = json!(self.uid);
        }
        if !self.groups.is_empty() {
            info["groups"] = self.groups.iter().map(|group| &**group).collect();
        }
        if !self.extra.is_empty() {
            info["extra"] = json!(self.extra);
        }
        info
    }
}

/// The user name of a service account.
pub fn service_account_name(namespace: &str, name: &str) -> String {
    format!("{SERVICE_ACCOUNT_PREFIX}{namespace}:{name}")
}

/// The groups every service account of the namespace is in.
pub fn service_account_groups(namespace: &str) -> [String; 2] {
    [GROUP_SERVICE_ACCOUNTS.to_owned(), format!("{GROUP_SERVICE_ACCOUNTS}:{namespace}")]
}

/// Namespace and name, if the user name is that of a service account.
pub fn split_service_account(user: &str) -> Option<(&str, &str)> {
    let (namespace, name) = user.strip_prefix(SERVICE_ACCOUNT_PREFIX)?.split_once(':')?;
    let whole = !namespace.is_empty() && !name.is_empty() && !name.contains(':');
    whole.then_some((namespace, name))
}
