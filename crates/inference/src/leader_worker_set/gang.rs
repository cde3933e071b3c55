//! Groups that Volcano schedules: it places the pods of a group together or not at all.
//!
//! Upstream: kubernetes-sigs/lws, pkg/schedulerprovider/volcano_provider.go

use amounts::pod::{self, add};
use reconcile::{Object, owners};
use serde_json::{Map, Value, json};

use super::labels;
use super::spec::{Spec, Startup};
use crate::kinds::{POD, POD_GROUP};
use crate::value::text;

pub const SCHEDULER: &str = "volcano";
/// On pods: the group that they are scheduled with.
pub const GROUP_NAME: &str = "scheduling.k8s.io/group-name";
/// On a set: the queue that its groups wait in.
const QUEUE: &str = "scheduling.volcano.sh/queue-name";

/// Says on a pod with whom it is scheduled.
pub fn join(pod: &mut Value) {
    if pod["spec"]["schedulerName"] != SCHEDULER {
        return;
    }
    let label = |name: &str| text(&pod["metadata"]["labels"][name]);
    let name = format!(
        "{}-{}-{}",
        label(labels::NAME),
        label(labels::GROUP_INDEX),
        label(labels::REVISION)
    );
    pod["metadata"]["annotations"][GROUP_NAME] = json!(name);
}

/// The group that a leader says it is scheduled with.
pub fn name(leader: &Object) -> Option<&str> {
    leader.annotation(GROUP_NAME).filter(|_| leader.value["spec"]["schedulerName"] == SCHEDULER)
}

/// The group of a leader, which goes with it.
pub fn group(spec: &Spec<'_>, leader: &Object, name: &str) -> Value {
    let mut made = owners::child(POD_GROUP, name, POD, leader);
    let least = match spec.startup {
        Startup::LeaderCreated => spec.size,
        // The leader must be able to become ready alone; room is needed for all.
        Startup::LeaderReady => 1,
    };
    made["spec"] = json!({"minMember": least, "minResources": resources(spec)});
    if let Some(queue) = spec.set.annotation(QUEUE) {
        made["spec"]["queue"] = json!(queue);
    }
    made
}

/// What a leader and its workers ask for together.
fn resources(spec: &Spec<'_>) -> Value {
    let template = &spec.set.value["spec"]["leaderWorkerTemplate"];
    let worker = &template["workerTemplate"];
    let leader = match &template["leaderTemplate"] {
        Value::Null => worker,
        own => own,
    };
    let mut sum = pod::of(leader, "requests");
    let each = pod::of(worker, "requests");
    let workers = each.into_iter().map(|(name, one)| (name, one.times(spec.size - 1)));
    add(&mut sum, &workers.collect());
    let amounts = sum.iter().map(|(name, amount)| (name.to_string(), json!(amount.to_string())));
    Value::Object(amounts.collect::<Map<String, Value>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_group_is_placed_together_or_not_at_all() {
        let mut pod = json!({"metadata": {"labels": {labels::NAME: "s", labels::GROUP_INDEX: "1",
            labels::REVISION: "r"}}, "spec": {"schedulerName": SCHEDULER}});
        join(&mut pod);
        pod["metadata"]["name"] = json!("s-1");
        let leader = Object::new(pod);
        assert_eq!(name(&leader), Some("s-1-r"));
        let of = |startup: &str| {
            let set = Object::new(json!({"metadata": {"namespace": "n", "name": "s",
                "annotations": {QUEUE: "q"}}, "spec": {"startupPolicy": startup,
                "leaderWorkerTemplate": {"size": 3, "workerTemplate": {"spec": {"containers":
                    [{"name": "c", "resources": {"requests": {"cpu": "500m"}}}]}}}}}));
            group(&Spec::of(&set), &leader, "s-1-r")["spec"].clone()
        };
        let expected = json!({"minMember": 3, "minResources": {"cpu": "1500m"}, "queue": "q"});
        assert_eq!(of("LeaderCreated"), expected);
        assert_eq!(of("LeaderReady")["minMember"], 1);
        let mut plain = json!({"metadata": {"labels": {}}, "spec": {}});
        join(&mut plain);
        assert!(plain["metadata"]["annotations"].is_null());
    }
}
