//! What the operators need to find: definitions of their kinds, roles, and what asks them before
//! objects are written.

use serde_json::{Value, json};

use crate::admission::webhooks;
use crate::{NAMESPACE, roles};

/// Everything to be applied, in order.
pub fn all() -> Vec<Value> {
    let mut all = vec![namespace()];
    all.extend(api::wukong::definitions());
    all.extend(roles());
    all.extend(roles::users());
    all.extend(webhooks::configurations());
    all
}

/// The definitions of the add-ons.
pub fn add_ons() -> Vec<Value> {
    api::add_ons::definitions()
}

/// What a cluster has whose machines are ours: the definitions of the add-ons, who stands in for
/// them, who may use them, and what asks before a disk goes that others are linked to.
pub fn provider() -> Vec<Value> {
    // Whoever finds a definition begins.
    let mut all = roles::add_ons();
    all.extend(add_ons());
    all.push(webhooks::of_bases());
    all
}

/// The rights alone, for those who install the rest themselves.
pub fn roles() -> [Value; 2] {
    roles::operator()
}

fn namespace() -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
}
