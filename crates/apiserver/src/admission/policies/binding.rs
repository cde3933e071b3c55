//! What binds a policy to writes and to parameters, compiled once.

use std::sync::Arc;

use serde_json::Value;

use crate::admission::webhooks::criteria::Criteria;
use crate::object;
use crate::selectors::labels::Selector;

pub struct Binding {
    pub name: String,
    /// The name of the policy.
    pub policy: String,
    /// Which of the writes of the policy are meant; none for all.
    pub criteria: Option<Criteria>,
    pub parameters: Option<Reference>,
    pub actions: Vec<Action>,
}

/// What becomes of a write that the policy denies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    Deny,
    Warn,
    Audit,
}

/// Which objects a policy is handed.
pub struct Reference {
    pub named: Named,
    /// Empty for that of the write.
    pub namespace: String,
    pub when_missing: WhenMissing,
}

pub enum Named {
    One(String),
    /// Or why the selector cannot be read.
    Selected(Result<Selector, String>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenMissing {
    Allow,
    Deny,
}

/// The one binding of an object.
pub fn compile(binding: &Value) -> Vec<Arc<Binding>> {
    let spec = &binding["spec"];
    let matched = &spec["matchResources"];
    let action = |action: &String| match action.as_str() {
        "Deny" => Some(Action::Deny),
        "Warn" => Some(Action::Warn),
        "Audit" => Some(Action::Audit),
        _ => None,
    };
    vec![Arc::new(Binding {
        name: object::name(binding).to_owned(),
        policy: text(&spec["policyName"]),
        criteria: matched.is_object().then(|| Criteria::of_policy(matched)),
        parameters: spec["paramRef"].is_object().then(|| reference(&spec["paramRef"])),
        actions: object::texts(&spec["validationActions"]).iter().filter_map(action).collect(),
    })]
}

fn reference(reference: &Value) -> Reference {
    let named = match text(&reference["name"]) {
        name if !name.is_empty() => Named::One(name),
        _ => Named::Selected(
            Selector::from_object(Some(&reference["selector"]), "selector")
                .map_err(|_| "its selector cannot be read".to_owned()),
        ),
    };
    Reference {
        named,
        namespace: text(&reference["namespace"]),
        when_missing: match reference["parameterNotFoundAction"] == "Allow" {
            true => WhenMissing::Allow,
            false => WhenMissing::Deny,
        },
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}
