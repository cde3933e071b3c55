//! What a pod of a set is told of its group when it is made: who leads, how many there are, which
//! one it is. No template can say it, because each pod is told something else.
//!
//! Upstream: kubernetes-sigs/lws, pkg/webhooks/pod_webhook.go, pkg/utils/pod

use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use serde_json::{Value, json};

use super::{gang, labels, tpu};
use crate::field_error::FieldError;
use crate::value::{list, list_mut, text};

pub const LEADER_ADDRESS: &str = "LWS_LEADER_ADDRESS";
pub const GROUP_SIZE: &str = "LWS_GROUP_SIZE";
pub const WORKER_INDEX: &str = "LWS_WORKER_INDEX";

/// The pod as it is to be made; one that is of no set is left as it is.
pub fn complete(pod: &Value, namespace: &str) -> Result<Value, FieldError> {
    let mut pod = pod.clone();
    if label(&pod, labels::NAME).is_empty() {
        return Ok(pod);
    }
    let name = text(&pod["metadata"]["name"]).to_owned();
    let ordinal = name.rsplit_once('-').and_then(|(_, number)| number.parse::<i64>().ok());
    let Some(ordinal) = ordinal else {
        let detail = "a pod of a LeaderWorkerSet must end in its number";
        return Err(FieldError::invalid("metadata.name", name, detail));
    };
    if label(&pod, labels::WORKER_INDEX) == labels::LEADER {
        lead(&mut pod, namespace, (&name, ordinal));
    } else {
        follow(&mut pod, ordinal);
    }
    inform(&mut pod, namespace);
    tpu::inform(&mut pod);
    gang::join(&mut pod);
    Ok(pod)
}

fn lead(pod: &mut Value, namespace: &str, (name, ordinal): (&str, i64)) {
    if label(pod, labels::GROUP_INDEX).is_empty() {
        set_label(pod, labels::GROUP_INDEX, &ordinal.to_string());
    }
    if label(pod, labels::GROUP_KEY).is_empty() {
        set_label(pod, labels::GROUP_KEY, &key(namespace, name));
    }
    if annotation(pod, labels::SUBDOMAIN) == "UniquePerReplica" {
        pod["spec"]["subdomain"] = json!(name);
    }
    place(pod, labels::TOPOLOGY, labels::GROUP_KEY);
    let is_in_subgroup = annotation(pod, labels::SUBGROUP_TYPE) != "LeaderExcluded";
    if !annotation(pod, labels::SUBGROUP_SIZE).is_empty() && is_in_subgroup {
        join_subgroup(pod, (name, 0));
    }
}

fn follow(pod: &mut Value, ordinal: i64) {
    set_label(pod, labels::WORKER_INDEX, &ordinal.to_string());
    let number = |name: &str| annotation(pod, name).parse::<i64>().ok().filter(|it| *it > 0);
    let (Some(subgroup), Some(size)) = (number(labels::SUBGROUP_SIZE), number(labels::SIZE)) else {
        return;
    };
    // A leader that is one too many belongs to the first subgroup, or to none.
    let is_leader_extra = (size - 1) % subgroup == 0;
    let index = if is_leader_extra { (ordinal - 1) / subgroup } else { ordinal / subgroup };
    let leader = annotation(pod, labels::LEADER_NAME).to_owned();
    join_subgroup(pod, (&leader, index));
}

fn join_subgroup(pod: &mut Value, (leader, index): (&str, i64)) {
    if !label(pod, labels::SUBGROUP_INDEX).is_empty() {
        return;
    }
    set_label(pod, labels::SUBGROUP_INDEX, &index.to_string());
    set_label(pod, labels::SUBGROUP_KEY, &key(leader, &index.to_string()));
    place(pod, labels::SUBGROUP_TOPOLOGY, labels::SUBGROUP_KEY);
}

/// A short text that stands for a group: `hex(sha1("namespace/leader"))`.
pub fn key(first: &str, second: &str) -> String {
    let hash = digest(&SHA1_FOR_LEGACY_USE_ONLY, format!("{first}/{second}").as_bytes());
    hash.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// All pods of a group, or of a part of it, attract each other within a topology and keep those of
/// others out.
fn place(pod: &mut Value, annotated: &str, key: &str) {
    let topology = annotation(pod, annotated).to_owned();
    if topology.is_empty() {
        return;
    }
    let own = label(pod, key).to_owned();
    let term = |expressions: Value| {
        let selector = json!({"matchExpressions": expressions});
        json!({"labelSelector": selector, "topologyKey": topology})
    };
    let together = term(json!([{"key": key, "operator": "In", "values": [own]}]));
    let apart = term(json!([
        {"key": key, "operator": "Exists"},
        {"key": key, "operator": "NotIn", "values": [own]},
    ]));
    let affinity = &mut pod["spec"]["affinity"];
    for (kind, term) in [("podAffinity", together), ("podAntiAffinity", apart)] {
        let terms = list_mut(&mut affinity[kind]["requiredDuringSchedulingIgnoredDuringExecution"]);
        // Whoever was asked before has said so already.
        if !terms.contains(&term) {
            terms.push(term);
        }
    }
}

/// The variables come first, because those that follow may refer to them.
fn inform(pod: &mut Value, namespace: &str) {
    let leader = format!(
        "{}-{}.{}.{namespace}",
        label(pod, labels::NAME),
        label(pod, labels::GROUP_INDEX),
        text(&pod["spec"]["subdomain"]),
    );
    let variables = [
        (LEADER_ADDRESS, leader),
        (GROUP_SIZE, annotation(pod, labels::SIZE).to_owned()),
        (WORKER_INDEX, label(pod, labels::WORKER_INDEX).to_owned()),
    ];
    for field in ["containers", "initContainers"] {
        let containers = pod["spec"][field].as_array_mut();
        for container in containers.into_iter().flatten() {
            let ours = variables.iter();
            let ours = ours.map(|(name, value)| json!({"name": name, "value": value}));
            let is_theirs = |one: &&Value| variables.iter().all(|(name, _)| one["name"] != *name);
            let theirs = list(&container["env"]).iter().filter(is_theirs).cloned();
            container["env"] = ours.chain(theirs).collect();
        }
    }
}

fn label<'a>(pod: &'a Value, name: &str) -> &'a str {
    text(&pod["metadata"]["labels"][name])
}

fn set_label(pod: &mut Value, name: &str, value: &str) {
    pod["metadata"]["labels"][name] = json!(value);
}

fn annotation<'a>(pod: &'a Value, name: &str) -> &'a str {
    text(&pod["metadata"]["annotations"][name])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(name: &str, labels: Value, annotations: Value) -> Value {
        let mut pod = json!({"metadata": {"name": name, "labels": labels,
            "annotations": annotations}, "spec": {"subdomain": "s", "containers": [
            {"name": "a", "env": [{"name": "X", "value": "$(LWS_LEADER_ADDRESS)"},
                {"name": "LWS_GROUP_SIZE", "value": "9"}]}],
            "initContainers": [{"name": "i"}]}});
        pod["metadata"]["labels"][labels::NAME] = json!("s");
        pod
    }

    fn variables(pod: &Value) -> Vec<String> {
        let env = list(&pod["spec"]["containers"][0]["env"]).iter();
        env.map(|one| format!("{}={}", text(&one["name"]), text(&one["value"]))).collect()
    }

    #[test]
    fn a_leader_and_a_worker_are_told_of_their_group() {
        let leader = pod("s-1", json!({labels::WORKER_INDEX: "0"}), json!({labels::SIZE: "3"}));
        let leader = complete(&leader, "default").expect("a leader");
        let expected = [
            "LWS_LEADER_ADDRESS=s-1.s.default",
            "LWS_GROUP_SIZE=3",
            "LWS_WORKER_INDEX=0",
            "X=$(LWS_LEADER_ADDRESS)",
        ];
        assert_eq!(variables(&leader), expected);
        assert_eq!(list(&leader["spec"]["initContainers"][0]["env"]).len(), 3);
        assert_eq!(label(&leader, labels::GROUP_INDEX), "1");
        assert_eq!(label(&leader, labels::GROUP_KEY), key("default", "s-1"));
        // Being asked twice changes nothing.
        assert_eq!(complete(&leader, "default").expect("a leader"), leader);
        let worker = pod("s-1-2", json!({labels::GROUP_INDEX: "1"}), json!({labels::SIZE: "3"}));
        let worker = complete(&worker, "default").expect("a worker");
        assert_eq!(
            variables(&worker)[..3],
            ["LWS_LEADER_ADDRESS=s-1.s.default", "LWS_GROUP_SIZE=3", "LWS_WORKER_INDEX=2"]
        );
        assert_eq!(label(&worker, labels::WORKER_INDEX), "2");
    }

    #[test]
    fn a_key_stands_for_a_group() {
        // Appendix D of the description of behaviour.
        let expected = "10ee3aaa1f354c1a236cf5002e5e424df933c10e";
        assert_eq!(key("default", "g-decode-0-0"), expected);
    }

    #[test]
    fn a_group_may_have_a_name_of_its_own() {
        let own = json!({labels::SIZE: "2", labels::SUBDOMAIN: "UniquePerReplica"});
        let leader = pod("s-0", json!({labels::WORKER_INDEX: "0"}), own);
        let leader = complete(&leader, "n").expect("a leader");
        assert_eq!(variables(&leader)[0], "LWS_LEADER_ADDRESS=s-0.s-0.n");
    }

    #[test]
    fn subgroups_share_out_the_workers() {
        let index = |name: &str, size: &str, kind: &str, worker: &str| {
            let told = json!({labels::SIZE: size, labels::SUBGROUP_SIZE: "2",
                labels::SUBGROUP_TYPE: kind, labels::LEADER_NAME: "s-0"});
            let mut labels = json!({labels::GROUP_INDEX: "0"});
            if worker == "0" {
                labels[labels::WORKER_INDEX] = json!("0");
            }
            let made = complete(&pod(name, labels, told), "n").expect("a pod");
            label(&made, labels::SUBGROUP_INDEX).to_owned()
        };
        let of = |size: &str, kind: &str| {
            let leader = index("s-0", size, kind, "0");
            let workers = 1..size.parse::<i64>().expect("a number");
            let workers = workers.map(|at| index(&format!("s-0-{at}"), size, kind, ""));
            [vec![leader], workers.collect()].concat().join(",")
        };
        assert_eq!(of("4", "LeaderWorker"), "0,0,1,1");
        assert_eq!(of("5", "LeaderWorker"), "0,0,0,1,1");
        assert_eq!(of("5", "LeaderExcluded"), ",0,0,1,1");
    }

    #[test]
    fn a_group_may_have_a_part_of_the_topology_to_itself() {
        let told = json!({labels::SIZE: "2", labels::TOPOLOGY: "rack"});
        let leader = pod("s-0", json!({labels::WORKER_INDEX: "0"}), told);
        let leader = complete(&leader, "n").expect("a leader");
        let affinity = &leader["spec"]["affinity"];
        let required = "requiredDuringSchedulingIgnoredDuringExecution";
        let own = key("n", "s-0");
        let together = json!([{"labelSelector": {"matchExpressions": [
            {"key": labels::GROUP_KEY, "operator": "In", "values": [own]}]},
            "topologyKey": "rack"}]);
        assert_eq!(affinity["podAffinity"][required], together);
        let apart = &affinity["podAntiAffinity"][required][0]["labelSelector"];
        assert_eq!(apart["matchExpressions"][1]["operator"], "NotIn");
    }

    #[test]
    fn a_pod_without_a_number_is_refused_and_others_are_left_alone() {
        let odd = pod("plain", json!({labels::WORKER_INDEX: "0"}), json!({}));
        assert!(complete(&odd, "n").is_err());
        let other = json!({"metadata": {"name": "x"}, "spec": {"containers": [{"name": "c"}]}});
        assert_eq!(complete(&other, "n").expect("as it is"), other);
    }
}
