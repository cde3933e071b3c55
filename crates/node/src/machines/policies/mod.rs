//! Policies for the interfaces of nodes: this node sets up what they ask of it, and says in an
//! enactment of its own how that went, as the handlers of NMState do.
//!
//! ```text
//! wanted.rs   what a policy asks for (pure)     hands.rs   sets it up, and takes it away again
//! ```
//!
//! Upstream: nmstate/kubernetes-nmstate, controllers/handler

mod hands;
mod wanted;

use std::sync::{Arc, PoisonError};
use std::time::Duration;

use reconcile::conditions::{self, Condition, Truth};
use reconcile::plan::Target;
use reconcile::{Name, Object, Wake, owners};
use serde_json::{Value, json};

use self::hands::Hands;
use self::wanted::{Wanted, wanted};
use super::Shared;
use super::failure::Failure;
use super::kinds::{ENACTMENT, POLICY};
use super::volumes::list;
use crate::simulated::NODE;

/// Of an enactment: whose it is, and which policy's.
const NODE_LABEL: &str = "nmstate.io/node";
const POLICY_LABEL: &str = "nmstate.io/policy";
/// How often is looked whether a bridge that nobody asks for is still used.
const USED: Duration = Duration::from_secs(30);

/// Stands for no policy in particular: what none asks for goes.
pub fn everything() -> Name {
    Name::new("", "")
}

pub async fn look(shared: Arc<Shared>, name: Name) -> Result<Wake, Failure> {
    let node = Name::new("", shared.options.node.as_str());
    let Some(node) = shared.context.get_live(NODE, &node).await? else {
        return Ok(Wake::After(USED));
    };
    let all = shared.context.cache(POLICY).all();
    let concerns = |policy: &&Arc<Object>| !policy.is_terminating() && selects(policy, &node);
    let of_node: Vec<&Arc<Object>> = all.iter().filter(concerns).collect();
    // What cannot be had from a policy is not wanted by it.
    let every = of_node.iter().filter_map(|policy| read(policy).ok()).collect();
    let policy = of_node.into_iter().find(|policy| policy.name == name);
    let asked = policy.map(|policy| read(policy));
    let is_asked = asked.is_some();
    let (done, wake) = match set_up(&shared, every, asked).await {
        Ok(is_used) => (Ok(()), if is_used { Wake::After(USED) } else { Wake::OnChange }),
        Err(why) => (Err(why), Wake::OnChange),
    };
    if let Some(policy) = policy {
        tell(&shared, policy, done.clone()).await?;
    }
    match done {
        // Interfaces come and go without a word.
        Err(why) if is_asked => Err(why.into()),
        Err(why) => {
            tracing::warn!(error = why, "interfaces that nobody asks for are left");
            Ok(Wake::After(USED))
        }
        Ok(()) => Ok(wake),
    }
}

fn read(policy: &Object) -> Result<Wanted, String> {
    let spec = &policy.value["spec"];
    if spec["capture"].as_object().is_some_and(|capture| !capture.is_empty()) {
        return Err("spec.capture: nodes of this cluster set up what is written out".to_owned());
    }
    wanted(&spec["desiredState"])
}

/// Whether a policy is for a node.
fn selects(policy: &Object, node: &Object) -> bool {
    let labels = policy.value["spec"]["nodeSelector"].as_object().into_iter().flatten();
    labels.into_iter().all(|(name, value)| node.label(name) == value.as_str())
}

/// Has what is asked for, and nothing that nobody asks for. Says whether such a thing is used.
async fn set_up(
    shared: &Shared,
    every: Vec<Wanted>,
    asked: Option<Result<Wanted, String>>,
) -> Result<bool, String> {
    let (file, turn) = (shared.options.links.clone(), shared.setting_up.clone());
    let done = tokio::task::spawn_blocking(move || {
        let _turn = turn.lock().unwrap_or_else(PoisonError::into_inner);
        let mut hands =
            Hands::open(&file).map_err(|error| format!("could not set up interfaces: {error}"))?;
        let is_used = hands.clear(&every)?;
        if let Some(asked) = asked {
            hands.apply(&asked?)?;
        }
        Ok(is_used)
    });
    done.await.map_err(|error| error.to_string())?
}

/// Says how it went.
async fn tell(shared: &Shared, policy: &Object, done: Result<(), String>) -> Result<(), Failure> {
    let node = &shared.options.node;
    let name = Name::new("", format!("{node}.{}", policy.name.name));
    let there = match shared.context.get_live(ENACTMENT, &name).await? {
        // One of a policy of the same name that is gone goes with it.
        Some(there) if there.controller() != Some(&policy.uid) => {
            return Err(format!("{} of another policy is there", there.describe()).into());
        }
        Some(there) => there,
        None => {
            let mut made = owners::child(ENACTMENT, &name.name, POLICY, policy);
            made["metadata"]["labels"] =
                json!({NODE_LABEL: node, POLICY_LABEL: &*policy.name.name});
            shared.requests().create(ENACTMENT, &made).await?
        }
    };
    let status = status(shared, policy, (&there, done));
    if there.value["status"] == status {
        return Ok(());
    }
    let target = Target::of(ENACTMENT, &there).part("status");
    match shared.requests().patch(&target, &json!({"status": status})).await {
        Err(error) if !error.is_not_found() => Err(error.into()),
        _ => Ok(()),
    }
}

fn status(shared: &Shared, policy: &Object, (there, done): (&Object, Result<(), String>)) -> Value {
    let now = shared.context.environment.now();
    let (available, reason, message) = match &done {
        Ok(()) => (Truth::True, "SuccessfullyConfigured", "successfully reconciled"),
        Err(why) => (Truth::False, "FailedToConfigure", why.as_str()),
    };
    let failing = if done.is_ok() { Truth::False } else { Truth::True };
    let mut all = list(&there.value["status"]["conditions"]).to_vec();
    for (kind, status) in [("Available", available), ("Failing", failing)] {
        let condition = Condition { kind, status, reason, message, observed_generation: None };
        conditions::set(&mut all, &condition, now);
    }
    json!({"policyGeneration": policy.generation(),
        "desiredState": policy.value["spec"]["desiredState"], "conditions": all})
}
