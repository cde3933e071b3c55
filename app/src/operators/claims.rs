//! A namespace that a process has for itself: taken before anything is done in it, kept while the
//! process lives, and given back at its end.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow};
use reconcile::Context;
use tokio::task::JoinSet;
use tracing::warn;

use super::Claim;
use super::choice::Choice;
use super::said::Only;

/// How long giving back a namespace may take.
const GIVE_BACK_MAX: Duration = Duration::from_secs(5);

/// Takes the one namespace that is to be ours, if it is one, in the way of each family.
pub async fn take(
    choice: &Choice,
    context: &Context,
    only: Option<&Only>,
) -> Result<Vec<Arc<dyn Claim>>> {
    let Some(only) = only else { return Ok(Vec::new()) };
    let claims: Vec<_> =
        choice.families().filter_map(|(family, _)| family.claim(context, only)).collect();
    for claim in &claims {
        let taken = claim.take().await.map_err(|error| anyhow!(error.chain()));
        taken.with_context(|| format!("could not take the namespace {:?}", only.namespace))?;
    }
    Ok(claims)
}

/// Keeps what was claimed; returns when one of it is lost.
pub async fn keep(claims: &[Arc<dyn Claim>]) -> reconcile::Error {
    let mut keeping = JoinSet::new();
    for claim in claims {
        let claim = claim.clone();
        keeping.spawn(async move { claim.keep().await });
    }
    loop {
        match keeping.join_next().await {
            Some(Ok(error)) => return error,
            Some(Err(_)) => {}
            None => std::future::pending().await,
        }
    }
}

pub async fn give_back(claims: &[Arc<dyn Claim>]) {
    for claim in claims {
        match tokio::time::timeout(GIVE_BACK_MAX, claim.give_up()).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => warn!(error = %error.chain(), "the namespace was not given back"),
            Err(_) => warn!("giving the namespace back takes too long"),
        }
    }
}
