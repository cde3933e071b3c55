//! A webhook, compiled once from its configuration.

use std::sync::Arc;

use serde_json::Value;

use super::conditions::Condition;
use super::criteria::Criteria;
use crate::object;
use crate::webhooks::target::Target;
use crate::webhooks::writer::Reach;

const TIMEOUT_SECONDS: u64 = 10;

/// A webhook of a configuration.
pub struct Webhook {
    pub name: String,
    /// Among all webhooks: the configuration and the name.
    pub id: String,
    pub criteria: Criteria,
    pub conditions: Vec<Condition>,
    pub on_failure: OnFailure,
    /// Whether a dry run may be shown to it.
    pub allows_dry_run: bool,
    pub again: Again,
    pub timeout_seconds: u64,
    /// `v1` or `v1beta1`: the first of the configured ones that is spoken here.
    pub version: &'static str,
    /// Or why it can never be called.
    pub target: Result<Target, String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnFailure {
    Fail,
    Ignore,
}

/// Whether it is asked again when the object changed since.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Again {
    Never,
    IfNeeded,
}

/// The webhooks of a configuration, in order.
pub fn compile(configuration: &Value) -> Vec<Arc<Webhook>> {
    let reach = Reach::of(configuration);
    let webhooks = configuration["webhooks"].as_array().map(Vec::as_slice).unwrap_or_default();
    let name = object::name(configuration);
    webhooks.iter().map(|webhook| Arc::new(compile_one(name, webhook, reach))).collect()
}

fn compile_one(configuration: &str, webhook: &Value, reach: Reach) -> Webhook {
    let name = webhook["name"].as_str().unwrap_or_default().to_owned();
    let list = |field: &str| webhook[field].as_array().map(Vec::as_slice).unwrap_or_default();
    let versions = object::texts(&webhook["admissionReviewVersions"]);
    let spoken = versions.iter().find_map(|version| match version.as_str() {
        "v1" => Some("v1"),
        "v1beta1" => Some("v1beta1"),
        _ => None,
    });
    let mut target = Target::of(&webhook["clientConfig"], reach);
    if spoken.is_none() {
        target = Err("none of its admissionReviewVersions is known".to_owned());
    }
    let criteria = Criteria::of_webhook(webhook);
    if let Some(field) = criteria.unreadable {
        target = Err(format!("its {field} cannot be read"));
    }
    Webhook {
        id: format!("{configuration}/{name}"),
        name,
        criteria,
        conditions: list("matchConditions").iter().map(Condition::of).collect(),
        on_failure: match webhook["failurePolicy"] == "Ignore" {
            true => OnFailure::Ignore,
            false => OnFailure::Fail,
        },
        allows_dry_run: webhook["sideEffects"] == "None"
            || webhook["sideEffects"] == "NoneOnDryRun",
        again: match webhook["reinvocationPolicy"] == "IfNeeded" {
            true => Again::IfNeeded,
            false => Again::Never,
        },
        timeout_seconds: webhook["timeoutSeconds"].as_u64().unwrap_or(TIMEOUT_SECONDS),
        version: spoken.unwrap_or("v1"),
        target,
    }
}
