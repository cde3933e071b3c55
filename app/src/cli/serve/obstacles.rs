//! What keeps the pods of a graph from serving, as their containers say it.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Result, anyhow};
use inference::value::{list, text};
use reconcile::conditions;
use serde_json::Value;

use super::cluster::Cluster;
use crate::cli::exit::{self, Failure};

/// Waiting for these is how every container begins.
const USUAL: [&str; 2] = ["ContainerCreating", "PodInitializing"];
/// What does not get better unless somebody does something.
const FATAL: [&str; 7] = [
    "CreateContainerConfigError",
    "CreateContainerError",
    "ErrImageNeverPull",
    "ErrImagePull",
    "ImagePullBackOff",
    "InvalidImageName",
    "RunContainerError",
];
const CRASHES: &str = "CrashLoopBackOff";
/// A container may miss those that it needs once or twice, while they start.
const RESTARTS_MIN: i64 = 2;
/// What a container refers to may come a moment after it.
const LOOKS_MIN: u32 = 6;
/// Lines of its output that are shown of what failed.
const LAST_LINES: usize = 15;

/// One container that waits.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Obstacle {
    pod: String,
    uid: String,
    /// None where the whole pod waits.
    container: Option<String>,
    reason: String,
    message: String,
    restarts: i64,
}

impl Obstacle {
    fn said(&self) -> String {
        let Obstacle { pod, container, reason, message, .. } = self;
        let container = container.as_ref().map(|name| format!("/{name}")).unwrap_or_default();
        match message.is_empty() {
            true => format!("{pod}{container}: {reason}"),
            false => format!("{pod}{container}: {reason}: {message}"),
        }
    }
}

/// What stands in the way of a graph, each told once.
pub struct Obstacles {
    /// Pods that were there before what is waited for was asked: they may be meant to go.
    before: BTreeSet<String>,
    told: BTreeSet<String>,
    /// How often in a row each container that cannot start has been seen.
    looks: BTreeMap<(String, String), u32>,
}

impl Obstacles {
    pub fn new(before: BTreeSet<String>) -> Obstacles {
        Obstacles { before, told: BTreeSet::new(), looks: BTreeMap::new() }
    }

    /// What is news of it, one line each; an error if it will not get better by itself.
    pub async fn look(&mut self, cluster: &Cluster, graph: &str) -> Result<Vec<String>> {
        // Who may not look at pods waits for the graph alone.
        let pods = cluster.pods(graph).await.unwrap_or_default();
        let all: Vec<Obstacle> = pods.iter().flat_map(of).collect();
        if let Some(fatal) = self.fatal(&all) {
            return Err(failure(cluster, graph, fatal).await);
        }
        let lines = all.iter().map(Obstacle::said);
        Ok(lines.filter(|line| self.told.insert(line.clone())).collect())
    }

    /// The one that ends the waiting, if there is one.
    fn fatal<'a>(&mut self, all: &'a [Obstacle]) -> Option<&'a Obstacle> {
        let mut seen = BTreeMap::new();
        for one in all.iter().filter(|one| FATAL.contains(&one.reason.as_str())) {
            let key = (one.uid.clone(), one.container.clone().unwrap_or_default());
            let looks = self.looks.get(&key).copied().unwrap_or(0) + 1;
            seen.insert(key, looks);
        }
        self.looks = seen;
        let is_fatal = |one: &&Obstacle| {
            let key = (one.uid.clone(), one.container.clone().unwrap_or_default());
            let crashes = one.reason == CRASHES && one.restarts >= RESTARTS_MIN;
            let is_stuck = self.looks.get(&key).is_some_and(|looks| *looks >= LOOKS_MIN);
            !self.before.contains(&one.uid) && (crashes || is_stuck)
        };
        all.iter().find(is_fatal)
    }
}

async fn failure(cluster: &Cluster, graph: &str, fatal: &Obstacle) -> anyhow::Error {
    let what = format!("graph {graph} cannot serve: {}", fatal.said());
    let container = fatal.container.as_deref().unwrap_or_default();
    let shown = cluster.last_lines(&fatal.pod, container, LAST_LINES).await;
    let hint = format!("setpoint why pod/{} -n {}", fatal.pod, cluster.namespace);
    anyhow!(Failure { shown, ..Failure::new(exit::WORKLOAD_FAILED, what).hint(hint) })
}

/// What a pod waits for. One that goes waits for nothing.
fn of(pod: &Value) -> Vec<Obstacle> {
    if !pod["metadata"]["deletionTimestamp"].is_null() {
        return Vec::new();
    }
    let of = |value: &Value| text(value).to_owned();
    let meta = &pod["metadata"];
    let obstacle = |container: Option<String>, said: &Value, restarts: i64| Obstacle {
        pod: of(&meta["name"]),
        uid: of(&meta["uid"]),
        container,
        reason: of(&said["reason"]),
        message: of(&said["message"]),
        restarts,
    };
    let mut all = Vec::new();
    let scheduled = conditions::find(&pod["status"], "PodScheduled");
    if let Some(scheduled) = scheduled.filter(|one| one["status"] == "False") {
        all.push(obstacle(None, scheduled, 0));
    }
    for field in ["initContainerStatuses", "containerStatuses"] {
        for one in list(&pod["status"][field]) {
            let waiting = &one["state"]["waiting"];
            let reason = text(&waiting["reason"]);
            if !reason.is_empty() && !USUAL.contains(&reason) {
                let restarts = one["restartCount"].as_i64().unwrap_or(0);
                all.push(obstacle(Some(of(&one["name"])), waiting, restarts));
            }
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(uid: &str, reason: &str, restarts: i64) -> Value {
        json!({"metadata": {"name": "p", "uid": uid}, "status": {"containerStatuses": [
            {"name": "main", "restartCount": restarts,
                "state": {"waiting": {"reason": reason, "message": "m"}}}]}})
    }

    #[test]
    fn what_pods_wait_for_is_said_and_how_they_begin_is_not() {
        let said = |pod: &Value| of(pod).iter().map(Obstacle::said).collect::<Vec<_>>();
        assert_eq!(said(&pod("u", "ErrImagePull", 0)), ["p/main: ErrImagePull: m"]);
        assert!(said(&pod("u", "ContainerCreating", 0)).is_empty());
        let unplaced = json!({"metadata": {"name": "p"}, "status": {"conditions": [
            {"type": "PodScheduled", "status": "False", "reason": "Unschedulable",
                "message": "0/1 nodes"}]}});
        assert_eq!(said(&unplaced), ["p: Unschedulable: 0/1 nodes"]);
        let mut going = pod("u", "ErrImagePull", 0);
        going["metadata"]["deletionTimestamp"] = json!("now");
        assert!(said(&going).is_empty());
    }

    #[test]
    fn what_stays_wrong_ends_the_waiting_but_not_for_pods_of_before() {
        let fatal = |obstacles: &mut Obstacles, pod: &Value| obstacles.fatal(&of(pod)).is_some();
        let mut fresh = Obstacles::new(BTreeSet::new());
        assert!(!fatal(&mut fresh, &pod("u", CRASHES, 1)));
        assert!(fatal(&mut fresh, &pod("u", CRASHES, 2)));
        let broken = pod("u", "CreateContainerConfigError", 0);
        for _ in 1..LOOKS_MIN {
            assert!(!fatal(&mut fresh, &broken));
        }
        assert!(fatal(&mut fresh, &broken));
        // One that came right begins anew.
        assert!(!fatal(&mut fresh, &pod("u", "ContainerCreating", 0)));
        assert!(!fatal(&mut fresh, &broken));
        let mut update = Obstacles::new(BTreeSet::from(["u".to_owned()]));
        assert!(!fatal(&mut update, &pod("u", CRASHES, 9)));
        assert!(fatal(&mut update, &pod("v", CRASHES, 9)));
    }
}
