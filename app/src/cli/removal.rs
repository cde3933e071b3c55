//! Deletes objects that commands created, with everything that belongs to them.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow};
use reconcile::plan::{Deletion, Propagation, Target};
use reconcile::requests::Requests;
use reconcile::{Kind, Name};
use serde_json::json;
use tokio::time::{Instant, sleep};

use super::exit::{self, Failure, not_found};
use super::{Context, failed};
use crate::config::duration;

const POLL: Duration = Duration::from_millis(100);
/// Time that finalizers and pods have to end.
const REMOVAL_MAX: Duration = Duration::from_secs(120);

/// Deletes an object and waits until it and its dependents are gone. Returns whether it existed.
pub async fn remove(requests: &Requests, kind: Kind, name: &Name) -> Result<bool> {
    let deleting = || format!("could not delete {} {}", kind.kind, name.name);
    let Some(found) = requests.get(kind, name).await.with_context(deleting)? else {
        return Ok(false);
    };
    let options = Deletion { propagation: Some(Propagation::Foreground), ..Deletion::default() };
    match requests.delete(&Target::of(kind, &found), &options).await {
        Ok(_) => {}
        Err(error) if error.is_not_found() => return Ok(true),
        Err(error) => return Err(error).with_context(deleting),
    }
    let deadline = Instant::now() + REMOVAL_MAX;
    while let Some(left) = requests.get(kind, name).await.with_context(deleting)? {
        if left.uid != found.uid {
            break;
        }
        if Instant::now() > deadline {
            let (limit, kind_name) = (duration::short(REMOVAL_MAX), kind.kind.to_lowercase());
            let what = format!("{kind_name}/{} is still being deleted after {limit}", name.name);
            let hint = format!("setpoint why {kind_name}/{} -n {}", name.name, name.namespace);
            return Err(anyhow!(Failure::new(exit::TIMED_OUT, what).hint(hint)));
        }
        sleep(POLL).await;
    }
    Ok(true)
}

/// Deletes several objects of a kind, and reports those that could not be deleted.
pub async fn remove_all(
    requests: &Requests,
    kind: Kind,
    names: &[Name],
    context: &Context,
) -> Result<ExitCode> {
    let mut code = ExitCode::SUCCESS;
    for name in names {
        let removed = match remove(requests, kind, name).await {
            Ok(true) => Ok(()),
            Ok(false) => Err(not_found(format!(
                "{} {:?} not found in namespace {}",
                kind.kind, &*name.name, name.namespace
            ))),
            Err(error) => Err(error),
        };
        match removed {
            Ok(()) => {
                let object = json!({"kind": kind.kind, "name": &*name.name, "deleted": true});
                let line = format!("{}/{} deleted", kind.kind.to_lowercase(), name.name);
                context.output.tell(&line, &object)?;
            }
            Err(error) => code = failed(&error),
        }
    }
    Ok(code)
}
