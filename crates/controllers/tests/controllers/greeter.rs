//! The example of the README, as the README says it is to be tested.

#[path = "../../examples/greeter.rs"]
mod example;

use example::Greeter;
use reconcile::{Kind, run};
use serde_json::json;
use testkit::pods;
use testkit::simulation::{self, Trial};

const CONFIG_MAP: Kind = Kind::namespaced("", "v1", "ConfigMap", "configmaps");

/// One ConfigMap that greets, and one that does not.
const GREETED: Trial = Trial {
    name: "replicaset-controller/greeter",
    seed: 1,
    component: |context| Box::pin(run::run(context, Greeter)),
    workload: |cluster, _| {
        Box::pin(async move {
            for (name, labels) in [("morning", json!({"greet": "world"})), ("night", json!({}))] {
                let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata":
                    {"namespace": "default", "name": name, "labels": labels}});
                cluster.create(CONFIG_MAP, object).await;
            }
        })
    },
    play: |context| Box::pin(pods::play(context)),
};

#[test]
fn no_fault_changes_whom_the_example_greets() {
    let reference = simulation::run(GREETED, 1, Vec::new());
    let pods = reference.objects.keys().filter(|key| key.starts_with("pods/")).count();
    assert_eq!(pods, 1);
    simulation::try_everything(GREETED);
}
