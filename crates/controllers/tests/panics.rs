//! A controller that panics: on one object only that object waits, and everybody is told.

use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use reconcile::notices::EVENT;
use reconcile::supervise::supervise;
use reconcile::{Context, Error, Kind, Object, Plan, Reconciler, Watches, names, owners, run};
use serde_json::json;
use testkit::Cluster;
use testkit::cluster::until;

const CONFIG_MAP: Kind = Kind::namespaced("", "v1", "ConfigMap", "configmaps");
const POD: Kind = Kind::namespaced("", "v1", "Pod", "pods");

/// Makes a pod for each ConfigMap, and cannot bear one of them.
struct Touchy;

impl Reconciler for Touchy {
    type Observed = Vec<Arc<Object>>;
    const NAME: &'static str = "replicaset-controller";
    const KIND: Kind = CONFIG_MAP;

    fn watches(&self, watches: &mut Watches) {
        watches.owned(POD, CONFIG_MAP);
    }

    async fn observe(
        &self,
        context: &Context,
        object: &Arc<Object>,
    ) -> Result<Self::Observed, Error> {
        Ok(context.cache(POD).owned_by(&object.uid))
    }

    fn plan(&self, object: &Object, pods: &Self::Observed, _: Timestamp) -> Result<Plan, Error> {
        assert!(&*object.name.name != "bad", "no pod for {}", object.name.name);
        let mut plan = Plan::nothing();
        let is_wanted = object.name.name.starts_with("good") && pods.is_empty();
        if is_wanted {
            let name = names::child(&object.name.name, &names::digest(&[&object.uid])[..5]);
            let mut pod = owners::child(POD, &name, CONFIG_MAP, object);
            pod["spec"] = json!({"containers": [{"name": "main", "image": "one"}]});
            plan.create(POD, pod);
        }
        Ok(plan)
    }
}

fn config_map(name: &str) -> serde_json::Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"namespace": "default", "name": name}})
}

#[tokio::test]
async fn an_object_that_nobody_can_look_at_holds_up_nobody_else() {
    let mut cluster = Cluster::start().await;
    let context = cluster.context();
    let start = |context| run::run(context, Touchy);
    cluster.run(supervise(Touchy::NAME, context.clone(), start));
    for name in ["good-1", "bad", "good-2"] {
        cluster.create(CONFIG_MAP, config_map(name)).await;
    }
    until(&context, POD, |all| all.len() == 2).await;
    // Its owner finds out from an event, the operator of the cluster from a metric.
    until(&context, EVENT, |all| {
        all.iter().any(|event| {
            event.value["reason"] == "ReconcilePanicked"
                && event.value["involvedObject"]["name"] == "bad"
                && event.value["message"]
                    .as_str()
                    .is_some_and(|said| said.ends_with("no pod for bad"))
        })
    })
    .await;
    let metrics = context.metrics.text();
    let panics = "reconcile_errors_total{controller=\"replicaset-controller\",class=\"panic\"}";
    assert!(metrics.contains(panics), "{metrics}");
    // What comes later is looked at too, and the controller was not started again for it.
    cluster.create(CONFIG_MAP, config_map("good-3")).await;
    until(&context, POD, |all| all.len() == 3).await;
    let restarts = "controller_restarts_total{controller=\"replicaset-controller\"} 0";
    assert!(context.metrics.text().contains(restarts));
}
