//! Webhooks: other programs that change or refuse what is written.
//!
//! | file | |
//! |---|---|
//! | `configuration.rs` | a webhook, compiled once from its configuration |
//! | `criteria.rs`, `rules.rs`, `conditions.rs`, `matching.rs` | whether it is asked of a write |
//! | `versions.rs` | the object in the version that the webhook knows |
//! | `review.rs` | AdmissionReview: the question and the answer |
//! | `call.rs` | one question to one webhook |
//! | `mutating.rs`, `validating.rs` | all webhooks of one kind |
//!
//! Where none is registered, a write costs one look at a flag. Nothing is held during a call, so
//! that a webhook may itself ask the server. Configurations of webhooks and of policies are never
//! shown to webhooks, so that a broken one can be taken away.
//!
//! Upstream: apiserver/pkg/admission/plugin/webhook

mod call;
pub mod conditions;
mod configuration;
pub mod criteria;
pub mod matching;
mod mutating;
mod review;
mod rules;
mod validating;
mod versions;

use std::sync::Arc;

use serde_json::Value;

use super::follow::Registered;
use super::{Attributes, Changed, Operation, policies};
use crate::endpoints::Request;
use crate::object;
use crate::server::Server;
use crate::status::Error;
use crate::subresources::scale::{scale, set_replicas};

pub use configuration::{OnFailure, Webhook, compile};
pub use mutating::Invoked;
pub use versions::kind_of;

pub const GROUP: &str = "admissionregistration.k8s.io";
const EXEMPT: [&str; 6] = [
    "mutatingadmissionpolicies",
    "mutatingadmissionpolicybindings",
    "mutatingwebhookconfigurations",
    "validatingadmissionpolicies",
    "validatingadmissionpolicybindings",
    "validatingwebhookconfigurations",
];

/// Who is asked about writes.
#[derive(Default)]
pub struct Webhooks {
    pub mutating: Arc<Registered<Webhook>>,
    pub validating: Arc<Registered<Webhook>>,
}

/// Whether anybody may change objects at all.
pub fn are_registered(server: &Server) -> bool {
    server.webhooks.mutating.current().is_some()
}

/// Lets webhooks change the object; says whether they did. Who was asked is noted, so that they
/// can be asked again once the plugins have looked at what became of it.
pub async fn mutate(
    server: &Server,
    attributes: &Attributes<'_>,
    object: &mut Value,
    invoked: &mut Invoked,
) -> Result<Changed, Error> {
    let Some(webhooks) = server.webhooks.mutating.current() else { return Ok(Changed::No) };
    // What is deleted is not known yet; its webhooks are asked when it is.
    if is_exempt(attributes) || attributes.operation == Operation::Delete {
        return Ok(Changed::No);
    }
    if attributes.subresource != "scale" {
        let asking = matching::Asking::new(server, attributes, attributes.old);
        return mutating::run(&asking, &webhooks, object, invoked).await;
    }
    // Whoever scales does not see the rest.
    let mut part = scale(attributes.request, object)?;
    let old = attributes.old.map(|old| scale(attributes.request, old)).transpose()?;
    let asking = matching::Asking::new(server, attributes, old.as_ref());
    let changed = mutating::run(&asking, &webhooks, &mut part, invoked).await?;
    if changed == Changed::ByWebhooks {
        let replicas = part["spec"]["replicas"].as_i64().unwrap_or(0);
        set_replicas(attributes.request, object, replicas);
    }
    Ok(changed)
}

/// Lets webhooks refuse the object as it is to be stored, or its deletion.
pub async fn validate(
    server: &Server,
    attributes: &Attributes<'_>,
    object: &Value,
) -> Result<(), Error> {
    if is_exempt(attributes) {
        return Ok(());
    }
    if attributes.operation == Operation::Delete
        && let Some(webhooks) = server.webhooks.mutating.current()
    {
        let asking = matching::Asking::new(server, attributes, attributes.old);
        let mut nothing = Value::Null;
        mutating::run(&asking, &webhooks, &mut nothing, &mut Invoked::default()).await?;
    }
    let Some(webhooks) = server.webhooks.validating.current() else { return Ok(()) };
    let part = Part::of(attributes, object)?;
    let (object, old) = part.shown(attributes, object);
    let asking = matching::Asking::new(server, attributes, old);
    validating::run(&asking, &webhooks, object).await
}

/// Whoever scales does not see the rest: what is judged of a scaling, and of what was before.
#[derive(Default)]
pub struct Part {
    scaled: Option<(Value, Option<Value>)>,
}

impl Part {
    pub fn of(attributes: &Attributes<'_>, object: &Value) -> Result<Part, Error> {
        if attributes.subresource != "scale" {
            return Ok(Part::default());
        }
        let old = attributes.old.map(|old| scale(attributes.request, old)).transpose()?;
        Ok(Part { scaled: Some((scale(attributes.request, object)?, old)) })
    }

    /// The object, and what was there before, as those who judge are shown them.
    pub fn shown<'a>(
        &'a self,
        attributes: &Attributes<'a>,
        object: &'a Value,
    ) -> (&'a Value, Option<&'a Value>) {
        match &self.scaled {
            Some((scaled, old)) => (scaled, old.as_ref()),
            None => (object, attributes.old),
        }
    }
}

/// Shows webhooks what was posted to a subresource that has a kind of its own, such as a Binding.
pub async fn admit_posted(
    server: &Server,
    request: &Request,
    posted: &mut Value,
) -> Result<(), Error> {
    let attributes = Attributes::of(request, Operation::Create, None);
    let mut invoked = Invoked::default();
    if mutate(server, &attributes, posted, &mut invoked).await? == Changed::ByWebhooks {
        mutate(server, &attributes, posted, invoked.again_over(posted)).await?;
    }
    // Which node a pod gets is not for policies to say.
    if request.target.subresource != "binding" {
        policies::validate(server, &attributes, posted).await?;
    }
    validate(server, &attributes, posted).await
}

/// Whether nobody is asked about the write.
pub fn is_exempt(attributes: &Attributes<'_>) -> bool {
    let resource = attributes.resource;
    // A pod that gets its node was shown as the Binding that was posted.
    let is_bound = attributes.operation == Operation::Update && attributes.subresource == "binding";
    is_bound || resource.group == GROUP && EXEMPT.contains(&resource.plural.as_str())
}

/// The name of what is written; new objects have it only themselves.
pub fn name<'a>(attributes: &Attributes<'a>, object: &'a Value) -> &'a str {
    if attributes.name.is_empty() { object::name(object) } else { attributes.name }
}
