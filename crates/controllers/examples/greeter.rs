//! The smallest controller: for each ConfigMap with the label `greet`, a pod that greets.
//!
//! Run as a test by `tests/controllers/greeter.rs`, and on its own by
//! `cargo run --example greeter`, where it prints the plan it would make.

use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use reconcile::plan::Notice;
use reconcile::{Context, Error, Kind, Object, Plan, Reconciler, Watches, names, owners};
use serde_json::json;

const CONFIG_MAP: Kind = Kind::namespaced("", "v1", "ConfigMap", "configmaps");
const POD: Kind = Kind::namespaced("", "v1", "Pod", "pods");

pub struct Greeter;

/// What a plan rests on: the pods that the ConfigMap has.
pub type Observed = Vec<Arc<Object>>;

impl Reconciler for Greeter {
    type Observed = Observed;
    // The account whose role allows what is written below.
    const NAME: &'static str = "replicaset-controller";
    const KIND: Kind = CONFIG_MAP;

    fn watches(&self, watches: &mut Watches) {
        watches.owned(POD, CONFIG_MAP);
    }

    async fn observe(&self, context: &Context, object: &Arc<Object>) -> Result<Observed, Error> {
        Ok(context.cache(POD).owned_by(&object.uid))
    }

    fn plan(&self, object: &Object, observed: &Observed, _: Timestamp) -> Result<Plan, Error> {
        Ok(plan(object, observed))
    }
}

fn plan(object: &Object, observed: &Observed) -> Plan {
    let mut plan = Plan::nothing();
    let Some(whom) = object.label("greet").filter(|_| !object.is_terminating()) else {
        return plan;
    };
    if observed.is_empty() {
        // The name follows from the owner: made twice, it is found the second time.
        let name = names::child(&object.name.name, &names::digest(&[&object.uid])[..5]);
        let mut pod = owners::child(POD, &name, CONFIG_MAP, object);
        pod["spec"] = json!({"containers": [
            {"name": "greeter", "image": "greeter", "args": ["hello", whom]}]});
        plan.create(POD, pod);
        plan.notices.push(Notice::normal("Greeted", format!("Created pod: {name}")));
    }
    plan
}

// The test has a `main` of its own.
#[cfg_attr(test, expect(dead_code, reason = "only for who runs the example"))]
fn main() {
    let object = Object::new(json!({"metadata": {"namespace": "default", "name": "morning",
        "uid": "1", "labels": {"greet": "world"}}}));
    print!("{}", plan(&object, &Vec::new()));
}
