//! Nobody grants what they do not hold: what writes of roles and bindings must pass.
//!
//! Upstream: pkg/registry/rbac/{role,clusterrole,rolebinding,clusterrolebinding}/policybased

use serde_json::Value;

use crate::field_error::FieldError;
use crate::identity::User;
use crate::status::{About, Error};

use super::cover::{compact, covers};
use super::rules::{Rule, quoted};
use super::{Attributes, Authorizer, GROUP, Kind, RoleReference};

/// A write of a role or binding. On an update that leaves rules (or subjects and role) alone there
/// is nothing to check: see [`grants_changed`].
#[derive(Clone, Copy, Debug)]
pub struct Write<'a> {
    pub user: &'a User,
    pub kind: Kind,
    pub object: &'a Value,
}

/// Refuses a write that would grant what the user does not hold.
pub fn check(authorizer: &Authorizer, write: &Write<'_>) -> Result<(), Error> {
    if write.user.is_master() {
        return Ok(());
    }
    match write.kind {
        Kind::Role | Kind::ClusterRole => check_role(authorizer, write),
        Kind::RoleBinding | Kind::ClusterRoleBinding => check_binding(authorizer, write),
    }
}

/// Whether an update changes what is granted.
pub fn grants_changed(kind: Kind, old: &Value, new: &Value) -> bool {
    let fields: &[&str] = match kind {
        Kind::Role => &["rules"],
        Kind::ClusterRole => &["rules", "aggregationRule"],
        Kind::RoleBinding | Kind::ClusterRoleBinding => &["roleRef", "subjects"],
    };
    fields.iter().any(|field| old[field] != new[field])
}

/// A binding is for one role as long as it lives: who was let in by it must not find themselves
/// with another.
pub fn check_role_reference(old: &Value, new: &Value) -> Option<FieldError> {
    let same = ["apiGroup", "kind", "name"]
        .iter()
        .all(|field| old["roleRef"][field] == new["roleRef"][field]);
    (!same).then(|| FieldError::invalid("roleRef", new["roleRef"].clone(), "cannot change roleRef"))
}

/// What somebody is told who would grant more than they hold.
pub fn escalation_message(user: &User, missing: &[Rule]) -> String {
    let mut lines: Vec<String> = compact(missing).iter().map(Rule::to_string).collect();
    lines.sort();
    lines.dedup();
    format!(
        "user {:?} (groups={}) is attempting to grant RBAC permissions not currently held:\n{}",
        &*user.name,
        quoted(&user.groups),
        lines.join("\n")
    )
}

fn check_role(authorizer: &Authorizer, write: &Write<'_>) -> Result<(), Error> {
    let (namespace, name) = place(write.object);
    let escalate = Attributes {
        verb: "escalate",
        group: GROUP,
        resource: write.kind.resource(),
        namespace,
        name,
        ..Default::default()
    };
    if authorizer.authorize(write.user, &escalate).is_allowed() {
        return Ok(());
    }
    if write.kind == Kind::ClusterRole && write.object["aggregationRule"].is_object() {
        let held = authorizer.rules_for(write.user, "").rules;
        if covers(&held, &everything()).is_err() {
            let why = "must have cluster-admin privileges to use the aggregationRule";
            return Err(forbidden(write, why));
        }
    }
    confirm(authorizer, write, &Rule::list(&write.object["rules"]))
}

fn check_binding(authorizer: &Authorizer, write: &Write<'_>) -> Result<(), Error> {
    let (namespace, _) = place(write.object);
    let text = |field: &str| write.object["roleRef"][field].as_str().unwrap_or_default();
    let role = RoleReference { kind: text("kind"), name: text("name"), namespace };
    let resource = match role.kind {
        "Role" => "roles",
        _ => "clusterroles",
    };
    let bind = Attributes {
        verb: "bind",
        group: GROUP,
        resource,
        namespace,
        name: role.name,
        ..Default::default()
    };
    if authorizer.authorize(write.user, &bind).is_allowed() {
        return Ok(());
    }
    let Some(rules) = authorizer.rules_of(&role) else {
        return Err(Error::not_found(About { group: GROUP, resource }, role.name));
    };
    confirm(authorizer, write, &rules)
}

fn confirm(authorizer: &Authorizer, write: &Write<'_>, wanted: &[Rule]) -> Result<(), Error> {
    let (namespace, _) = place(write.object);
    let held = authorizer.rules_for(write.user, namespace);
    covers(&held.rules, wanted).map_err(|missing| {
        let mut message = escalation_message(write.user, &missing);
        if !held.errors.is_empty() {
            message = format!("{message}; resolution errors: [{}]", held.errors.join(", "));
        }
        forbidden(write, &message)
    })
}

fn forbidden(write: &Write<'_>, why: &str) -> Error {
    let (_, name) = place(write.object);
    Error::forbidden(About { group: GROUP, resource: write.kind.resource() }, name, why)
}

fn place(object: &Value) -> (&str, &str) {
    let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
    (text("namespace"), text("name"))
}

fn everything() -> [Rule; 2] {
    let all = || vec![Box::from("*")];
    [
        Rule { api_groups: all(), resources: all(), verbs: all(), ..Rule::default() },
        Rule { urls: all(), verbs: all(), ..Rule::default() },
    ]
}
