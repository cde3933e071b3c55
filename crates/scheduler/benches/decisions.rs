//! How long a decision takes, by the number of nodes. For looking at; nothing is asserted.
//!
//! `cargo bench -p scheduler`, or the same in the profile of the tests with `--profile dev`.

use std::sync::Arc;

use reconcile::Object;
use scheduler::classes::Classes;
use scheduler::{Profile, Snapshot, Verdict};
use serde_json::{Value, json};
use tokio::time::Instant;

const PODS: usize = 2_000;

/// What is special about the spec of a pod, by its number.
type Spec = fn(usize) -> Value;

fn main() {
    let sorts: [(&str, Spec); 4] = [
        ("alike", |_| json!({})),
        ("all different", |at| {
            json!({"containers": [{"name": "c", "image": "i", "resources": {"requests": {
                "cpu": format!("{}m", 50 + at % 1_000), "memory": format!("{}Mi", 300 + at)}}}]})
        }),
        ("spread over zones", |_| {
            json!({"topologySpreadConstraints": [{"topologyKey": "zone", "maxSkew": 1,
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": {"app": "x"}}}]})
        }),
        ("apart from each other", |at| {
            let label = json!({"matchLabels": {"set": (at % 100).to_string()}});
            json!({"affinity": {"podAntiAffinity":
                {"requiredDuringSchedulingIgnoredDuringExecution":
                    [{"topologyKey": "kubernetes.io/hostname", "labelSelector": label}]}}})
        }),
    ];
    for (sort, spec) in sorts {
        for nodes in [100, 1_000, 5_000] {
            let (placed, micros) = measure(nodes, spec);
            println!("{sort:>22} {nodes:>5} nodes: {micros:>8.2} us a pod, {placed} placed");
        }
    }
}

fn measure(nodes: usize, spec: Spec) -> (usize, f64) {
    let mut snapshot = Snapshot::default();
    for at in 0..nodes {
        let name = format!("node-{at}");
        snapshot.put_node(&Object::new(json!({
            "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name,
                "zone": (at % 3).to_string()}},
            "status": {"allocatable": {"cpu": "64", "memory": "512Gi", "pods": "110"}},
        })));
    }
    let profile = Profile::named("default-scheduler");
    let mut classes = Classes::default();
    let pods: Vec<_> =
        (0..PODS).map(|at| snapshot.read_pod(Arc::new(Object::new(pod(at, spec))))).collect();
    let began = Instant::now();
    let mut placed = 0;
    for pod in &pods {
        snapshot.prepare(pod);
        let Verdict::Place(slot) = classes.schedule(&snapshot, pod, &profile) else { continue };
        let Some(name) = snapshot.node(slot).map(|node| node.name.clone()) else { continue };
        snapshot.place(pod, &name);
        placed += 1;
    }
    (placed, began.elapsed().as_secs_f64() * 1e6 / PODS as f64)
}

fn pod(at: usize, spec: Spec) -> Value {
    let mut pod = json!({
        "metadata": {"namespace": "a", "name": format!("p{at}"), "uid": format!("p{at}"),
            "labels": {"app": "x", "set": (at % 100).to_string()}},
        "spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": {
            "cpu": "100m", "memory": "500Mi"}}}]},
    });
    if let Some(fields) = spec(at).as_object() {
        for (name, value) in fields {
            pod["spec"][name] = value.clone();
        }
    }
    pod
}
