//! One question to one webhook.

use super::configuration::{OnFailure, Webhook};
use super::matching::{Asking, Shown};
use super::review::{self, Answer, Role};
use crate::status::Error;

/// How much all warnings of one webhook may say before they are cut.
const WARNINGS_CHARACTERS_MAX: usize = 4_096;
/// How much is left of one that is cut.
const WARNING_CHARACTERS_MAX: usize = 256;

/// Why a call gave no answer.
pub struct Failed(pub String);

/// Asks a webhook. Its refusal is an error; no answer is one too, unless it may be ignored.
pub async fn ask(
    asking: &Asking<'_>,
    webhook: &Webhook,
    shown: &Shown<'_>,
    role: Role,
) -> Result<Option<Answer>, Error> {
    if asking.attributes.dry_run && !webhook.allows_dry_run {
        let name = &webhook.name;
        let text = format!("admission webhook {name:?} does not support dry run");
        return Err(Error::bad_request(text));
    }
    let answer = match call(asking, webhook, shown, role).await {
        Ok(answer) => answer,
        Err(failed) => return ignored(webhook, failed).map(|()| None),
    };
    for (key, value) in &answer.audit_annotations {
        // The audit log has no room for them yet; whoever looks for them finds them here.
        tracing::debug!(webhook = webhook.name, key, value, "audit annotation");
    }
    warn(asking, &answer.warnings);
    match &answer.verdict {
        Ok(()) => Ok(Some(answer)),
        Err(status) => Err(review::denial(&webhook.name, status)),
    }
}

async fn call(
    asking: &Asking<'_>,
    webhook: &Webhook,
    shown: &Shown<'_>,
    role: Role,
) -> Result<Answer, Failed> {
    let server = asking.server;
    let target = webhook.target.as_ref();
    let target = target.map_err(|why| Failed(format!("could not get REST client: {why}")))?;
    let review = review::review(webhook.version, shown);
    let uid = shown.request["uid"].as_str().unwrap_or_default();
    let answer = server.webhook_client.post(server, target, &review, webhook.timeout_seconds).await;
    let answer = answer.map_err(|why| Failed(format!("failed to call webhook: {why}")))?;
    review::read(&answer, webhook.version, uid, role).map_err(Failed)
}

/// What becomes of a write whose webhook gave no answer.
pub fn ignored(webhook: &Webhook, Failed(why): Failed) -> Result<(), Error> {
    match webhook.on_failure {
        OnFailure::Ignore => {
            tracing::warn!(webhook = webhook.name, why, "a webhook failed open");
            Ok(())
        }
        OnFailure::Fail => {
            Err(Error::internal(format!("failed calling webhook {:?}: {why}", webhook.name)))
        }
    }
}

fn warn(asking: &Asking<'_>, warnings: &[String]) {
    let total: usize = warnings.iter().map(|warning| warning.chars().count()).sum();
    let is_cut = total > WARNINGS_CHARACTERS_MAX;
    let mut left = WARNINGS_CHARACTERS_MAX;
    for warning in warnings {
        let length = if is_cut { WARNING_CHARACTERS_MAX } else { total };
        let text: String = warning.chars().take(length).collect();
        let Some(rest) = left.checked_sub(text.chars().count()) else { return };
        left = rest;
        asking.attributes.warnings.add(text);
    }
}
