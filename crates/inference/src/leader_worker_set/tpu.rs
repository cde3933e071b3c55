//! What containers that use TPUs are told: who the others are, and which of them they are.
//!
//! Upstream: kubernetes-sigs/lws, pkg/utils/accelerators/tpu.go

use serde_json::{Value, json};

use super::labels;
use crate::value::{list, list_mut, text};

const RESOURCE: &str = "google.com/tpu";
const HOSTNAMES: &str = "TPU_WORKER_HOSTNAMES";
const ID: &str = "TPU_WORKER_ID";
const NAME: &str = "TPU_NAME";

/// Whether any container of a pod uses TPUs.
pub fn uses(pod: &Value) -> bool {
    let all = ["containers", "initContainers"].into_iter().flat_map(|field| list(&pod[field]));
    all.into_iter().any(container_uses)
}

fn container_uses(container: &Value) -> bool {
    let amount = |field: &str| match &container["resources"][field][RESOURCE] {
        Value::Null => false,
        Value::String(text) => text != "0",
        other => *other != 0,
    };
    amount("limits") || amount("requests")
}

/// Tells the one container of a pod that uses TPUs.
pub fn inform(pod: &mut Value) {
    let Some((id, hosts)) = place(pod) else { return };
    let name = pod["metadata"]["name"].clone();
    for field in ["containers", "initContainers"] {
        let containers = pod["spec"][field].as_array_mut().into_iter().flatten();
        for container in containers {
            if !container_uses(container) {
                continue;
            }
            let env = list_mut(&mut container["env"]);
            // Whoever says one of them says all.
            let is_told = |one: &Value| one["name"] == HOSTNAMES || one["name"] == ID;
            if !env.iter().any(is_told) {
                env.push(json!({"name": HOSTNAMES, "value": hosts.join(",")}));
                env.push(json!({"name": ID, "value": id.to_string()}));
                env.push(json!({"name": NAME, "value": name}));
            }
            return;
        }
    }
}

/// The number of a pod among those that use TPUs together, and the names of all of them.
fn place(pod: &Value) -> Option<(i64, Vec<String>)> {
    let meta = &pod["metadata"];
    let name = text(&meta["name"]);
    let number = |value: &Value| text(value).parse::<i64>().ok();
    let index = number(&meta["labels"][labels::WORKER_INDEX])?;
    let is_leader = index == 0;
    let leader = match is_leader {
        true => name,
        false => name.rsplit_once('-')?.0,
    };
    let leads = is_leader || text(&meta["annotations"][labels::LEADER_USES_TPUS]) == "true";
    let (first, last, id) = match number(&meta["annotations"][labels::SUBGROUP_SIZE]) {
        None => {
            let size = number(&meta["annotations"][labels::SIZE])?;
            (if leads { 0 } else { 1 }, size - 1, if leads { index } else { index - 1 })
        }
        Some(size) if size > 0 => {
            let group = number(&meta["labels"][labels::SUBGROUP_INDEX])?;
            let shift = if leads { 0 } else { 1 };
            (size * group + shift, size * (group + 1) - 1 + shift, (index - shift) % size)
        }
        Some(_) => return None,
    };
    let domain = text(&pod["spec"]["subdomain"]);
    let host = |at: i64| match at {
        0 => format!("{leader}.{domain}"),
        at => format!("{leader}-{at}.{domain}"),
    };
    Some((id, (first..=last).map(host).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(name: &str, index: &str, more: Value) -> String {
        let mut pod = json!({
            "metadata": {"name": name, "labels": {labels::WORKER_INDEX: index},
                "annotations": {labels::SIZE: "3"}},
            "spec": {"subdomain": "s", "containers": [{"name": "other"}, {"name": "c",
                "resources": {"limits": {RESOURCE: "4"}}}]},
        });
        reconcile::plan::merge(&mut pod, &more);
        inform(&mut pod);
        let again = pod.clone();
        inform(&mut pod);
        assert_eq!(pod, again, "who was asked before has said so already");
        assert!(pod["spec"]["containers"][0]["env"].is_null());
        let env = list(&pod["spec"]["containers"][1]["env"]);
        env.iter().map(|one| text(&one["value"])).collect::<Vec<&str>>().join(" ")
    }

    #[test]
    fn those_that_use_tpus_know_each_other() {
        let leads = json!({"metadata": {"annotations": {labels::LEADER_USES_TPUS: "true"}}});
        assert_eq!(told("s-0", "0", json!({})), "s-0.s,s-0-1.s,s-0-2.s 0 s-0");
        assert_eq!(told("s-0-2", "2", leads), "s-0.s,s-0-1.s,s-0-2.s 2 s-0-2");
        assert_eq!(told("s-0-2", "2", json!({})), "s-0-1.s,s-0-2.s 1 s-0-2");
    }

    #[test]
    fn subgroups_keep_to_themselves() {
        let of = |group: &str, leads: &str| {
            json!({"metadata": {"labels": {labels::SUBGROUP_INDEX: group}, "annotations":
                {labels::SIZE: "5", labels::SUBGROUP_SIZE: "2", labels::LEADER_USES_TPUS: leads}}})
        };
        assert_eq!(told("s-0", "0", of("0", "")), "s-0.s,s-0-1.s 0 s-0");
        assert_eq!(told("s-0-3", "3", of("1", "true")), "s-0-2.s,s-0-3.s 1 s-0-3");
        assert_eq!(told("s-0-3", "3", of("1", "")), "s-0-3.s,s-0-4.s 0 s-0-3");
    }
}
