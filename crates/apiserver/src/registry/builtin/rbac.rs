//! Roles and bindings. Who may grant what is decided by the authorizer, not here.
//!
//! Upstream: pkg/apis/rbac/validation/validation.go, pkg/apis/rbac/v1/defaults.go

use serde_json::Value;

use crate::registry::checks::{self, Errors};
use crate::registry::edit::{self, each_mut, set_default, text};
use crate::registry::field::Field;
use crate::registry::label_selector;
use crate::registry::names::{self, NameRule};
use crate::registry::strategy::{Properties, Strategy};

const GROUP: &str = "rbac.authorization.k8s.io";
const PROPERTIES: Properties = Properties {
    name_rule: NameRule::PathSegment,
    allows_create_on_update: true,
    ..Properties::DEFAULT
};

pub struct Role;

impl Strategy for Role {
    fn properties(&self) -> Properties {
        PROPERTIES
    }

    fn validate(&self, role: &Value) -> Errors {
        let mut errors = Errors::new();
        for rule in Field::root(role).items("rules") {
            let urls = rule.at("nonResourceURLs");
            if rule.count("nonResourceURLs") > 0 {
                let detail = "namespaced rules cannot apply to non-resource URLs";
                errors.push(urls.invalid(detail));
            }
            validate_rule(&rule, &mut errors);
        }
        errors
    }
}

pub struct ClusterRole;

impl Strategy for ClusterRole {
    fn properties(&self) -> Properties {
        PROPERTIES
    }

    fn validate(&self, role: &Value) -> Errors {
        let mut errors = Errors::new();
        let root = Field::root(role);
        for rule in root.items("rules") {
            validate_rule(&rule, &mut errors);
        }
        let aggregation = root.at("aggregationRule");
        if aggregation.is_set() && aggregation.count("clusterRoleSelectors") == 0 {
            let detail = "at least one clusterRoleSelector required if aggregationRule is non-nil";
            errors.push(aggregation.at("clusterRoleSelectors").required(detail));
        }
        for selector in aggregation.items("clusterRoleSelectors") {
            label_selector::validate(&selector, &mut errors);
        }
        errors
    }
}

fn validate_rule(rule: &Field<'_>, errors: &mut Errors) {
    if rule.count("verbs") == 0 {
        errors.push(rule.at("verbs").required("verbs must contain at least one value"));
    }
    if rule.count("nonResourceURLs") > 0 {
        let others = ["apiGroups", "resources", "resourceNames"];
        if others.iter().any(|name| rule.count(name) > 0) {
            let detail = "rules cannot apply to both regular resources and non-resource URLs";
            errors.push(rule.at("nonResourceURLs").invalid(detail));
        }
        return;
    }
    if rule.count("apiGroups") == 0 {
        let detail = "resource rules must supply at least one api group";
        errors.push(rule.at("apiGroups").required(detail));
    }
    if rule.count("resources") == 0 {
        let detail = "resource rules must supply at least one resource";
        errors.push(rule.at("resources").required(detail));
    }
}

pub struct RoleBinding;
pub struct ClusterRoleBinding;

impl Strategy for RoleBinding {
    fn properties(&self) -> Properties {
        PROPERTIES
    }

    fn default(&self, binding: &mut Value) {
        default_binding(binding);
    }

    fn validate(&self, binding: &Value) -> Errors {
        validate_binding(binding, &["ClusterRole", "Role"])
    }

    fn validate_update(&self, binding: &Value, old: &Value, _subresource: &str) -> Errors {
        let mut errors = self.validate(binding);
        validate_role_reference(binding, old, &mut errors);
        errors
    }
}

impl Strategy for ClusterRoleBinding {
    fn properties(&self) -> Properties {
        PROPERTIES
    }

    fn default(&self, binding: &mut Value) {
        default_binding(binding);
    }

    fn validate(&self, binding: &Value) -> Errors {
        validate_binding(binding, &["ClusterRole"])
    }

    fn validate_update(&self, binding: &Value, old: &Value, _subresource: &str) -> Errors {
        let mut errors = self.validate(binding);
        validate_role_reference(binding, old, &mut errors);
        errors
    }
}

fn default_binding(binding: &mut Value) {
    if let Some(role) = edit::at_mut(binding, &["roleRef"]) {
        set_default(role, "apiGroup", GROUP);
    }
    for subject in each_mut(binding, &["subjects"]) {
        match text(subject, &["kind"]) {
            "User" | "Group" => set_default(subject, "apiGroup", GROUP),
            _ => {}
        }
    }
}

fn validate_binding(binding: &Value, kinds: &[&str]) -> Errors {
    let mut errors = Errors::new();
    let root = Field::root(binding);
    let role = root.at("roleRef");
    if role.text("apiGroup") != GROUP {
        errors.push(role.at("apiGroup").not_supported(&[GROUP]));
    }
    if !kinds.contains(&role.text("kind")) {
        errors.push(role.at("kind").not_supported(kinds));
    }
    checks::named(&role.at("name"), names::path_segment, &mut errors);
    for subject in root.items("subjects") {
        validate_subject(&subject, &mut errors);
    }
    errors
}

fn validate_subject(subject: &Field<'_>, errors: &mut Errors) {
    let name = subject.at("name");
    checks::present(&name, errors);
    let group = subject.at("apiGroup");
    match subject.text("kind") {
        "ServiceAccount" => {
            checks::absent_or_named(&name, names::subdomain, errors);
            if !group.as_text().is_empty() {
                errors.push(group.not_supported(&[""]));
            }
            checks::present(&subject.at("namespace"), errors);
        }
        "User" | "Group" => {
            if group.as_text() != GROUP {
                errors.push(group.not_supported(&[GROUP]));
            }
        }
        _ => {
            let known = ["Group", "ServiceAccount", "User"];
            errors.push(subject.at("kind").not_supported(&known));
        }
    }
}

fn validate_role_reference(binding: &Value, old: &Value, errors: &mut Errors) {
    let root = Field::root(binding);
    let role = root.at("roleRef");
    if role.value != edit::at(old, &["roleRef"]) {
        errors.push(role.invalid("cannot change roleRef"));
    }
}
