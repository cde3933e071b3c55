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
const ADDRESSES: &str = "TPU_PROCESS_ADDRESSES";
const PORT: &str = "TPU_PROCESS_PORT";
/// The port of the first container; the others follow.
const PORT_FIRST: usize = 8_476;

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

/// Sets the variables of every container of a pod that uses TPUs. Each of them is one process of
/// the slice, with a port of its own.
pub fn inform(pod: &mut Value) {
    let Some(place) = place(pod) else { return };
    let fields = ["containers", "initContainers"];
    let all = fields.into_iter().flat_map(|field| list(&pod["spec"][field]));
    let users: Vec<&Value> = all.filter(|container| container_uses(container)).collect();
    // A container that has one of them has all, and so have the others.
    let is_set = |one: &Value| one["name"] == HOSTNAMES || one["name"] == ID;
    if users.first().is_none_or(|first| list(&first["env"]).iter().any(is_set)) {
        return;
    }
    let ports: Vec<String> = users.iter().enumerate().map(|(at, user)| port(user, at)).collect();
    let hosts: Vec<&str> =
        place.hosts.iter().flat_map(|host| ports.iter().map(|_| host.as_str())).collect();
    let addresses: Vec<String> = place
        .hosts
        .iter()
        .flat_map(|host| ports.iter().map(move |port| format!("{host}:{port}")))
        .collect();
    let mut at = 0;
    for field in fields {
        for container in pod["spec"][field].as_array_mut().into_iter().flatten() {
            if !container_uses(container) {
                continue;
            }
            let id = place.index * ports.len() + at;
            let env = list_mut(&mut container["env"]);
            env.push(json!({"name": HOSTNAMES, "value": hosts.join(",")}));
            env.push(json!({"name": ID, "value": id.to_string()}));
            env.push(json!({"name": NAME, "value": place.leader}));
            env.push(json!({"name": ADDRESSES, "value": addresses.join(",")}));
            if !env.iter().any(|one| one["name"] == PORT) {
                env.push(json!({"name": PORT, "value": ports[at]}));
            }
            at += 1;
        }
    }
}

/// The port of a container's process: its own choice, or the next of the usual ones.
fn port(container: &Value, at: usize) -> String {
    let own = list(&container["env"]).iter().find(|one| one["name"] == PORT);
    match own {
        Some(own) => text(&own["value"]).to_owned(),
        None => (PORT_FIRST + at).to_string(),
    }
}

/// A pod among those that use TPUs together.
struct Place {
    leader: String,
    index: usize,
    hosts: Vec<String>,
}

/// Finds the pod's number among those that use TPUs together, and the names of all of them.
fn place(pod: &Value) -> Option<Place> {
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
    let hosts = (first..=last).map(host).collect();
    Some(Place { leader: leader.to_owned(), index: usize::try_from(id).ok()?, hosts })
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
        assert_eq!(env[3]["name"], ADDRESSES);
        assert_eq!(env[4], json!({"name": PORT, "value": "8476"}));
        env.iter().take(3).map(|one| text(&one["value"])).collect::<Vec<&str>>().join(" ")
    }

    #[test]
    fn every_container_that_uses_tpus_is_a_process_of_the_slice() {
        let limits = json!({"limits": {RESOURCE: "2"}});
        let user = |name: &str, env: Value| json!({"name": name, "env": env, "resources": limits});
        let own_port = json!([{"name": PORT, "value": "9000"}]);
        let mut pod = json!({
            "metadata": {"name": "s-0-1", "labels": {labels::WORKER_INDEX: "1"}, "annotations":
                {labels::SIZE: "2", labels::LEADER_USES_TPUS: "true"}},
            "spec": {"subdomain": "s", "containers": [user("a", json!([])), user("b", own_port)]},
        });
        inform(&mut pod);
        let value = |container: usize, name: &str| {
            let env = list(&pod["spec"]["containers"][container]["env"]).iter();
            let values = env.filter(|one| one["name"] == name).map(|one| text(&one["value"]));
            values.collect::<Vec<&str>>().join(" ")
        };
        for container in [0, 1] {
            assert_eq!(value(container, HOSTNAMES), "s-0.s,s-0.s,s-0-1.s,s-0-1.s");
            assert_eq!(
                value(container, ADDRESSES),
                "s-0.s:8476,s-0.s:9000,s-0-1.s:8476,s-0-1.s:9000"
            );
            assert_eq!(value(container, NAME), "s-0");
        }
        assert_eq!((value(0, ID), value(1, ID)), ("2".to_owned(), "3".to_owned()));
        assert_eq!((value(0, PORT), value(1, PORT)), ("8476".to_owned(), "9000".to_owned()));
    }

    #[test]
    fn those_that_use_tpus_know_each_other() {
        let leads = json!({"metadata": {"annotations": {labels::LEADER_USES_TPUS: "true"}}});
        assert_eq!(told("s-0", "0", json!({})), "s-0.s,s-0-1.s,s-0-2.s 0 s-0");
        assert_eq!(told("s-0-2", "2", leads), "s-0.s,s-0-1.s,s-0-2.s 2 s-0");
        assert_eq!(told("s-0-2", "2", json!({})), "s-0-1.s,s-0-2.s 1 s-0");
    }

    #[test]
    fn subgroups_keep_to_themselves() {
        let of = |group: &str, leads: &str| {
            json!({"metadata": {"labels": {labels::SUBGROUP_INDEX: group}, "annotations":
                {labels::SIZE: "5", labels::SUBGROUP_SIZE: "2", labels::LEADER_USES_TPUS: leads}}})
        };
        assert_eq!(told("s-0", "0", of("0", "")), "s-0.s,s-0-1.s 0 s-0");
        assert_eq!(told("s-0-3", "3", of("1", "true")), "s-0-2.s,s-0-3.s 1 s-0");
        assert_eq!(told("s-0-3", "3", of("1", "")), "s-0-3.s,s-0-4.s 0 s-0");
    }
}
