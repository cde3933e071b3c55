//! Lets others scale a component of a graph: what the adapter says, the graph says too.
//!
//! Upstream: ai-dynamo/dynamo, deploy/operator/internal/controller/
//! dynamographdeploymentscalingadapter_controller.go

use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use reconcile::conditions::time;
use reconcile::plan::{Notice, Target};
use reconcile::{Change, Context, Error, Kind, Name, Object, Plan, Reconciler, Step, Watches};
use serde_json::{Value, json};

use crate::kinds::{ADAPTER, GRAPH};
use crate::names;
use crate::value::{list, text};

pub const NAME: &str = "dgdscalingadapter";

#[derive(Default)]
pub struct Controller;

/// The graph, if there is one.
pub struct Observed(pub Option<Arc<Object>>);

impl Reconciler for Controller {
    type Observed = Observed;
    const NAME: &'static str = NAME;
    const KIND: Kind = ADAPTER;
    const COUNTED_AS: Option<&'static str> = Some(crate::METRICS_PREFIX);

    fn watches(&self, watches: &mut Watches) {
        let adapters = watches.cache(ADAPTER);
        watches.by(GRAPH, move |change| {
            if !changes_scale(change) {
                return Vec::new();
            }
            let graph = change.object();
            let all = adapters.in_namespace(&graph.name.namespace);
            let of_it = all.iter().filter(|adapter| graph_name(adapter) == &*graph.name.name);
            of_it.map(|adapter| adapter.name.clone()).collect()
        });
    }

    async fn observe(&self, context: &Context, object: &Arc<Object>) -> Result<Observed, Error> {
        let name = Name::new(object.name.namespace.clone(), graph_name(object));
        Ok(Observed(context.cache(GRAPH).get(&name)))
    }

    fn plan(&self, object: &Object, observed: &Observed, now: Timestamp) -> Result<Plan, Error> {
        plan(object, observed.0.as_deref(), now)
    }

    fn refused(&self, _: &Object, _: &Observed, error: &Error, _: Timestamp) -> Option<Plan> {
        let reason = match error {
            Error::Other { .. } => "GraphNotFound",
            _ => "UpdateFailed",
        };
        let notices = vec![Notice::warning(reason, error.said())];
        Some(Plan { notices, ..Plan::nothing() })
    }
}

fn graph_name(adapter: &Object) -> &str {
    text(&adapter.value["spec"]["dgdRef"]["name"])
}

/// The components of a graph and how many there are to be of each.
fn scales(graph: &Object) -> Vec<(&str, i64)> {
    let parts = list(&graph.value["spec"]["components"]).iter();
    parts.map(|part| (text(&part["name"]), part["replicas"].as_i64().unwrap_or(1))).collect()
}

fn changes_scale(change: &Change) -> bool {
    match (&change.old, &change.new) {
        (Some(old), Some(new)) => scales(old) != scales(new),
        // One that came may be the one that is missed.
        _ => true,
    }
}

pub fn plan(adapter: &Object, graph: Option<&Object>, now: Timestamp) -> Result<Plan, Error> {
    let mut plan = Plan::nothing();
    if adapter.is_terminating() {
        return Ok(plan);
    }
    let reference = &adapter.value["spec"]["dgdRef"];
    let (name, component) = (text(&reference["name"]), text(&reference["componentName"]));
    let Some(graph) = graph else {
        let reason = format!("DynamoGraphDeployment {name:?} of the scaling adapter is not found");
        return Err(Error::Other { reason });
    };
    let parts = list(&graph.value["spec"]["components"]);
    let at = parts.iter().position(|part| part["name"] == component);
    let Some(at) = at.filter(|at| parts[*at]["scalingAdapter"].is_object()) else {
        let why = format!("component {component:?} of {name:?} is not there or not to be scaled");
        plan.notices.push(Notice::warning("ComponentNotFound", why));
        return Ok(plan);
    };
    let wanted = adapter.value["spec"]["replicas"].as_i64().unwrap_or(1);
    let current = parts[at]["replicas"].as_i64().unwrap_or(1);
    let mut status = adapter.value["status"].clone();
    if current != wanted && !graph.is_terminating() {
        let mut object: Value = graph.value.clone();
        object["spec"]["components"][at]["replicas"] = json!(wanted);
        let change = Some(json!({"replicas": {component: wanted}}));
        plan.steps.push(Step::Replace { target: Target::unchanged(GRAPH, graph), object, change });
        let message = format!("Scaled component {component} from {current} to {wanted} replicas");
        plan.notices.push(Notice::normal("Scaled", message));
        status["lastScaleTime"] = json!(time(now));
    }
    status["replicas"] = json!(wanted);
    status["selector"] = json!(format!("{}={component},{}={name}", names::COMPONENT, names::GRAPH));
    plan.status = Some(status);
    Ok(plan)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn adapter(replicas: i64) -> Object {
        Object::new(json!({"metadata": {"namespace": "ns", "name": "g-decode", "uid": "a"},
            "spec": {"replicas": replicas, "dgdRef": {"name": "g", "componentName": "Decode"}}}))
    }

    fn graph(part: Value) -> Object {
        Object::new(json!({"metadata": {"namespace": "ns", "name": "g", "uid": "g1"},
            "spec": {"components": [{"name": "Front"}, part]}}))
    }

    #[test]
    fn what_an_adapter_says_its_graph_says() {
        let now = Timestamp::from_second(60).expect("a time");
        let part = json!({"name": "Decode", "replicas": 1, "scalingAdapter": {}});
        let made = plan(&adapter(3), Some(&graph(part.clone())), now).expect("a plan");
        let expected = "update nvidia.com/v1beta1 DynamoGraphDeployment ns/g \
            {\"replicas\":{\"Decode\":3}}\n\
            status {\"lastScaleTime\":\"1970-01-01T00:01:00Z\",\"replicas\":3,\"selector\":\
            \"nvidia.com/dynamo-component=Decode,nvidia.com/dynamo-graph-deployment-name=g\"}\n\
            Normal Scaled: Scaled component Decode from 1 to 3 replicas\n\
            wake on change\n";
        assert_eq!(made.to_string(), expected);
        let Step::Replace { object, .. } = &made.steps[0] else { panic!("{made}") };
        assert_eq!(object["spec"]["components"][1]["replicas"], 3);
        // It is so already.
        let made = plan(&adapter(1), Some(&graph(part)), now).expect("a plan");
        assert!(made.steps.is_empty() && made.notices.is_empty(), "{made}");
    }

    #[test]
    fn an_adapter_of_nothing_changes_nothing() {
        let now = Timestamp::UNIX_EPOCH;
        let apart = graph(json!({"name": "Decode", "replicas": 1}));
        let made = plan(&adapter(3), Some(&apart), now).expect("a plan");
        assert!(made.steps.is_empty() && made.status.is_none());
        assert_eq!(made.notices[0].reason, "ComponentNotFound");
        assert!(plan(&adapter(3), None, now).is_err());
    }
}
