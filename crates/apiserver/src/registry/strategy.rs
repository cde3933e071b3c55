//! What is special about one kind; the defaults suit most.
//!
//! The functions below are the recipe of a write, the same for all kinds: `begin_create` or
//! `begin_update` prepares an object, `check_create` or `check_update` judges it. They are pure,
//! so that a custom resource is a strategy like any other.
//!
//! Upstream: staging/apiserver/pkg/registry/rest/{create,update,delete}.go

use serde_json::{Value, json};

use super::checks::Errors;
use super::edit;
use super::metadata::{self, Scope};
use super::names::NameRule;
use crate::identity::User;

/// Who writes, what and when.
#[derive(Clone, Copy, Debug, Default)]
pub struct Context<'a> {
    /// Empty for the object itself, else `status`, `resize`, `approval` and so on.
    pub subresource: &'a str,
    pub user: &'a str,
    /// The same with groups and all, where a client asks.
    pub requester: Option<&'a User>,
    /// RFC 3339 with seconds.
    pub now: &'a str,
}

/// What a client asks of a deletion.
#[derive(Clone, Copy, Debug, Default)]
pub struct DeleteRequest {
    pub grace_period_seconds: Option<i64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deletion {
    Now,
    /// Marked at first, removed by whoever runs it after so many seconds.
    Graceful {
        seconds: i64,
    },
}

/// What happens to dependents when the client does not say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DefaultPropagation {
    Background,
    Orphan,
    None,
}

/// What a kind has and allows.
#[derive(Clone, Copy, Debug)]
pub struct Properties {
    pub name_rule: NameRule,
    pub has_status: bool,
    /// Who creates a node knows its status.
    pub keeps_status_on_create: bool,
    pub has_generation: bool,
    pub allows_unconditional_update: bool,
    pub allows_create_on_update: bool,
    /// The answer to a delete is the object, not a Status.
    pub returns_deleted_object: bool,
    pub default_propagation: DefaultPropagation,
    /// A finalizer may be a word of its own, without the domain of whoever removes it.
    pub allows_bare_finalizers: bool,
}

impl Properties {
    pub const DEFAULT: Properties = Properties {
        name_rule: NameRule::Subdomain,
        has_status: false,
        keeps_status_on_create: false,
        has_generation: false,
        allows_unconditional_update: true,
        allows_create_on_update: false,
        returns_deleted_object: false,
        default_propagation: DefaultPropagation::Background,
        allows_bare_finalizers: false,
    };
    pub const WITH_STATUS: Properties = Properties { has_status: true, ..Properties::DEFAULT };
    pub const WITH_GENERATION: Properties =
        Properties { has_generation: true, ..Properties::DEFAULT };
    pub const WITH_STATUS_AND_GENERATION: Properties =
        Properties { has_generation: true, ..Properties::WITH_STATUS };
}

/// The rules of one kind.
///
/// Guarantees: no method panics on any JSON, and `default` applied twice is `default` applied
/// once. Assumptions: unknown fields are gone, known ones have their type, the name is generated.
/// Errors: faults of the object are field errors in upstream's order and words.
pub trait Strategy: Send + Sync + 'static {
    fn properties(&self) -> Properties {
        Properties::DEFAULT
    }

    /// Fills in what the client left out, on every write and on reads of old data.
    fn default(&self, _object: &mut Value) {}

    fn prepare_create(&self, _object: &mut Value, _context: &Context<'_>) {}

    /// Also for subresources: `context.subresource` says which.
    fn prepare_update(&self, _object: &mut Value, _old: &Value, _context: &Context<'_>) {}

    fn validate(&self, _object: &Value) -> Errors {
        Errors::new()
    }

    fn validate_update(&self, object: &Value, _old: &Value, subresource: &str) -> Errors {
        if subresource.is_empty() { self.validate(object) } else { Errors::new() }
    }

    fn warnings(&self, _object: &Value, _old: Option<&Value>) -> Vec<String> {
        Vec::new()
    }

    /// What is wrong with a changed object, and what is only worth a warning.
    fn judge_update(
        &self,
        object: &Value,
        old: &Value,
        subresource: &str,
    ) -> (Errors, Vec<String>) {
        let warnings = match subresource {
            "" => self.warnings(object, Some(old)),
            _ => Vec::new(),
        };
        (self.validate_update(object, old, subresource), warnings)
    }

    fn deletion(&self, _object: &Value, _request: &DeleteRequest) -> Deletion {
        Deletion::Now
    }

    /// Prepares an object that is marked for deletion for the first time.
    fn begin_deletion(&self, _object: &mut Value, _now: &str) {}

    /// The status of an object at birth.
    fn empty_status(&self) -> Value {
        json!({})
    }

    /// Whether the difference is one that controllers must act on.
    fn changes_generation(&self, object: &Value, old: &Value) -> bool {
        content_differs(object, old)
    }
}

/// For kinds that have no row in the table.
pub struct Plain;

impl Strategy for Plain {}

const NOT_CONTENT: [&str; 4] = ["apiVersion", "kind", "metadata", "status"];

/// Whether anything but metadata and status differs.
pub fn content_differs(object: &Value, old: &Value) -> bool {
    let names = |value: &Value| -> Vec<String> {
        let all = value.as_object().into_iter().flat_map(|map| map.keys());
        all.filter(|name| !NOT_CONTENT.contains(&name.as_str())).cloned().collect()
    };
    let differs = |name: &String| !edit::same(edit::at(object, &[name]), edit::at(old, &[name]));
    names(object).iter().any(differs) || names(old).iter().any(differs)
}

/// Prepares a new object, which already has its name, uid and creation time.
pub fn begin_create(strategy: &dyn Strategy, object: &mut Value, context: &Context<'_>) {
    let properties = strategy.properties();
    if properties.has_status && !properties.keeps_status_on_create {
        edit::set(object, "status", strategy.empty_status());
    }
    if let Some(metadata) = edit::object(object, "metadata") {
        edit::remove(metadata, "generation");
        if properties.has_generation {
            edit::set(metadata, "generation", 1);
        }
    }
    strategy.prepare_create(object, context);
}

/// Prepares a changed object: what only the server may change is taken from the old one.
pub fn begin_update(
    strategy: &dyn Strategy,
    object: &mut Value,
    old: &Value,
    context: &Context<'_>,
) {
    keep_system_metadata(object, old);
    match context.subresource {
        "status" => keep_all_but_status(object, old),
        // Its strategy knows which part of the status it is about.
        "approval" => {}
        _ if strategy.properties().has_status => edit::copy_field(object, old, "status"),
        _ => {}
    }
    strategy.prepare_update(object, old, context);
    let bumps = strategy.properties().has_generation
        && context.subresource != "status"
        && strategy.changes_generation(object, old);
    if bumps {
        let generation = edit::int(old, &["metadata", "generation"]).unwrap_or(0) + 1;
        if let Some(metadata) = edit::object(object, "metadata") {
            edit::set(metadata, "generation", generation);
        }
    }
}

/// A missing uid is taken from the old object; another one is a fault for the checks to find.
fn keep_system_metadata(object: &mut Value, old: &Value) {
    let Some(metadata) = edit::object(object, "metadata") else { return };
    let old = edit::at(old, &["metadata"]);
    let kept = [
        "generation",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "selfLink",
    ];
    for name in kept {
        edit::copy_field(metadata, old, name);
    }
    if edit::text(metadata, &["uid"]).is_empty() {
        edit::copy_field(metadata, old, "uid");
    }
}

fn keep_all_but_status(object: &mut Value, old: &Value) {
    let mut kept = old.clone();
    for name in ["apiVersion", "kind", "metadata", "status"] {
        edit::copy_field(&mut kept, object, name);
    }
    *object = kept;
}

pub fn check_create(strategy: &dyn Strategy, object: &Value, scope: Scope) -> Errors {
    let mut errors = metadata::validate(object, scope, strategy.properties().name_rule);
    if !strategy.properties().allows_bare_finalizers {
        errors.extend(metadata::bare_finalizers(object));
    }
    errors.extend(strategy.validate(object));
    errors
}

/// The errors, and the warnings. Upstream holds the name of an existing object to no more than
/// fitting into a path.
pub fn check_update(
    strategy: &dyn Strategy,
    object: &Value,
    old: &Value,
    subresource: &str,
) -> (Errors, Vec<String>) {
    let mut errors = metadata::validate_update(object, old);
    if !strategy.properties().allows_bare_finalizers {
        errors.extend(metadata::bare_finalizers(object));
    }
    let (wrong, warnings) = strategy.judge_update(object, old, subresource);
    errors.extend(wrong);
    (errors, warnings)
}
