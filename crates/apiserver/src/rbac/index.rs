//! Roles and bindings, found by who asks: a decision looks only at bindings of the user.
//!
//! A service account in a binding is kept under its user name, so that there are only users and
//! groups to look up.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;

use crate::identity::{User, service_account_name};

use super::aggregation::{self, ClusterRole};
use super::rules::Rule;
use super::{Attributes, Decision, Held, RoleReference};

/// The kinds that decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    ClusterRole,
    ClusterRoleBinding,
    Role,
    RoleBinding,
}

impl Kind {
    pub const ALL: [Kind; 4] =
        [Kind::ClusterRole, Kind::ClusterRoleBinding, Kind::Role, Kind::RoleBinding];

    /// The plural in paths.
    pub fn resource(self) -> &'static str {
        match self {
            Kind::ClusterRole => "clusterroles",
            Kind::ClusterRoleBinding => "clusterrolebindings",
            Kind::Role => "roles",
            Kind::RoleBinding => "rolebindings",
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Kind::ClusterRole => "ClusterRole",
            Kind::ClusterRoleBinding => "ClusterRoleBinding",
            Kind::Role => "Role",
            Kind::RoleBinding => "RoleBinding",
        }
    }

    pub fn of_resource(resource: &str) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| kind.resource() == resource)
    }
}

type NamedRules = BTreeMap<Arc<str>, Arc<[Rule]>>;

#[derive(Debug, Default)]
pub(super) struct Index {
    /// By namespace and name.
    roles: BTreeMap<Arc<str>, NamedRules>,
    cluster_roles: BTreeMap<Arc<str>, ClusterRole>,
    /// Where a binding was entered; the namespace is empty for cluster role bindings.
    bindings: BTreeMap<BindingKey, BTreeSet<Subject>>,
    users: BTreeMap<Arc<str>, Grants>,
    groups: BTreeMap<Arc<str>, Grants>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct BindingKey {
    namespace: Arc<str>,
    name: Arc<str>,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Subject {
    User(Arc<str>),
    Group(Arc<str>),
}

/// What one user or one group is bound to: by namespace, the cluster under the empty one.
type Grants = BTreeMap<Arc<str>, BTreeMap<Arc<str>, Grant>>;

#[derive(Clone, Debug)]
struct Grant {
    role_kind: Arc<str>,
    role_name: Arc<str>,
    /// What an allowed request is told.
    reason: Arc<str>,
}

impl Index {
    pub fn apply(&mut self, kind: Kind, object: &Value) {
        let metadata = &object["metadata"];
        let name: Arc<str> = metadata["name"].as_str().unwrap_or_default().into();
        let namespace: Arc<str> = metadata["namespace"].as_str().unwrap_or_default().into();
        match kind {
            Kind::ClusterRole => {
                self.put_cluster_role(name, Some(ClusterRole::from_value(object)));
            }
            Kind::Role => {
                let rules = Rule::list(&object["rules"]).into();
                self.roles.entry(namespace).or_default().insert(name, rules);
            }
            Kind::ClusterRoleBinding => {
                self.bind(BindingKey { namespace: "".into(), name }, object);
            }
            // Without a namespace it would bind in the whole cluster.
            Kind::RoleBinding if namespace.is_empty() => {}
            Kind::RoleBinding => self.bind(BindingKey { namespace, name }, object),
        }
    }

    pub fn remove(&mut self, kind: Kind, namespace: &str, name: &str) {
        match kind {
            Kind::ClusterRole => self.put_cluster_role(name.into(), None),
            Kind::Role => {
                let Some(roles) = self.roles.get_mut(namespace) else { return };
                roles.remove(name);
                if roles.is_empty() {
                    self.roles.remove(namespace);
                }
            }
            Kind::ClusterRoleBinding => {
                self.unbind(&BindingKey { namespace: "".into(), name: name.into() });
            }
            Kind::RoleBinding if namespace.is_empty() => {}
            Kind::RoleBinding => {
                self.unbind(&BindingKey { namespace: namespace.into(), name: name.into() });
            }
        }
    }

    fn put_cluster_role(&mut self, name: Arc<str>, role: Option<ClusterRole>) {
        let before = self.cluster_roles.remove(&name);
        let changed = [before.as_ref(), role.as_ref()];
        let matters = changed
            .into_iter()
            .flatten()
            .any(|role| aggregation::matters(&self.cluster_roles, role));
        if let Some(role) = role {
            self.cluster_roles.insert(name, role);
        }
        if matters {
            aggregation::aggregate(&mut self.cluster_roles);
        }
    }

    fn bind(&mut self, key: BindingKey, object: &Value) {
        self.unbind(&key);
        let reference = &object["roleRef"];
        let role_kind: Arc<str> = reference["kind"].as_str().unwrap_or_default().into();
        let role_name: Arc<str> = reference["name"].as_str().unwrap_or_default().into();
        let mut subjects = BTreeSet::new();
        for value in object["subjects"].as_array().into_iter().flatten() {
            let Some((subject, described)) = read_subject(value, &key.namespace) else { continue };
            let binding = match &*key.namespace {
                "" => format!("ClusterRoleBinding {:?}", &*key.name),
                namespace => format!("RoleBinding {:?}", format!("{}/{namespace}", key.name)),
            };
            let reason = format!(
                "RBAC: allowed by {binding} of {role_kind} {:?} to {described}",
                &*role_name
            );
            let grant = Grant {
                role_kind: Arc::clone(&role_kind),
                role_name: Arc::clone(&role_name),
                reason: reason.into(),
            };
            let grants = self.grants_mut(&subject).entry(Arc::clone(&key.namespace)).or_default();
            grants.entry(Arc::clone(&key.name)).or_insert(grant);
            subjects.insert(subject);
        }
        self.bindings.insert(key, subjects);
    }

    fn unbind(&mut self, key: &BindingKey) {
        for subject in self.bindings.remove(key).into_iter().flatten() {
            let grants = self.grants_mut(&subject);
            if let Some(bindings) = grants.get_mut(&key.namespace) {
                bindings.remove(&key.name);
                if bindings.is_empty() {
                    grants.remove(&key.namespace);
                }
            }
            if grants.is_empty() {
                match subject {
                    Subject::User(name) => self.users.remove(&name),
                    Subject::Group(name) => self.groups.remove(&name),
                };
            }
        }
    }

    fn grants_mut(&mut self, subject: &Subject) -> &mut Grants {
        match subject {
            Subject::User(name) => self.users.entry(Arc::clone(name)).or_default(),
            Subject::Group(name) => self.groups.entry(Arc::clone(name)).or_default(),
        }
    }

    pub fn decide(&self, user: &User, attributes: &Attributes<'_>) -> Decision {
        let mut errors = Vec::new();
        for namespace in scopes(attributes.namespace) {
            for (_, grant) in self.grants(user, namespace) {
                let Some(rules) = self.rules_of(&grant.reference(namespace)) else {
                    errors.push(grant.missing());
                    continue;
                };
                if rules.iter().any(|rule| rule.allows(attributes)) {
                    return Decision::Allowed { reason: Arc::clone(&grant.reason) };
                }
            }
        }
        Decision::Denied { reason: denied(errors) }
    }

    pub fn held(&self, user: &User, namespace: &str) -> Held {
        let mut held = Held::default();
        for namespace in scopes(namespace) {
            // A binding may name the user and a group of theirs.
            let bindings: BTreeMap<&Arc<str>, &Grant> = self.grants(user, namespace).collect();
            for grant in bindings.into_values() {
                match self.rules_of(&grant.reference(namespace)) {
                    Some(rules) => held.rules.extend_from_slice(rules),
                    None => held.errors.push(grant.missing()),
                }
            }
        }
        held
    }

    pub fn rules_of(&self, role: &RoleReference<'_>) -> Option<&[Rule]> {
        match role.kind {
            "ClusterRole" => self.cluster_roles.get(role.name).map(|role| &*role.rules),
            "Role" => self.roles.get(role.namespace)?.get(role.name).map(|rules| &**rules),
            _ => None,
        }
    }

    fn grants<'a>(
        &'a self,
        user: &'a User,
        namespace: &'a str,
    ) -> impl Iterator<Item = (&'a Arc<str>, &'a Grant)> {
        let own = self.users.get(&user.name);
        let of_groups = user.groups.iter().filter_map(|group| self.groups.get(group));
        own.into_iter().chain(of_groups).filter_map(move |grants| grants.get(namespace)).flatten()
    }
}

impl Grant {
    fn reference<'a>(&'a self, namespace: &'a str) -> RoleReference<'a> {
        RoleReference { kind: &self.role_kind, name: &self.role_name, namespace }
    }

    fn missing(&self) -> String {
        let kind = self.role_kind.to_lowercase();
        format!("{kind}.{} {:?} not found", super::GROUP, &*self.role_name)
    }
}

/// The cluster, then the namespace if there is one.
fn scopes(namespace: &str) -> impl Iterator<Item = &str> {
    [Some(""), (!namespace.is_empty()).then_some(namespace)].into_iter().flatten()
}

fn denied(mut errors: Vec<String>) -> String {
    errors.sort();
    errors.dedup();
    match &errors[..] {
        [] => String::new(),
        [one] => format!("RBAC: {one}"),
        many => format!("RBAC: [{}]", many.join(", ")),
    }
}

/// A subject and how a reason describes it. A service account without a namespace is one of the
/// binding's, and nobody in a binding that has none.
fn read_subject(value: &Value, binding_namespace: &str) -> Option<(Subject, String)> {
    let name = value["name"].as_str()?;
    match value["kind"].as_str()? {
        "User" => Some((Subject::User(name.into()), format!("User {name:?}"))),
        "Group" => Some((Subject::Group(name.into()), format!("Group {name:?}"))),
        "ServiceAccount" => {
            let namespace = match value["namespace"].as_str() {
                None | Some("") => binding_namespace,
                Some(own) => own,
            };
            if namespace.is_empty() {
                return None;
            }
            let user = service_account_name(namespace, name).into();
            Some((
                Subject::User(user),
                format!("ServiceAccount {:?}", format!("{name}/{namespace}")),
            ))
        }
        _ => None,
    }
}
