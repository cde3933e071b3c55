//! Pod states that keep an object from becoming ready: which container, why, and how long a wait
//! tolerates the state before it gives up. Pure.

use std::fmt;
use std::time::Duration;

use apiserver::quantity::Quantity;
use reconcile::conditions;
use serde_json::Value;

use super::verdict::Observation;

/// Tolerance for configuration and image errors: the missing object may be on its way.
const CONFIGURATION_MAX: Duration = Duration::from_secs(3);
/// Tolerance for volumes that cannot be mounted: the node retries every few seconds.
const MOUNT_MAX: Duration = Duration::from_secs(6);
/// Tolerance for pods that fit on no node.
const UNSCHEDULABLE_MAX: Duration = Duration::from_secs(5);
/// Restarts after which a crash loop is final: a dependency may start later than its client.
const RESTARTS_MIN: i64 = 2;
/// A container that ran longer before it crashed made progress.
const SHORT_RUN_SECONDS_MAX: i64 = 10;
const CRASH_LOOP: &str = "CrashLoopBackOff";
const STARTING: [&str; 2] = ["ContainerCreating", "PodInitializing"];
/// Reasons of waiting containers that only a change to the pod or its environment removes.
const CONFIGURATION: [&str; 8] = [
    "CreateContainerConfigError",
    "CreateContainerError",
    "ErrImageNeverPull",
    "ErrImagePull",
    "ImageInspectError",
    "ImagePullBackOff",
    "InvalidImageName",
    "RunContainerError",
];
/// Reasons of events about volumes.
const MOUNT: [&str; 3] = ["FailedMount", "FailedAttachVolume", "FailedMapVolume"];
/// Labels that identify the revision of a pod's template.
const REVISIONS: [&str; 2] = ["pod-template-hash", "controller-revision-hash"];

/// A container of a pod, or the pod itself where `name` is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Container {
    pub pod: String,
    pub name: String,
}

/// A state that keeps a pod from running.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blocker {
    uid: String,
    pub container: Container,
    reason: String,
    message: String,
    /// Time after which the state is final; none if the pod may recover by itself.
    pub patience: Option<Duration>,
}

impl Blocker {
    pub fn key(&self) -> String {
        format!("{}/{}/{}", self.uid, self.container.name, self.patience.is_some())
    }
}

/// `pod/web-1/main: ErrImagePull: not found`.
impl fmt::Display for Blocker {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Container { pod, name } = &self.container;
        write!(formatter, "pod/{pod}")?;
        if !name.is_empty() {
            write!(formatter, "/{name}")?;
        }
        write!(formatter, ": {}", self.reason)?;
        match self.message.is_empty() {
            true => Ok(()),
            false => write!(formatter, ": {}", self.message),
        }
    }
}

/// Blockers of the pods of an observation; final ones first.
pub fn find(observation: &Observation) -> Vec<Blocker> {
    let pods = current(&observation.pods);
    let mut found: Vec<Blocker> = pods.iter().flat_map(|pod| of_pod(pod, observation)).collect();
    found.sort_by_key(|one| one.patience.is_none());
    found
}

/// The first container that cannot run or has failed.
pub fn first_broken(pods: &[Value]) -> Option<Blocker> {
    let none = Observation::default();
    let waiting = current(pods).into_iter().flat_map(|pod| waiting(pod, &none));
    let waiting = waiting.into_iter().find(|one| one.patience.is_some() || one.is_crash_loop());
    waiting.or_else(|| pods.iter().find_map(ended))
}

/// Pods of the newest revision that are not being deleted.
fn current(pods: &[Value]) -> Vec<&Value> {
    let is_live = |pod: &&Value| pod["metadata"]["deletionTimestamp"].is_null();
    let created = |pod: &&Value| pod["metadata"]["creationTimestamp"].as_str().map(str::to_owned);
    let Some(newest) = pods.iter().filter(is_live).max_by_key(created).map(revision) else {
        return Vec::new();
    };
    pods.iter().filter(is_live).filter(|pod| revision(pod) == newest).collect()
}

fn revision(pod: &Value) -> &Value {
    let labels = &pod["metadata"]["labels"];
    REVISIONS.iter().map(|one| &labels[*one]).find(|it| it.is_string()).unwrap_or(&Value::Null)
}

fn of_pod(pod: &Value, observation: &Observation) -> Vec<Blocker> {
    let mut found: Vec<Blocker> = unscheduled(pod, observation).into_iter().collect();
    found.extend(waiting(pod, observation));
    found
}

fn blocker(pod: &Value, container: &Value, reason: &Value, message: &Value) -> Blocker {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let container = Container { pod: text(&pod["metadata"]["name"]), name: text(container) };
    let uid = text(&pod["metadata"]["uid"]);
    let message = text(message).trim().to_owned();
    Blocker { uid, container, reason: text(reason), message, patience: None }
}

impl Blocker {
    fn is_crash_loop(&self) -> bool {
        self.reason == CRASH_LOOP
    }
}

fn unscheduled(pod: &Value, observation: &Observation) -> Option<Blocker> {
    let condition = conditions::find(&pod["status"], "PodScheduled")?;
    if condition["status"] != "False" {
        return None;
    }
    let found = blocker(pod, &Value::Null, &condition["reason"], &condition["message"]);
    let is_final = condition["reason"] == "Unschedulable" && fits_nowhere(pod, &observation.nodes);
    Some(Blocker { patience: is_final.then_some(UNSCHEDULABLE_MAX), ..found })
}

/// True if a pod requests more than any node has in total: no other pod's end makes it fit.
fn fits_nowhere(pod: &Value, nodes: &[Value]) -> bool {
    let containers = pod["spec"]["containers"].as_array().into_iter().flatten();
    let requests: Vec<(&String, Quantity)> = containers
        .filter_map(|one| one["resources"]["requests"].as_object())
        .flatten()
        .filter_map(|(name, value)| Some((name, Quantity::read(value)?)))
        .collect();
    let exceeds = |node: &Value| {
        requests.iter().any(|(name, wanted)| {
            let has = Quantity::read(&node["status"]["allocatable"][name.as_str()]);
            has.map_or_else(|| !wanted.is_zero(), |has| *wanted > has)
        })
    };
    !nodes.is_empty() && nodes.iter().all(exceeds)
}

fn statuses(pod: &Value) -> impl Iterator<Item = &Value> {
    let fields = ["initContainerStatuses", "containerStatuses"];
    fields.into_iter().flat_map(|field| pod["status"][field].as_array()).flatten()
}

/// Containers that wait for something else than their usual start.
fn waiting(pod: &Value, observation: &Observation) -> Vec<Blocker> {
    let one = |status: &Value| {
        let waiting = &status["state"]["waiting"];
        let reason = waiting["reason"].as_str().filter(|reason| !reason.is_empty())?;
        if STARTING.contains(&reason) {
            return mount_failure(pod, observation);
        }
        let found = blocker(pod, &status["name"], &waiting["reason"], &waiting["message"]);
        let patience = match reason {
            CRASH_LOOP if is_hopeless(status) => Some(Duration::ZERO),
            reason if CONFIGURATION.contains(&reason) => Some(CONFIGURATION_MAX),
            _ => None,
        };
        let code = status["lastState"]["terminated"]["exitCode"].as_i64();
        let code = code.map(|code| format!(" (last exit code {code})")).unwrap_or_default();
        Some(Blocker { message: format!("{}{code}", found.message), patience, ..found })
    };
    let mut found: Vec<Blocker> = statuses(pod).filter_map(one).collect();
    found.dedup();
    found
}

/// The newest event about a volume of a pod whose containers have not been created.
fn mount_failure(pod: &Value, observation: &Observation) -> Option<Blocker> {
    let is_its = |event: &&Value| {
        let involved = &event["involvedObject"];
        involved["uid"] == pod["metadata"]["uid"]
            && MOUNT.iter().any(|reason| event["reason"] == *reason)
    };
    let event = observation.warnings.iter().rev().find(is_its)?;
    let found = blocker(pod, &Value::Null, &event["reason"], &event["message"]);
    Some(Blocker { patience: Some(MOUNT_MAX), ..found })
}

/// True if a container crashed repeatedly, each time soon after its start.
fn is_hopeless(status: &Value) -> bool {
    let last = &status["lastState"]["terminated"];
    let seconds = |field: &str| {
        let parsed = last[field].as_str().and_then(apiserver::timestamp::parse_micro);
        parsed.map(|(seconds, _)| seconds)
    };
    let ran = seconds("finishedAt").zip(seconds("startedAt")).map(|(end, start)| end - start);
    let is_short = ran.is_none_or(|ran| ran <= SHORT_RUN_SECONDS_MAX);
    status["restartCount"].as_i64().unwrap_or(0) >= RESTARTS_MIN && is_short
}

fn ended(pod: &Value) -> Option<Blocker> {
    statuses(pod).find_map(|status| {
        let ended = &status["state"]["terminated"];
        let code = ended["exitCode"].as_i64().filter(|code| *code != 0)?;
        let found = blocker(pod, &status["name"], &Value::Null, &Value::Null);
        Some(Blocker { reason: format!("exited with code {code}"), ..found })
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(name: &str, revision: &str, made: &str, state: Value) -> Value {
        json!({"kind": "Pod", "metadata": {"name": name, "uid": name, "creationTimestamp": made,
            "labels": {"pod-template-hash": revision}},
            "status": {"containerStatuses": [{"name": "main", "state": state,
                "lastState": {"terminated": {"exitCode": 3}}}]}})
    }

    fn waiting_for(reason: &str) -> Value {
        json!({"waiting": {"reason": reason, "message": "so"}})
    }

    fn found(pods: Vec<Value>) -> Vec<String> {
        let observation = Observation { pods, ..Observation::default() };
        find(&observation).iter().map(Blocker::to_string).collect()
    }

    #[test]
    fn blockers_name_container_and_reason_and_pods_of_older_revisions_do_not_count() {
        let crashes = pod("a", "1", "T1", waiting_for(CRASH_LOOP));
        let said = "pod/a/main: CrashLoopBackOff: so (last exit code 3)";
        assert_eq!(found(vec![crashes.clone()]), [said]);
        assert!(found(vec![pod("a", "1", "T1", waiting_for("ContainerCreating"))]).is_empty());
        let newer = pod("b", "2", "T2", waiting_for("ContainerCreating"));
        assert!(found(vec![crashes.clone(), newer]).is_empty());
        let mut deleted = crashes;
        deleted["metadata"]["deletionTimestamp"] = json!("T3");
        assert!(found(vec![deleted]).is_empty() && found(Vec::new()).is_empty());
    }

    #[test]
    fn a_container_that_made_progress_before_it_crashed_may_recover() {
        let crashed = |started: &str| {
            let mut pod = pod("a", "1", "T1", waiting_for(CRASH_LOOP));
            let status = &mut pod["status"]["containerStatuses"][0];
            status["restartCount"] = json!(5);
            status["lastState"]["terminated"] = json!({"exitCode": 1,
                "startedAt": started, "finishedAt": "2026-01-02T10:00:00Z"});
            find(&Observation { pods: vec![pod], ..Observation::default() })[0].patience
        };
        assert_eq!(crashed("2026-01-02T09:59:58Z"), Some(Duration::ZERO));
        assert_eq!(crashed("2026-01-02T08:00:00Z"), None);
    }

    #[test]
    fn a_volume_that_cannot_be_mounted_is_found_in_the_events() {
        let pods = vec![pod("a", "1", "T1", waiting_for("ContainerCreating"))];
        let warning = json!({"reason": "FailedMount", "message": "applyFSGroup failed",
            "involvedObject": {"kind": "Pod", "uid": "a"}});
        let other = json!({"reason": "FailedMount", "involvedObject": {"uid": "b"}});
        let warnings = vec![warning, other];
        let observation = Observation { pods, warnings, ..Observation::default() };
        let found = find(&observation);
        assert_eq!(found[0].to_string(), "pod/a: FailedMount: applyFSGroup failed");
        assert!(found[0].patience.is_some());
    }

    #[test]
    fn only_a_pod_that_is_larger_than_every_node_is_unschedulable_for_good() {
        let scheduled = json!([{"type": "PodScheduled", "status": "False",
            "reason": "Unschedulable", "message": "0/1 nodes are available"}]);
        let patience = |requests: Value, nodes: &[Value]| {
            let pod = json!({"metadata": {"name": "a", "uid": "a"}, "spec":
                {"containers": [{"resources": {"requests": requests}}]},
                "status": {"conditions": scheduled}});
            let nodes = nodes.to_vec();
            let found = find(&Observation { pods: vec![pod], nodes, ..Observation::default() });
            assert_eq!(found[0].to_string(), "pod/a: Unschedulable: 0/1 nodes are available");
            found[0].patience.is_some()
        };
        let node = json!({"status": {"allocatable": {"cpu": "2", "memory": "4Gi"}}});
        let nodes = std::slice::from_ref(&node);
        assert!(patience(json!({"nvidia.com/gpu": 1}), nodes));
        assert!(patience(json!({"cpu": "2500m"}), nodes));
        assert!(!patience(json!({"cpu": "2", "memory": "1Gi"}), nodes), "others may end");
        assert!(!patience(json!({"cpu": "9"}), &[]), "nodes may still register");
    }

    #[test]
    fn a_failed_container_is_named_with_its_exit_code() {
        let ended = pod("a", "1", "T1", json!({"terminated": {"exitCode": 4}}));
        let well = pod("b", "1", "T2", json!({"terminated": {"exitCode": 0}}));
        let found = first_broken(&[well.clone(), ended]).expect("a failure");
        assert_eq!(found.to_string(), "pod/a/main: exited with code 4");
        assert_eq!(first_broken(&[well]), None);
        let crashes = pod("c", "1", "T3", waiting_for(CRASH_LOOP));
        assert_eq!(first_broken(&[crashes]).expect("a crash").container.pod, "c");
    }
}
