//! Says of every policy of NMState how it went on the nodes that it is for. Each node that runs
//! machines sets up its own interfaces, and tells in an enactment
//! (`crates/node/src/machines/policies/`).
//!
//! Upstream: nmstate/kubernetes-nmstate, pkg/policyconditions

use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use reconcile::conditions::{self, Condition, Truth};
use reconcile::{Context, Error, Kind, Name, Object, Plan, Reconciler, Watches};
use serde_json::json;

use super::SCHEDULABLE;
use crate::kinds::{ENACTMENT, POLICY};
use crate::value::{list, text};

pub const NAME: &str = "node-network-configuration-policy-controller";
const NODE: Kind = Kind::cluster("", "v1", "Node", "nodes");
/// Of an enactment: whose it is, and which policy's.
const NODE_LABEL: &str = "nmstate.io/node";
const POLICY_LABEL: &str = "nmstate.io/policy";

pub struct Controller;

/// A node that a policy is for, and what it says of it.
pub struct Told {
    pub node: String,
    pub enactment: Option<Arc<Object>>,
}

impl Reconciler for Controller {
    type Observed = Vec<Told>;
    const NAME: &'static str = NAME;
    const KIND: Kind = POLICY;

    fn watches(&self, watches: &mut Watches) {
        watches.by(ENACTMENT, |change| {
            let of = change.object().label(POLICY_LABEL);
            of.map(|policy| Name::new("", policy)).into_iter().collect()
        });
        let policies = watches.cache(POLICY);
        watches.by(NODE, move |_| policies.all().iter().map(|one| one.name.clone()).collect());
    }

    async fn observe(&self, context: &Context, policy: &Arc<Object>) -> Result<Vec<Told>, Error> {
        let enactments = context.cache(ENACTMENT).all();
        let nodes = context.cache(NODE).all();
        let told = nodes.iter().filter(|node| selects(policy, node)).map(|node| {
            let name = &*node.name.name;
            let of = |one: &&Arc<Object>| {
                one.label(NODE_LABEL) == Some(name) && one.controller() == Some(&policy.uid)
            };
            Told { node: name.to_owned(), enactment: enactments.iter().find(of).cloned() }
        });
        Ok(told.collect())
    }

    fn plan(&self, policy: &Object, told: &Vec<Told>, now: Timestamp) -> Result<Plan, Error> {
        let mut plan = Plan::nothing();
        if policy.is_terminating() {
            return Ok(plan);
        }
        let mut status = policy.value["status"].clone();
        if !status.is_object() {
            status = json!({});
        }
        let how = Progress::of(policy, told);
        let (reason, message) = how.said();
        let mut all = list(&status["conditions"]).to_vec();
        for (kind, is_so) in [
            ("Available", matches!(how, Progress::Done { .. })),
            ("Degraded", matches!(how, Progress::Failed { .. })),
            ("Progressing", matches!(how, Progress::Under { .. })),
        ] {
            let status = if is_so { Truth::True } else { Truth::False };
            let message = message.as_str();
            let condition = Condition { kind, status, reason, message, observed_generation: None };
            conditions::set(&mut all, &condition, now);
        }
        status["conditions"] = json!(all);
        plan.status = Some(status);
        Ok(plan)
    }
}

/// Whether a policy is for a node: one that runs machines, with the labels that it asks for.
fn selects(policy: &Object, node: &Object) -> bool {
    let labels = policy.value["spec"]["nodeSelector"].as_object().into_iter().flatten();
    node.label(SCHEDULABLE) == Some("true")
        && labels.into_iter().all(|(name, value)| node.label(name) == value.as_str())
}

/// How far the nodes are.
enum Progress {
    Nowhere,
    Under { done: usize, all: usize },
    Done { all: usize },
    Failed { failed: usize, all: usize, why: String },
}

impl Progress {
    fn of(policy: &Object, told: &[Told]) -> Progress {
        let all = told.len();
        let current = told.iter().filter_map(|told| {
            let status = &told.enactment.as_ref()?.value["status"];
            let is_current = status["policyGeneration"] == policy.generation();
            is_current.then_some((told.node.as_str(), status))
        });
        let current: Vec<_> = current.collect();
        let having = |kind: &str| {
            let all = current.iter().filter(|(_, status)| conditions::is_true(status, kind));
            all.collect::<Vec<_>>()
        };
        let (failed, done) = (having("Failing"), having("Available").len());
        let why = failed.first().and_then(|(node, status)| {
            let said = conditions::find(status, "Failing")?;
            Some(format!("{node}: {}", text(&said["message"])))
        });
        match why {
            Some(why) => Progress::Failed { failed: failed.len(), all, why },
            None if all == 0 => Progress::Nowhere,
            None if done == all => Progress::Done { all },
            None => Progress::Under { done, all },
        }
    }

    /// A reason and a message.
    fn said(&self) -> (&'static str, String) {
        match self {
            Progress::Nowhere => {
                ("NoMatchingNode", "no node that runs machines is selected".to_owned())
            }
            Progress::Under { done, all } => {
                ("ConfigurationProgressing", format!("{done}/{all} nodes are configured"))
            }
            Progress::Done { all } => {
                ("SuccessfullyConfigured", format!("{all}/{all} nodes successfully configured"))
            }
            Progress::Failed { failed, all, why } => {
                ("FailedToConfigure", format!("{failed}/{all} nodes failed to configure: {why}"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &str, kind: Option<&str>, generation: i64) -> Told {
        let enactment = kind.map(|kind| {
            let condition = json!({"type": kind, "status": "True", "message": "why"});
            Arc::new(Object::new(json!({"metadata": {"name": name},
                "status": {"policyGeneration": generation, "conditions": [condition]}})))
        });
        Told { node: name.to_owned(), enactment }
    }

    #[test]
    fn a_policy_is_as_its_nodes_are() {
        let policy = Object::new(json!({"metadata": {"name": "p", "generation": 2}}));
        let said = |told: Vec<Told>| {
            let plan = Controller.plan(&policy, &told, Timestamp::UNIX_EPOCH).expect("a plan");
            let status = plan.status.expect("a status");
            let is_so = |kind: &&str| conditions::is_true(&status, kind);
            let so: Vec<&str> =
                ["Available", "Degraded", "Progressing"].into_iter().filter(is_so).collect();
            let message = conditions::find(&status, "Available").expect("told")["message"].clone();
            format!("{}: {}", so.join(","), text(&message))
        };
        assert_eq!(said(vec![]), ": no node that runs machines is selected");
        let (done, old) = (|| node("a", Some("Available"), 2), node("b", Some("Available"), 1));
        assert_eq!(said(vec![done(), old]), "Progressing: 1/2 nodes are configured");
        assert_eq!(said(vec![done(), node("b", None, 2)]), "Progressing: 1/2 nodes are configured");
        assert_eq!(said(vec![done()]), "Available: 1/1 nodes successfully configured");
        let failed = vec![done(), node("b", Some("Failing"), 2)];
        assert_eq!(said(failed), "Degraded: 1/2 nodes failed to configure: b: why");
    }

    #[test]
    fn a_policy_is_for_nodes_that_run_machines_and_have_its_labels() {
        let policy = |selector| Object::new(json!({"spec": {"nodeSelector": selector}}));
        let node = |labels| Object::new(json!({"metadata": {"name": "n", "labels": labels}}));
        let runs = node(json!({SCHEDULABLE: "true", "rack": "1"}));
        assert!(selects(&policy(json!(null)), &runs));
        assert!(selects(&policy(json!({"rack": "1"})), &runs));
        assert!(!selects(&policy(json!({"rack": "2"})), &runs));
        assert!(!selects(&policy(json!(null)), &node(json!({"rack": "1"}))));
    }
}
