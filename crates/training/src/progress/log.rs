//! The pod of a job's first rank, and the stream of its log.

use futures::AsyncBufRead;
use k8s_openapi::jiff::Timestamp;
use reconcile::conditions::time;
use reconcile::requests::{Requests, escape};
use reconcile::{Error, Kind, Name, Object};
use serde_json::Value;

use crate::blueprint::ANCESTOR;
use crate::value::{list, text};

pub const POD: Kind = Kind::namespaced("", "v1", "Pod", "pods");

const JOB_SET_NAME: &str = "jobset.sigs.k8s.io/jobset-name";
const REPLICATED_JOB_NAME: &str = "jobset.sigs.k8s.io/replicatedjob-name";
const JOB_INDEX: &str = "jobset.sigs.k8s.io/job-index";
const COMPLETION_INDEX: &str = "batch.kubernetes.io/job-completion-index";

/// One run of the container that trains.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerRun {
    pub pod: String,
    pub uid: String,
    pub container: String,
    pub restarts: i64,
    pub started_at: Option<Timestamp>,
    pub has_ended: bool,
}

impl ContainerRun {
    pub fn is_same(&self, other: &ContainerRun) -> bool {
        self.uid == other.uid && self.restarts == other.restarts
    }
}

/// Part of the log that is read.
#[derive(Clone, Copy, Debug)]
pub enum Start {
    Beginning,
    /// From a line that was read before, which is read again.
    At(Timestamp),
    /// The last lines, for a reader that fell behind.
    Last(u32),
}

/// Finds the newest run of the first rank's container, once it has begun.
pub async fn find_run(
    requests: &Requests,
    job: &Name,
    set: &Object,
) -> Result<Option<ContainerRun>, Error> {
    let Some(step) = trainer_step(set) else { return Ok(None) };
    let labels = [
        (JOB_SET_NAME, &*job.name),
        (REPLICATED_JOB_NAME, step),
        (JOB_INDEX, "0"),
        (COMPLETION_INDEX, "0"),
    ];
    let selector = labels.map(|(label, value)| format!("{}%3D{value}", escape(label))).join(",");
    let path = format!("{}?labelSelector={selector}", POD.collection(&job.namespace));
    let found = requests.read(&path).await?;
    let runs = list(&found["items"]).iter().filter_map(|pod| run_of(pod, step));
    Ok(runs.max_by_key(|run| run.started_at))
}

/// The replicated job that trains.
fn trainer_step(set: &Object) -> Option<&str> {
    let jobs = list(&set.value["spec"]["replicatedJobs"]);
    let is_trainer = |job: &&Value| job["template"]["metadata"]["labels"][ANCESTOR] == "trainer";
    jobs.iter().find(is_trainer).map(|job| text(&job["name"]))
}

/// The run that a pod shows: of `node`, of the container that is named like its step, or the first.
fn run_of(pod: &Value, step: &str) -> Option<ContainerRun> {
    let containers = list(&pod["spec"]["containers"]);
    let named = |name: &str| containers.iter().find(|one| one["name"] == name);
    let container = text(&named("node").or_else(|| named(step)).or(containers.first())?["name"]);
    let mut statuses = list(&pod["status"]["containerStatuses"]).iter();
    let status = statuses.find(|one| one["name"] == container)?;
    let (running, ended) = (&status["state"]["running"], &status["state"]["terminated"]);
    if !running.is_object() && !ended.is_object() {
        return None;
    }
    let started_at = if running.is_object() { running } else { ended };
    Some(ContainerRun {
        pod: text(&pod["metadata"]["name"]).to_owned(),
        uid: text(&pod["metadata"]["uid"]).to_owned(),
        container: container.to_owned(),
        restarts: status["restartCount"].as_i64().unwrap_or(0),
        started_at: text(&started_at["startedAt"]).parse().ok(),
        has_ended: ended.is_object(),
    })
}

/// Opens the log of a run. The stream ends with the container.
pub async fn open(
    requests: &Requests,
    namespace: &str,
    run: &ContainerRun,
    start: Start,
) -> Result<impl AsyncBufRead + use<>, Error> {
    let since = match start {
        Start::Beginning => String::new(),
        // Whole seconds: not every server reads more.
        Start::At(at) => format!("&sinceTime={}", escape(&time(at))),
        Start::Last(lines) => format!("&tailLines={lines}"),
    };
    let (pod, container) = (POD.path(namespace, &run.pod), &run.container);
    let path = format!("{pod}/log?container={container}&follow=true&timestamps=true{since}");
    requests.stream(&path).await
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_first_rank_is_that_of_the_job_that_trains() {
        let job = |name: &str, labels: Value| {
            let template = json!({"metadata": {"labels": labels}});
            json!({"name": name, "template": template})
        };
        let jobs = json!([job("node", json!({})), job("launcher", json!({ANCESTOR: "trainer"}))]);
        let set = Object::new(json!({"spec": {"replicatedJobs": jobs}}));
        assert_eq!(trainer_step(&set), Some("launcher"));
        assert_eq!(trainer_step(&Object::new(json!({}))), None);
    }

    #[test]
    fn a_container_has_a_run_once_it_has_begun() {
        let pod = |state: Value| {
            json!({"metadata": {"name": "p", "uid": "u"},
                "spec": {"containers": [{"name": "beside"}, {"name": "node"}]},
                "status": {"containerStatuses": [{"name": "beside", "state": {"running": {}}},
                    {"name": "node", "restartCount": 2, "state": state}]}})
        };
        assert_eq!(run_of(&pod(json!({"waiting": {}})), "node"), None);
        let started = json!({"startedAt": "2026-01-01T00:00:00Z"});
        let run = run_of(&pod(json!({"running": started})), "node").unwrap();
        assert_eq!((run.container.as_str(), run.restarts, run.has_ended), ("node", 2, false));
        assert!(run.started_at.is_some());
        let run = run_of(&pod(json!({"terminated": {"exitCode": 0}})), "node").unwrap();
        assert!(run.has_ended);
    }
}
