//! Validating webhooks: all at once; the first in order that refuses decides.

use std::sync::Arc;

use futures::future::BoxFuture;
use futures::{StreamExt, stream};
use serde_json::Value;

use super::call::ask;
use super::configuration::Webhook;
use super::matching::{Asking, Shown};
use super::review::Role;
use crate::status::Error;

/// How many webhooks are asked at a time about one write.
const CALLS_MAX: usize = 64;

pub async fn run(
    asking: &Asking<'_>,
    webhooks: &[Arc<Webhook>],
    object: &Value,
) -> Result<(), Error> {
    let mut invocations: Vec<(&Webhook, Shown<'_>)> = Vec::new();
    for webhook in webhooks {
        if let Some(shown) = asking.shown(webhook, object).await? {
            invocations.push((webhook, shown));
        }
    }
    let mut calls: Vec<BoxFuture<'_, Result<(), Error>>> = Vec::new();
    for (webhook, shown) in &invocations {
        let call = ask(asking, webhook, shown, Role::Validating);
        calls.push(Box::pin(async move { call.await.map(drop) }));
    }
    // Everybody is heard, so that what each of them does about it is done.
    let outcomes: Vec<Result<(), Error>> = stream::iter(calls).buffered(CALLS_MAX).collect().await;
    outcomes.into_iter().collect()
}
