//! Ranks of a training job: one for each index of its Jobs, also when its pod is gone.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

use super::failure;
use super::follow::rank;

/// Ranks that are listed; more are cut.
const RANKS_MAX: i64 = 10_000;

/// State of one rank.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Rank {
    pub rank: String,
    pub state: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i64>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub node: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub pod: String,
    pub restarts: i64,
}

/// Lists the ranks of the Jobs of a TrainJob, and those of pods whose Jobs are gone.
pub fn ranks(jobs: &[Value], pods: &[Value]) -> Vec<Rank> {
    let mut newest: BTreeMap<String, &Value> = BTreeMap::new();
    for pod in pods {
        let created =
            |pod: &Value| pod["metadata"]["creationTimestamp"].as_str().map(str::to_owned);
        let known = newest.get(&rank(pod)).is_some_and(|known| created(known) > created(pod));
        if !known {
            newest.insert(rank(pod), pod);
        }
    }
    let mut all: BTreeMap<(String, i64), Rank> = BTreeMap::new();
    for job in jobs {
        let name = text(&job["metadata"]["labels"]["jobset.sigs.k8s.io/replicatedjob-name"]);
        let count = job["spec"]["completions"].as_i64().unwrap_or(1).min(RANKS_MAX);
        for index in 0..count {
            let rank = format!("{name}-{index}");
            let found = newest.remove(&rank);
            let found = found.map_or_else(|| without_pod(job, &rank, index), of_pod);
            all.insert((name.clone(), index), found);
        }
    }
    for pod in newest.into_values() {
        let labels = &pod["metadata"]["labels"];
        let name = text(&labels["jobset.sigs.k8s.io/replicatedjob-name"]);
        let index = text(&labels["batch.kubernetes.io/job-completion-index"]);
        all.insert((name, index.parse().unwrap_or(RANKS_MAX)), of_pod(pod));
    }
    all.into_values().collect()
}

fn of_pod(pod: &Value) -> Rank {
    let failed = failure::of(pod);
    let statuses = pod["status"]["containerStatuses"].as_array().into_iter().flatten();
    let restarts = statuses.clone().filter_map(|one| one["restartCount"].as_i64()).sum();
    let waiting = statuses.filter_map(|one| one["state"]["waiting"]["reason"].as_str()).next();
    let is_deleted = pod["metadata"]["deletionTimestamp"].is_string();
    let state = match (text(&pod["status"]["phase"]).as_str(), &failed) {
        ("Succeeded", _) => "succeeded".to_owned(),
        ("Failed", Some(failed)) => failed.ended_as(),
        ("Failed", None) => "failed".to_owned(),
        _ if is_deleted => "stopping".to_owned(),
        ("Running", _) if waiting.is_none() => "running".to_owned(),
        (_, _) => waiting.map_or_else(|| "pending".to_owned(), |why| format!("waiting: {why}")),
    };
    Rank {
        rank: rank(pod),
        state,
        exit_code: failed.map(|failed| failed.exit_code),
        node: text(&pod["spec"]["nodeName"]),
        pod: text(&pod["metadata"]["name"]),
        restarts,
    }
}

/// The controller deletes the pods that still run when their Job fails or is suspended.
fn without_pod(job: &Value, rank: &str, index: i64) -> Rank {
    let status = &job["status"];
    let is = |kind: &str| reconcile::conditions::is_true(status, kind);
    let has = |field: &str| contains(status[field].as_str().unwrap_or_default(), index);
    let state = match () {
        () if has("completedIndexes") => "succeeded",
        () if has("failedIndexes") => "failed (pod deleted)",
        () if is("Failed") => "stopped (pod deleted)",
        () if job["spec"]["suspend"] == true => "suspended",
        () if is("Complete") => "succeeded",
        () => "no pod yet",
    };
    Rank { rank: rank.to_owned(), state: state.to_owned(), ..Rank::default() }
}

/// True if an index is in a list such as `0,2-4`.
fn contains(indexes: &str, index: i64) -> bool {
    indexes.split(',').any(|part| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let bounds = first.parse::<i64>().ok().zip(last.parse::<i64>().ok());
        bounds.is_some_and(|(first, last)| (first..=last).contains(&index))
    })
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(index: &str, status: Value) -> Value {
        json!({"metadata": {"name": format!("p-{index}"), "labels": {
            "jobset.sigs.k8s.io/replicatedjob-name": "node",
            "batch.kubernetes.io/job-completion-index": index}},
            "spec": {"nodeName": "n"}, "status": status})
    }

    #[test]
    fn ranks_whose_pods_were_deleted_are_listed_too() {
        let job = json!({"metadata": {"labels": {"jobset.sigs.k8s.io/replicatedjob-name": "node"}},
            "spec": {"completions": 12}, "status": {"completedIndexes": "2,4-5",
            "conditions": [{"type": "Failed", "status": "True"}]}});
        let ended = json!({"phase": "Failed", "containerStatuses": [
            {"name": "node", "state": {"terminated": {"exitCode": 3}}}]});
        let pods = [pod("1", ended), pod("11", json!({"phase": "Running"}))];
        let found = ranks(&[job], &pods);
        let told: Vec<String> =
            found.iter().map(|one| format!("{} {}", one.rank, one.state)).collect();
        assert_eq!(told.len(), 12);
        assert_eq!(told[0], "node-0 stopped (pod deleted)");
        assert_eq!(told[1], "node-1 failed (exit code 3)");
        assert_eq!((&*told[2], &*told[5]), ("node-2 succeeded", "node-5 succeeded"));
        // By number, not by text.
        assert_eq!(told[11], "node-11 running");
        assert_eq!((found[1].exit_code, found[1].node.as_str()), (Some(3), "n"));
        assert_eq!(ranks(&[], &pods).len(), 2);
    }
}
