//! Tells pods where they are: copies labels of their node that decide how close workers are to
//! each other. Pods read them from a file, which follows their own labels.
//!
//! Upstream: ai-dynamo/dynamo, deploy/operator/internal/controller/topology_label_controller.go

use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use reconcile::plan::{Notice, Target};
use reconcile::{Context, Error, Kind, Name, Object, Plan, Reconciler};
use serde_json::{Map, Value, json};

use crate::kinds::{NODE, POD};
use crate::names;
use crate::value::{list, text};

pub const NAME: &str = "topology-label";

/// Before the domain in the label of a pod whose graph names a topology.
const PREFIX: &str = "nvidia.com/dynamo-topology.";
/// What names the levels of a cluster; known where Grove is.
const BINDING: Kind =
    Kind::cluster("grove.io", "v1alpha1", "ClusterTopologyBinding", "clustertopologybindings");

#[derive(Clone, Copy, Debug, Default)]
pub struct Controller;

/// What a pod that was placed lacks: labels of its own, and those of its node.
#[derive(Debug, Default, PartialEq)]
pub struct Observed {
    node: Option<Value>,
    /// Of the pod, and of the node that it is copied from.
    wanted: Vec<(String, String)>,
}

impl Reconciler for Controller {
    type Observed = Observed;
    const NAME: &'static str = NAME;
    const KIND: Kind = POD;
    const IS_LOGGED: bool = true;

    fn concerns(pod: &Object) -> bool {
        let is_ours = pod.label(names::GRAPH).is_some() && pod.label(names::COMPONENT).is_some();
        is_ours && source(pod).is_some()
    }

    async fn observe(&self, context: &Context, pod: &Arc<Object>) -> Result<Observed, Error> {
        let node = text(&pod.value["spec"]["nodeName"]);
        if node.is_empty() || pod.is_terminating() {
            return Ok(Observed::default());
        }
        let mut wanted = match source(pod) {
            Some(Source::Label(key)) => vec![(key.to_owned(), key.to_owned())],
            Some(Source::Topology(name)) => levels(context, name).await?,
            None => Vec::new(),
        };
        wanted.retain(|(own, _)| pod.label(own).is_none());
        if wanted.is_empty() {
            return Ok(Observed::default());
        }
        let node = context.get_live(NODE, &Name::new("", node)).await?;
        let node = node.map(|node| node.value["metadata"]["labels"].clone());
        Ok(Observed { node, wanted })
    }

    fn plan(&self, pod: &Object, observed: &Observed, _: Timestamp) -> Result<Plan, Error> {
        Ok(plan(pod, observed))
    }
}

enum Source<'a> {
    /// A label of nodes, which pods are to have too.
    Label(&'a str),
    /// The levels of a topology.
    Topology(&'a str),
}

fn source(pod: &Object) -> Option<Source<'_>> {
    let said = |name: &str| pod.annotation(name).filter(|value| !value.is_empty());
    let topology = said(names::TOPOLOGY_NAME).map(Source::Topology);
    said(names::TOPOLOGY_LABEL_KEY).map(Source::Label).or(topology)
}

/// The labels of a pod by the levels of a topology; none while nobody knows it.
async fn levels(context: &Context, name: &str) -> Result<Vec<(String, String)>, Error> {
    let found = context.get_live(BINDING, &Name::new("", name)).await?;
    let found = found.map(|found| found.value["spec"]["levels"].clone()).unwrap_or_default();
    let level = |level: &Value| {
        let domain = format!("{PREFIX}{}", text(&level["domain"]));
        (domain, text(&level["key"]).to_owned())
    };
    Ok(list(&found).iter().map(level).collect())
}

fn plan(pod: &Object, observed: &Observed) -> Plan {
    let mut plan = Plan::nothing();
    let Some(node) = &observed.node else { return plan };
    let mut labels = Map::new();
    for (own, of_node) in &observed.wanted {
        match node[of_node].as_str() {
            Some(value) => {
                labels.insert(own.clone(), json!(value));
            }
            None => {
                let place = text(&pod.value["spec"]["nodeName"]);
                let message = format!("node {place:?} has no label {of_node:?}");
                plan.notices.push(Notice::warning("TopologyLabelMissing", message));
            }
        }
    }
    if !labels.is_empty() {
        plan.patch(Target::of(POD, pod), json!({"metadata": {"labels": labels}}));
    }
    plan
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(annotations: Value, node: Value) -> Object {
        Object::new(json!({"metadata": {"namespace": "ns", "name": "p", "uid": "u", "labels": {
            names::GRAPH: "g", names::COMPONENT: "decode"}, "annotations": annotations},
            "spec": {"nodeName": node}}))
    }

    fn wanted(all: &[(&str, &str)]) -> Vec<(String, String)> {
        all.iter().map(|(own, of)| ((*own).to_owned(), (*of).to_owned())).collect()
    }

    #[test]
    fn pods_that_say_so_are_told_where_they_are() {
        let said = pod(json!({names::TOPOLOGY_LABEL_KEY: "zone"}), json!("n"));
        assert!(Controller::concerns(&said));
        assert!(!Controller::concerns(&pod(json!({}), json!("n"))));
        let node = Some(json!({"zone": "a"}));
        let made = plan(&said, &Observed { node, wanted: wanted(&[("zone", "zone")]) });
        let expected = "patch v1 Pod ns/p {\"metadata\":{\"labels\":{\"zone\":\"a\"}}}\n\
            wake on change\n";
        assert_eq!(made.to_string(), expected);
    }

    #[test]
    fn what_a_node_lacks_is_said_on_the_pod() {
        let said = pod(json!({names::TOPOLOGY_NAME: "t"}), json!("n"));
        let wanted = wanted(&[
            ("nvidia.com/dynamo-topology.rack", "rack"),
            ("nvidia.com/dynamo-topology.zone", "zone"),
        ]);
        let made = plan(&said, &Observed { node: Some(json!({"rack": "r"})), wanted });
        let text = made.to_string();
        assert!(text.contains("\"nvidia.com/dynamo-topology.rack\":\"r\""), "{text}");
        let missing = "Warning TopologyLabelMissing: node \"n\" has no label \"zone\"";
        assert!(text.contains(missing), "{text}");
        assert_eq!(plan(&said, &Observed::default()).to_string(), "wake on change\n");
    }
}
