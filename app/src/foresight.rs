//! What the scheduler knows of where pods go, for whoever asks the API server why or what if.
//!
//! The server does not know the scheduler: here the two are put together. A plan is decided by the
//! scheduler's own function on a snapshot of its own, so that nothing is assumed or bound.

use std::collections::BTreeMap;
use std::sync::Arc;

use apiserver::history::foresight::{Around, Foresee, Made, Placement, Refusal, Wanted, WhatIf};
use async_trait::async_trait;
use controllers::daemon_set;
use reconcile::{Name, Object};
use scheduler::classes::Classes;
use scheduler::gang::group::{self, Group, GroupKey};
use scheduler::gang::{self, Gang};
use scheduler::pod::PodInfo;
use scheduler::{Diagnosis, Profile, Snapshot, Verdict, Verdicts};
use serde_json::{Value, json};

/// What a node has that nobody says more of.
const NODE: [(&str, &str); 3] = [("cpu", "8"), ("memory", "32Gi"), ("pods", "110")];

/// Nodes that are named of those that a DaemonSet passes over.
const PASSED_OVER_MAX: usize = 5;

/// Answers for the scheduler of this process.
pub struct Foresight {
    /// Reads what the scheduler reads.
    pub client: kube::Client,
    /// Reads what the operators of training read.
    pub runtimes: kube::Client,
    pub verdicts: Arc<Verdicts>,
    pub profiles: Vec<Profile>,
}

#[async_trait]
impl Foresee for Foresight {
    fn refusals(&self, namespace: &str, name: &str) -> Vec<Refusal> {
        let diagnosis = self.verdicts.why(&Name::new(namespace, name));
        diagnosis.map(|diagnosis| refusals(&diagnosis)).unwrap_or_default()
    }

    async fn made_of(&self, object: &Value, around: Around<'_>) -> Result<Option<Made>, String> {
        let plain = |objects: Vec<Value>| Some(Made { objects, note: String::new() });
        let group = object["apiVersion"].as_str().and_then(|text| text.split_once('/'));
        let group = group.map(|(group, _)| group).unwrap_or_default();
        match (group, object["kind"].as_str().unwrap_or_default()) {
            ("trainer.kubeflow.org", "TrainJob") => {
                let path = training::foresight::runtime_path(object);
                let path =
                    path.ok_or("nobody here knows runtimes of the kind of its runtimeRef")?;
                let runtime = match around.read.iter().find(|one| path_of_runtime(one) == path) {
                    Some(planned) => planned.clone(),
                    None => self.get(&path).await?,
                };
                training::foresight::made_of(&Default::default(), object, &runtime).map(plain)
            }
            ("nvidia.com", "DynamoGraphDeployment") => {
                inference::foresight::made_of(&Default::default(), object).map(plain)
            }
            ("nvidia.com", "DynamoComponentDeployment") => {
                let made = inference::foresight::workload(&Default::default(), object.clone())?;
                Ok(plain(vec![made]))
            }
            ("apps", "DaemonSet") => self.daemons(object, around.what_if).await.map(Some),
            _ => Ok(None),
        }
    }

    async fn place(&self, wanted: Wanted) -> Result<Vec<Placement>, String> {
        let mut snapshot = self.snapshot(&wanted).await?;
        let profile = self.profiles.first().ok_or("the scheduler has no profile")?;
        let groups = self.groups(&wanted).await?;
        let pods: Vec<Arc<PodInfo>> = wanted
            .pods
            .into_iter()
            .map(|pod| snapshot.read_pod(Arc::new(Object::new(pod))))
            .collect();
        let mut placements: Vec<Option<Placement>> = vec![None; pods.len()];
        for at in 0..pods.len() {
            if placements[at].is_some() {
                continue;
            }
            let Some((key, group)) = group_of(&pods[at], &groups) else {
                placements[at] = Some(place_one(&mut snapshot, &pods[at], profile));
                continue;
            };
            let is_member = |pod: &Arc<PodInfo>| pod.group.as_ref() == Some(&key);
            let members: Vec<usize> = (at..pods.len()).filter(|at| is_member(&pods[*at])).collect();
            let gang: Vec<_> = members.iter().map(|at| pods[*at].clone()).collect();
            let placed = place_gang(&mut snapshot, (&group, &gang), profile);
            members.into_iter().zip(placed).for_each(|(at, one)| placements[at] = Some(one));
        }
        Ok(placements.into_iter().flatten().collect())
    }
}

/// Where in the API a runtime is that would be made.
fn path_of_runtime(runtime: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let metadata = &runtime["metadata"];
    let (version, kind) = (text(&runtime["apiVersion"]), text(&runtime["kind"]).to_lowercase());
    let namespace = match text(&metadata["namespace"]) {
        namespace if namespace.is_empty() => namespace,
        namespace => format!("namespaces/{namespace}/"),
    };
    format!("/apis/{version}/{namespace}{kind}s/{}", text(&metadata["name"]))
}

fn place_one(snapshot: &mut Snapshot, pod: &Arc<PodInfo>, profile: &Profile) -> Placement {
    snapshot.prepare(pod);
    match scheduler::schedule(snapshot, pod, profile) {
        Verdict::Refuse(diagnosis) => {
            let mut refusals = refusals(&diagnosis);
            // A daemon was never meant for the other nodes, so what they say is no news.
            if let Some(own) = daemon_set::foresight::node_of(&pod.object)
                && refusals.iter().any(|refusal| refusal.node == own)
            {
                refusals.retain(|refusal| refusal.node == own);
            }
            Placement { node: None, refusals }
        }
        Verdict::Place(slot) => {
            let node = snapshot.node(slot).map(|node| node.name.to_string());
            if let Some(node) = &node {
                snapshot.place(pod, node);
            }
            Placement { node, refusals: Vec::new() }
        }
    }
}

/// Together or not at all: where one member has no place, none has, for the same reason.
fn place_gang(
    snapshot: &mut Snapshot,
    (group, members): (&Group, &[Arc<PodInfo>]),
    profile: &Profile,
) -> Vec<Placement> {
    let pending: Vec<_> = members.iter().map(|pod| (pod.clone(), profile)).collect();
    let gang = Gang { group, pending: &pending, placed: 0 };
    let decided = gang::decide(snapshot, &mut Classes::default(), &gang);
    let placed: BTreeMap<String, String> = match &decided {
        Ok(found) => found
            .iter()
            .filter_map(|(pod, slot)| {
                Some((pod.uid.to_string(), snapshot.node(*slot)?.name.to_string()))
            })
            .collect(),
        Err(_) => BTreeMap::new(),
    };
    let why = match &decided {
        Ok(_) => Vec::new(),
        Err(refusal) => why_not(snapshot, &refusal.diagnosis, members, profile),
    };
    let of = |pod: &Arc<PodInfo>| match placed.get(&pod.uid.to_string()) {
        Some(node) => Placement { node: Some(node.clone()), refusals: Vec::new() },
        None if why.is_empty() => {
            let reason = "the gang starts without it: it has enough members".to_owned();
            Placement { node: None, refusals: vec![Refusal { node: "*".to_owned(), reason }] }
        }
        None => Placement { node: None, refusals: why.clone() },
    };
    members.iter().map(of).collect()
}

/// Why a gang does not start, and what each node says to the first member that has no place. What
/// is said of a gang at once may name no node.
fn why_not(
    snapshot: &mut Snapshot,
    diagnosis: &Diagnosis,
    members: &[Arc<PodInfo>],
    profile: &Profile,
) -> Vec<Refusal> {
    let mut all = refusals(diagnosis);
    if !diagnosis.refused.is_empty() {
        return all;
    }
    let mut placed = Vec::new();
    for pod in members {
        let one = place_one(snapshot, pod, profile);
        if one.node.is_none() {
            all.extend(one.refusals);
            break;
        }
        placed.push(pod);
    }
    for pod in placed {
        snapshot.displace(&pod.uid);
    }
    all
}

/// The group that a pod names, if there is one of the name.
fn group_of(pod: &PodInfo, groups: &BTreeMap<GroupKey, Group>) -> Option<(GroupKey, Group)> {
    let key = pod.group.clone()?;
    let group = groups.get(&key)?.clone();
    Some((key, group))
}

/// Node by node; where one reason is for all, it is told once.
fn refusals(diagnosis: &Diagnosis) -> Vec<Refusal> {
    let mut all = Vec::new();
    for (unfit, refused) in &diagnosis.refused {
        let reason = unfit.reasons.join(", ");
        let of = |node: &Arc<str>| Refusal { node: node.to_string(), reason: reason.clone() };
        all.extend(refused.names.iter().map(of));
    }
    if all.is_empty() {
        all.push(Refusal { node: "*".to_owned(), reason: diagnosis.message() });
    }
    all.sort_by(|one, other| one.node.cmp(&other.node));
    all
}

impl Foresight {
    /// The pods of a DaemonSet, one for each node that it is meant for.
    async fn daemons(&self, set: &Value, what_if: &WhatIf) -> Result<Made, String> {
        let mut nodes = self.list("/api/v1/nodes").await?;
        nodes.extend(added(&nodes, what_if));
        let nodes: Vec<Object> = nodes.into_iter().map(Object::new).collect();
        let foreseen = daemon_set::foresight::foresee(&Object::new(set.clone()), &nodes);
        let note = match foreseen.passed_over.len() {
            0 => String::new(),
            count => {
                let mut names = foreseen.passed_over;
                names.truncate(PASSED_OVER_MAX);
                let more = if count > names.len() { ", ..." } else { "" };
                format!("not for {count} of {} nodes: {}{more}", nodes.len(), names.join(", "))
            }
        };
        Ok(Made { objects: foreseen.pods, note })
    }

    /// The cluster as it is, with what is tried out.
    async fn snapshot(&self, wanted: &Wanted) -> Result<Snapshot, String> {
        let mut snapshot = Snapshot::default();
        let nodes = self.list("/api/v1/nodes").await?;
        for node in added(&nodes, &wanted.what_if) {
            snapshot.put_node(&Object::new(node));
        }
        for node in nodes {
            snapshot.put_node(&Object::new(node));
        }
        for object in self.list("/api/v1/namespaces").await? {
            let object = Object::new(object);
            snapshot.put_namespace(&object.name.clone(), Some(&object));
        }
        for object in self.list("/api/v1/persistentvolumes").await? {
            let object = Arc::new(Object::new(object));
            snapshot.put_volume(&object.name.clone(), Some(object));
        }
        for object in self.list("/apis/storage.k8s.io/v1/storageclasses").await? {
            let object = Arc::new(Object::new(object));
            snapshot.put_class(&object.name.clone(), Some(object));
        }
        let claims = self.list("/api/v1/persistentvolumeclaims").await?;
        for object in claims.into_iter().chain(wanted.claims.iter().cloned()) {
            let object = Arc::new(Object::new(object));
            snapshot.put_claim(&object.name.clone(), Some(object));
        }
        for pod in self.list("/api/v1/pods").await? {
            let node = pod["spec"]["nodeName"].as_str().unwrap_or_default().to_owned();
            let phase = pod["status"]["phase"].as_str().unwrap_or_default();
            let is_over = matches!(phase, "Succeeded" | "Failed");
            let is_replaced =
                wanted.replaced.iter().any(|uid| pod["metadata"]["uid"] == uid.as_str());
            if node.is_empty() || is_over || is_replaced {
                continue;
            }
            let pod = snapshot.read_pod(Arc::new(Object::new(pod)));
            snapshot.place(&pod, &node);
        }
        Ok(snapshot)
    }

    /// The groups that there are, and those that would be.
    async fn groups(&self, wanted: &Wanted) -> Result<BTreeMap<GroupKey, Group>, String> {
        let mut groups = BTreeMap::new();
        for family in [group::Family::Coscheduling, group::Family::Volcano] {
            let kind = family.kind();
            let path = format!("/apis/{}/{}/{}", kind.group, kind.version, kind.plural);
            // Where a kind is not served there are none of it.
            let live = self.list(&path).await.unwrap_or_default();
            let version = format!("{}/{}", kind.group, kind.version);
            let planned = wanted.groups.iter().filter(|one| one["apiVersion"] == version.as_str());
            for object in live.into_iter().chain(planned.cloned()) {
                let object = Arc::new(Object::new(object));
                let key = GroupKey { family, name: object.name.clone() };
                groups.insert(key, Group::read(object));
            }
        }
        Ok(groups)
    }

    /// The runtime of a job.
    async fn get(&self, path: &str) -> Result<Value, String> {
        let failed = |error: String| format!("could not read {path}: {error}");
        let request = http::Request::get(path).body(Vec::new());
        let request = request.map_err(|error| failed(error.to_string()))?;
        let object = self.runtimes.request::<Value>(request).await;
        object.map_err(|error| match error {
            kube::Error::Api(status) => status.message.clone(),
            other => failed(other.to_string()),
        })
    }

    async fn list(&self, path: &str) -> Result<Vec<Value>, String> {
        let failed = |error: String| format!("could not read {path}: {error}");
        let request = http::Request::get(path).body(Vec::new());
        let request = request.map_err(|error| failed(error.to_string()))?;
        let list = self.client.request::<Value>(request).await;
        let mut list = list.map_err(|error| failed(error.to_string()))?;
        match list["items"].take() {
            Value::Array(items) => Ok(items),
            _ => Ok(Vec::new()),
        }
    }
}

/// Nodes that are not there: like the one with the most processors, ready and empty.
fn added(nodes: &[Value], what_if: &WhatIf) -> Vec<Value> {
    let processors = |node: &&Value| {
        let text = node["status"]["allocatable"]["cpu"].as_str().unwrap_or("0");
        let (number, thousand) = match text.strip_suffix('m') {
            Some(number) => (number, 1),
            None => (text, 1_000),
        };
        number.parse::<u64>().unwrap_or(0).saturating_mul(thousand)
    };
    let like = nodes.iter().max_by_key(processors);
    let resources = like.map(|node| node["status"]["allocatable"].clone());
    let mut resources = resources.filter(Value::is_object).unwrap_or_else(|| json!({}));
    for (name, amount) in NODE {
        if resources[name].is_null() {
            resources[name] = json!(amount);
        }
    }
    for (name, amount) in &what_if.resources {
        resources[name] = json!(amount);
    }
    let labels = like.map(|node| node["metadata"]["labels"].clone());
    let mut labels = labels.filter(Value::is_object).unwrap_or_else(|| json!({}));
    if labels["kubernetes.io/os"].is_null() {
        labels["kubernetes.io/os"] = json!("linux");
    }
    let make = |number: usize| {
        let name = format!("what-if-{number}");
        let mut labels = labels.clone();
        labels["kubernetes.io/hostname"] = json!(name);
        json!({"apiVersion": "v1", "kind": "Node",
            "metadata": {"name": name, "labels": labels},
            "spec": {},
            "status": {"allocatable": resources, "capacity": resources,
                "conditions": [{"type": "Ready", "status": "True"}]}})
    };
    (0..what_if.nodes).map(make).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_to_try_is_like_the_largest_and_has_what_is_said() {
        let node = |cpu: &str| {
            let labels = json!({"pool": cpu, "kubernetes.io/hostname": "n"});
            json!({"metadata": {"labels": labels},
                "status": {"allocatable": {"cpu": cpu, "memory": "1Gi"}}})
        };
        let resources = [("nvidia.com/gpu".to_owned(), "8".to_owned())].into();
        let added = added(&[node("500m"), node("4"), node("2")], &WhatIf { nodes: 2, resources });
        assert_eq!(added.len(), 2);
        let has = &added[1]["status"]["allocatable"];
        let expected = json!({"cpu": "4", "memory": "1Gi", "pods": "110", "nvidia.com/gpu": "8"});
        assert_eq!(*has, expected);
        let labels = json!({"pool": "4", "kubernetes.io/hostname": "what-if-1",
            "kubernetes.io/os": "linux"});
        assert_eq!(added[1]["metadata"]["labels"], labels);
    }

    #[test]
    fn a_runtime_that_is_planned_is_found_where_it_would_be() {
        for (kind, name) in [("ClusterTrainingRuntime", ""), ("TrainingRuntime", "team")] {
            let runtime = json!({"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": kind,
                "metadata": {"name": "r", "namespace": name}});
            let job = json!({"apiVersion": "trainer.kubeflow.org/v1alpha1", "kind": "TrainJob",
                "metadata": {"name": "j", "namespace": "team"},
                "spec": {"runtimeRef": {"name": "r", "kind": kind}}});
            let path = training::foresight::runtime_path(&job);
            assert_eq!(path, Some(path_of_runtime(&runtime)), "{kind}");
        }
    }
}
