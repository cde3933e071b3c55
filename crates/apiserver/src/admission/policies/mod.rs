//! ValidatingAdmissionPolicies: rules in expressions that refuse writes or warn of them.
//!
//! | file | |
//! |---|---|
//! | `expression.rs` | what expressions of a policy may name |
//! | `policy.rs`, `binding.rs` | both objects, compiled once |
//! | `parameters.rs` | the objects that a binding hands to its policy |
//! | `evaluate.rs` | what a policy says of a write: pure |
//!
//! A policy does nothing without a binding. All that concern a write are heard, so that every
//! warning is given; the first refusal in order decides.
//!
//! Upstream: apiserver/pkg/admission/plugin/policy/validating/dispatcher.go

mod binding;
mod evaluate;
pub mod expression;
mod parameters;
mod policy;

use std::sync::Arc;

use serde_json::Value;

use self::binding::{Action, Binding};
use self::evaluate::{Denial, Facts, evaluate};
use self::policy::Policy;
use super::Attributes;
use super::follow::Registered;
use super::webhooks::matching::{Asking, Shown};
use super::webhooks::{OnFailure, Part, is_exempt, name};
use crate::server::Server;
use crate::status::{Cause, Error};

pub use binding::compile as compile_binding;
pub use policy::compile;

static NULL: Value = Value::Null;

/// The policies that are registered, and what binds them.
#[derive(Default)]
pub struct Policies {
    pub all: Arc<Registered<Policy>>,
    pub bindings: Arc<Registered<Binding>>,
}

/// Lets policies refuse the object as it is to be stored, or its deletion.
pub async fn validate(
    server: &Server,
    attributes: &Attributes<'_>,
    object: &Value,
) -> Result<(), Error> {
    let Some(policies) = server.policies.all.current() else { return Ok(()) };
    let Some(bindings) = server.policies.bindings.current() else { return Ok(()) };
    if is_exempt(attributes) {
        return Ok(());
    }
    let part = Part::of(attributes, object)?;
    let (object, old) = part.shown(attributes, object);
    let asking = Asking::new(server, attributes, old);
    let mut refused = None;
    for policy in policies.iter() {
        for refusal in judge(&asking, policy, &bindings, object).await {
            refused.get_or_insert(refusal);
        }
    }
    match refused {
        Some(refusal) => Err(refusal.error(attributes, object)),
        None => Ok(()),
    }
}

/// A denial that is to be enforced.
struct Refusal {
    message: String,
    reason: &'static str,
}

impl Refusal {
    fn error(self, attributes: &Attributes<'_>, object: &Value) -> Error {
        let name = name(attributes, object);
        let mut error = Error::forbidden(attributes.resource.about(), name, &self.message);
        (error.reason, error.code) = (self.reason.into(), code(self.reason));
        let (reason, field) = Default::default();
        let cause = Cause { reason, message: self.message, field };
        error.details.get_or_insert_default().causes.push(cause);
        error
    }
}

fn code(reason: &str) -> u16 {
    match reason {
        "Unauthorized" => 401,
        "Forbidden" => 403,
        "RequestEntityTooLarge" => 413,
        _ => 422,
    }
}

/// What one policy refuses, under each of its bindings.
async fn judge(
    asking: &Asking<'_>,
    policy: &Policy,
    bindings: &[Arc<Binding>],
    object: &Value,
) -> Vec<Refusal> {
    let mut refusals = Vec::new();
    if !bindings.iter().any(|binding| binding.policy == policy.name) {
        return refusals;
    }
    let shown = match shown(asking, policy, object).await {
        Ok(Some(shown)) => shown,
        Ok(None) => return refusals,
        Err(error) => {
            let why = format!("failed to configure policy: {}", error.message);
            refusals.extend(misconfigured(policy, None, &why));
            return refusals;
        }
    };
    for binding in bindings {
        if binding.policy != policy.name {
            continue;
        }
        match denials(asking, (policy, binding), &shown, object).await {
            Ok(denials) => refusals.extend(act(asking, (policy, binding), denials)),
            Err(error) => {
                let why = format!("failed to configure binding: {}", error.message);
                refusals.extend(misconfigured(policy, Some(binding), &why));
            }
        }
    }
    refusals
}

async fn shown<'o>(
    asking: &Asking<'o>,
    policy: &Policy,
    object: &'o Value,
) -> Result<Option<Shown<'o>>, Error> {
    match asking.selected(&policy.criteria, object).await? {
        Some(version) => asking.show(version, object).await.map(Some),
        None => Ok(None),
    }
}

/// What the policy denies under one binding, for each of its parameters.
async fn denials(
    asking: &Asking<'_>,
    (policy, binding): (&Policy, &Binding),
    shown: &Shown<'_>,
    object: &Value,
) -> Result<Vec<Denial>, Error> {
    if let Some(criteria) = &binding.criteria
        && asking.selected(criteria, object).await?.is_none()
    {
        return Ok(Vec::new());
    }
    let attributes = asking.attributes;
    let parameters = parameters::of(asking.server, policy, binding, attributes.namespace).await?;
    let namespace = match attributes.resource.namespaced && policy.names_namespace {
        true => asking.namespace(attributes.namespace).await?,
        false => None,
    };
    let namespace = namespace.unwrap_or(&NULL);
    let subject = asking.subject(shown);
    let judged = parameters.iter().flat_map(|parameters| {
        evaluate(policy, &Facts { subject: &subject, parameters, namespace })
    });
    Ok(judged.collect())
}

/// Warns of what was denied, and answers what is to be refused.
fn act(
    asking: &Asking<'_>,
    (policy, binding): (&Policy, &Binding),
    denials: Vec<Denial>,
) -> Vec<Refusal> {
    let mut refusals = Vec::new();
    for denial in denials {
        let (policy, bound, why) = (&policy.name, &binding.name, &denial.message);
        for action in &binding.actions {
            match action {
                Action::Deny => refusals.push(Refusal {
                    message: format!(
                        "ValidatingAdmissionPolicy '{policy}' with binding '{bound}' denied \
                         request: {why}"
                    ),
                    reason: denial.reason,
                }),
                Action::Warn => asking.attributes.warnings.add(format!(
                    "Validation failed for ValidatingAdmissionPolicy '{policy}' with binding \
                     '{bound}': {why}"
                )),
                Action::Audit => {
                    tracing::info!(policy, binding = bound, why, "a policy does not hold");
                }
            }
        }
    }
    refusals
}

/// A policy that cannot be asked refuses, unless it says that this is to be ignored.
fn misconfigured(policy: &Policy, binding: Option<&Binding>, why: &str) -> Option<Refusal> {
    if policy.on_failure == OnFailure::Ignore {
        tracing::warn!(policy = policy.name, why, "a policy failed open");
        return None;
    }
    let with = binding.map(|binding| format!(" with binding '{}'", binding.name));
    let (policy, with) = (&policy.name, with.unwrap_or_default());
    let message = format!("ValidatingAdmissionPolicy '{policy}'{with} denied request: {why}");
    Some(Refusal { message, reason: evaluate::REASON })
}
