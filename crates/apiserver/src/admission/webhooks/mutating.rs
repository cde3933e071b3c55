//! Mutating webhooks: one after the other, each seeing what those before it made of the object.
//!
//! Upstream: apiserver/pkg/admission/plugin/webhook/mutating/{dispatcher,reinvocationcontext}.go

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value;

use super::call::{Failed, ask, ignored};
use super::configuration::{Again, Webhook};
use super::matching::{Asking, Shown};
use super::review::{Answer, Role};
use super::versions;
use crate::admission::Changed;
use crate::decode::json;
use crate::object;
use crate::patch;
use crate::status::Error;

/// Who was asked, and who is to be asked again because the object changed since.
#[derive(Debug, Default)]
pub struct Invoked {
    round: Round,
    /// Asked since the last change.
    asked: BTreeSet<String>,
    again: BTreeSet<String>,
    /// What the webhooks made of the object.
    output: Value,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Round {
    #[default]
    First,
    Second,
}

impl Invoked {
    /// The same for the second round, over what the plugins have made of the object.
    pub fn again_over(&mut self, object: &Value) -> &mut Invoked {
        self.round = Round::Second;
        if self.output != *object {
            self.require_again();
        }
        self
    }

    fn require_again(&mut self) {
        self.again.append(&mut self.asked);
    }
}

/// Asks all that are to be asked in this round.
pub async fn run(
    asking: &Asking<'_>,
    webhooks: &[Arc<Webhook>],
    object: &mut Value,
    invoked: &mut Invoked,
) -> Result<Changed, Error> {
    let mut changed = Changed::No;
    for webhook in webhooks {
        if invoked.round == Round::Second && !invoked.again.contains(&webhook.id) {
            continue;
        }
        let Some(shown) = asking.shown(webhook, object).await? else { continue };
        let answer = ask(asking, webhook, &shown, Role::Mutating).await?;
        let patched = match answer {
            Some(answer) => patched(asking, webhook, shown, &answer).await?,
            None => None,
        };
        if let Some(patched) = patched
            && patched != *object
        {
            *object = patched;
            changed = Changed::ByWebhooks;
            invoked.require_again();
        }
        if webhook.again == Again::IfNeeded {
            invoked.asked.insert(webhook.id.clone());
        }
    }
    if changed == Changed::ByWebhooks {
        invoked.output = object.clone();
    }
    Ok(changed)
}

/// The object as the answer changes it, in the version of the request and whole again.
async fn patched(
    asking: &Asking<'_>,
    webhook: &Webhook,
    shown: Shown<'_>,
    answer: &Answer,
) -> Result<Option<Value>, Error> {
    if answer.patch.is_empty() {
        return Ok(None);
    }
    let patch = json::parse(&answer.patch).map_err(Error::internal)?.value;
    if patch.as_array().is_some_and(Vec::is_empty) {
        return Ok(None);
    }
    let name = &webhook.name;
    if shown.object.is_null() {
        return Err(Error::internal(format!(
            "admission webhook {name:?} attempted to modify the object, which is not supported \
             for this operation"
        )));
    }
    if answer.patch_type != "JSONPatch" {
        let why = format!("unsupported patch type {:?}", answer.patch_type);
        return ignored(webhook, Failed(why)).map(|()| None);
    }
    let before = shown.object;
    let mut after = before.clone().into_owned();
    patch::json::apply(&mut after, &patch).map_err(Error::internal)?;
    let identity = |object: &Value| {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        [text(&object["apiVersion"]), text(&object["kind"])]
    };
    if identity(&after) != identity(&before) {
        let why = format!("admission webhook {name:?} changed the apiVersion or kind");
        return Err(Error::internal(why));
    }
    if object::namespace(&after) != object::namespace(&before) {
        return Err(Error::bad_request(
            "the namespace of the provided object does not match the namespace sent on the request",
        ));
    }
    let own = asking.attributes.resource;
    let subresource = asking.attributes.subresource;
    let resource = shown.converted.as_deref().unwrap_or(own);
    versions::complete(resource, subresource, &mut after).map_err(Error::internal)?;
    let kind = versions::kind_of(own, subresource);
    if kind != versions::kind_of(resource, subresource) {
        after = versions::convert(resource, own, &after).await?;
    }
    Ok(Some(after))
}
