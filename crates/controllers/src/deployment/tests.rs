//! Plans of Deployments: a Deployment and its ReplicaSets in, steps, notices and conditions out.

use reconcile::Step;
use serde_json::{Value, json};

use super::*;
use crate::claims::Claimed;
use crate::kinds::REPLICA_SET;

mod progress;
mod rollouts;
mod scaling;

/// 2026-01-01 00:00:00 UTC.
const NOW: i64 = 1_767_225_600;

fn deployment(image: &str, spec: Value) -> Object {
    let mut whole = json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"namespace": "a", "name": "web", "uid": "d", "generation": 1,
            "resourceVersion": "5", "annotations": {"deployment.kubernetes.io/revision": "1"}},
        "spec": {"replicas": 10, "selector": {"matchLabels": {"app": "web"}},
            "strategy": {"type": "RollingUpdate",
                "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}},
            "revisionHistoryLimit": 10, "progressDeadlineSeconds": 600,
            "template": {"metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "main", "image": image}]}}},
    });
    reconcile::plan::merge(&mut whole["spec"], &spec);
    Object::new(whole)
}

/// A ReplicaSet: its name, image, and how many pods it asks for and has available.
struct Set(&'static str, &'static str, i64, i64);

fn set(of: &Set, at: usize, asked: i64, total: i64) -> Arc<Object> {
    let Set(name, image, replicas, available) = of;
    Arc::new(Object::new(json!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet",
        "metadata": {"namespace": "a", "name": name, "uid": name, "generation": 1,
            "resourceVersion": "7",
            "creationTimestamp": format!("2025-01-01T00:00:{at:02}Z"),
            "labels": {"app": "web", "pod-template-hash": name},
            "annotations": {
                "deployment.kubernetes.io/revision": (at + 1).to_string(),
                "deployment.kubernetes.io/desired-replicas": asked.to_string(),
                "deployment.kubernetes.io/max-replicas": total.to_string()},
            "ownerReferences": [{"uid": "d", "controller": true}]},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web", "pod-template-hash": name}},
                "spec": {"containers": [{"name": "main", "image": image}]}}},
        "status": {"replicas": replicas, "readyReplicas": available,
            "availableReplicas": available, "observedGeneration": 1, "terminatingReplicas": 0},
    })))
}

fn observed(sets: &[Set]) -> Observed {
    let owned = sets.iter().enumerate().map(|(at, one)| set(one, at, 10, 13)).collect();
    Observed { sets: Claimed { owned, orphans: Vec::new() }, ..Observed::default() }
}

fn planned(deployment: &Object, observed: &Observed) -> Plan {
    let now = Timestamp::from_second(NOW).expect("a time");
    plan::plan(deployment, observed, Match::Owners, now).expect("a plan")
}

/// Sizes of ReplicaSets, deletions and conditions, a line each.
fn lines(plan: &Plan) -> Vec<String> {
    let mut lines: Vec<String> = plan.steps.iter().map(line).collect();
    lines
        .extend(plan.notices.iter().map(|notice| format!("{}: {}", notice.reason, notice.message)));
    let conditions = plan.status.iter().flat_map(|status| status["conditions"].as_array());
    lines.extend(conditions.flatten().map(|condition| {
        let text = |field: &str| condition[field].as_str().unwrap_or_default().to_owned();
        format!("{}={} {}", text("type"), text("status"), text("reason"))
    }));
    lines
}

fn line(step: &Step) -> String {
    match step {
        Step::Create { kind, object } if *kind == REPLICA_SET => {
            let revision = &object["metadata"]["annotations"]["deployment.kubernetes.io/revision"];
            format!("create a set of {} revision {revision}", object["spec"]["replicas"])
        }
        Step::Patch { target, patch } => match &patch["spec"]["replicas"] {
            Value::Null => step.to_string(),
            replicas => format!("scale {} to {replicas}", target.name.name),
        },
        Step::Replace { target, change: Some(patch), .. } => {
            format!("update {target} {}", patch["metadata"])
        }
        step => step.to_string(),
    }
}

fn check(deployment: &Object, sets: &[Set], expected: &[&str]) {
    assert_eq!(lines(&planned(deployment, &observed(sets))), expected);
}
