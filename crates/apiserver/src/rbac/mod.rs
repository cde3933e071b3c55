//! What users may do: roles, bindings, and the decision about one request.
//!
//! | file | |
//! |---|---|
//! | `rules.rs` | what a rule says, and whether it matches |
//! | `index.rs` | roles and bindings by subject |
//! | `aggregation.rs` | cluster roles made of other cluster roles |
//! | `cover.rs`, `escalation.rs` | nobody grants what they do not hold |
//! | `denial.rs` | the 403 that clients know |
//! | `reviews.rs` | the review kinds as functions |
//! | `bootstrap.rs`, `reconcile.rs` | the roles and bindings every cluster has |
//! | `node.rs` | what the agents of nodes may do |
//! | `standing.rs` | whether somebody may still do what they were allowed to |
//!
//! Upstream: plugin/pkg/auth/authorizer/rbac/rbac.go

mod aggregation;
pub mod bootstrap;
pub mod cover;
mod denial;
pub mod escalation;
mod index;
pub mod node;
pub mod reconcile;
pub mod reviews;
pub mod rules;
mod standing;

#[cfg(test)]
mod tests;

use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};
use std::time::Duration;

use serde_json::Value;
use store::Revision;
use tokio::sync::watch;

use crate::identity::User;

use index::Index;
use rules::Rule;

pub use denial::denial;
pub use index::Kind;
pub use standing::Standing;

/// The group of all kinds here.
pub const GROUP: &str = "rbac.authorization.k8s.io";

/// What is asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Attributes<'a> {
    pub verb: &'a str,
    pub group: &'a str,
    /// Plural.
    pub resource: &'a str,
    pub subresource: &'a str,
    /// Empty for cluster-scoped resources and for all namespaces.
    pub namespace: &'a str,
    /// Empty where the request names no object.
    pub name: &'a str,
    /// For a request that is about no resource; then only the verb counts besides.
    pub path: Option<&'a str>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The reason names the binding; it is empty for `system:masters`.
    Allowed { reason: Arc<str> },
    /// The reason names bindings that could not be followed; it is empty as a rule.
    Denied { reason: String },
}

impl Decision {
    pub fn is_allowed(&self) -> bool {
        matches!(self, Decision::Allowed { .. })
    }
}

/// What a user holds somewhere.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Held {
    pub rules: Vec<Rule>,
    /// Bindings that could not be followed, because their role does not exist.
    pub errors: Vec<String>,
}

/// Decides. It is fed roles and bindings as they change, and holds nothing else.
///
/// Reads go on side by side; a change takes effect for every decision that starts after it.
#[derive(Debug, Default)]
pub struct Authorizer {
    index: RwLock<Index>,
    /// How often something changed.
    changes: watch::Sender<u64>,
    /// The newest revision of each kind that was taken in.
    seen: watch::Sender<[Revision; Kind::ALL.len()]>,
}

/// How long a write of a role waits until it takes effect.
const EFFECT_MAX: Duration = Duration::from_secs(1);

impl Authorizer {
    pub fn new() -> Authorizer {
        Authorizer::default()
    }

    /// Everything of a kind up to a revision was taken in.
    pub fn saw(&self, kind: Kind, revision: Revision) {
        self.seen.send_modify(|seen| seen[kind as usize] = revision);
    }

    /// Waits until a write of a role or binding takes effect, so that whoever made it can rely on
    /// it. Without a follower nobody waits for ever.
    pub async fn reaches(&self, kind: Kind, revision: Revision) {
        let mut seen = self.seen.subscribe();
        let reached = seen.wait_for(|seen| seen[kind as usize] >= revision);
        let _ = tokio::time::timeout(EFFECT_MAX, reached).await;
    }

    /// Takes in a created or changed object.
    pub fn apply(&self, kind: Kind, object: &Value) {
        self.index.write().unwrap_or_else(PoisonError::into_inner).apply(kind, object);
        self.changes.send_modify(|count| *count += 1);
    }

    /// Forgets a deleted object; the namespace is empty for cluster kinds.
    pub fn remove(&self, kind: Kind, namespace: &str, name: &str) {
        self.index.write().unwrap_or_else(PoisonError::into_inner).remove(kind, namespace, name);
        self.changes.send_modify(|count| *count += 1);
    }

    pub fn authorize(&self, user: &User, attributes: &Attributes<'_>) -> Decision {
        if user.is_master() {
            return Decision::Allowed { reason: "".into() };
        }
        self.read().decide(user, attributes)
    }

    /// Every rule that binds the user in the namespace, or in the whole cluster if it is empty.
    pub fn rules_for(&self, user: &User, namespace: &str) -> Held {
        self.read().held(user, namespace)
    }

    /// The rules of a role; those of an aggregated cluster role are computed.
    pub fn rules_of(&self, role: &RoleReference<'_>) -> Option<Vec<Rule>> {
        self.read().rules_of(role).map(<[Rule]>::to_vec)
    }

    fn read(&self) -> RwLockReadGuard<'_, Index> {
        self.index.read().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A role that a binding refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoleReference<'a> {
    /// `Role` or `ClusterRole`.
    pub kind: &'a str,
    pub name: &'a str,
    /// Of the binding; a `Role` is looked for there.
    pub namespace: &'a str,
}
