//! The cluster that trains, as far as these commands ask it.

use std::fmt;
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use futures::AsyncBufReadExt;
use http::Request;
use reconcile::plan::Target as Seen;
use reconcile::requests::Requests;
use reconcile::{Error, Kind, Name, Object, conditions};
use serde::Serialize;
use serde_json::{Value, json};
use training::kinds::TRAIN_JOB;

use crate::cli::Context;
use crate::cli::connect::{Target, connect};

const EVENT: Kind = Kind::namespaced("", "v1", "Event", "events");
pub const POD: Kind = Kind::namespaced("", "v1", "Pod", "pods");
/// Who changes jobs.
const MANAGER: &str = "setpoint-train";
const JOB_SET_NAME: &str = "jobset.sigs.k8s.io/jobset-name";

#[derive(Clone)]
pub struct Cluster {
    pub requests: Requests,
    /// Whether it is the one of the data directory, so that its node is this machine.
    pub is_local: bool,
    pub namespace: String,
}

impl Cluster {
    pub async fn connect(target: &Target) -> Result<Cluster> {
        let requests = connect(target, MANAGER).await?;
        let is_local = target.kubeconfig.is_none();
        Ok(Cluster { requests, is_local, namespace: target.namespace.clone() })
    }

    pub fn name(&self, name: &str) -> Name {
        Name::new(self.namespace.as_str(), name)
    }

    pub async fn job(&self, name: &str) -> Result<Object> {
        let found = self.requests.get(TRAIN_JOB, &self.name(name)).await;
        let found = found.map_err(|error| self.explained(&error))?;
        found.with_context(|| {
            format!("there is no TrainJob {name:?} in {}; see `setpoint train ls`", self.namespace)
        })
    }

    pub async fn jobs(&self) -> Result<Vec<Value>> {
        let path = TRAIN_JOB.collection(&self.namespace);
        let list = self.requests.read(&path).await;
        let mut list = list.map_err(|error| self.explained(&error))?;
        Ok(list["items"].as_array_mut().map(std::mem::take).unwrap_or_default())
    }

    /// The pods of a job, in the order of their names.
    pub async fn pods(&self, job: &str) -> Result<Vec<Value>> {
        let collection = POD.collection(&self.namespace);
        let path = format!("{collection}?labelSelector={}%3D{job}", escaped(JOB_SET_NAME));
        let mut list = self.requests.read(&path).await.context("could not ask for pods")?;
        Ok(list["items"].as_array_mut().map(std::mem::take).unwrap_or_default())
    }

    /// Hands every line of a container's output to a function, until there are no more.
    pub async fn log_lines(
        &self,
        pod: &str,
        container: &str,
        query: &str,
        mut line_of: impl FnMut(&str),
    ) -> Result<()> {
        let path = format!("{}/log?container={container}{query}", POD.path(&self.namespace, pod));
        let request = Request::get(path).body(Vec::new())?;
        let stream = self.requests.client.request_stream(request).await;
        let mut stream = std::pin::pin!(stream.context("could not ask for the output")?);
        let mut line = String::new();
        loop {
            line.clear();
            match stream.read_line(&mut line).await {
                Ok(0) => return Ok(()),
                Ok(_) => line_of(line.trim_end_matches('\n')),
                Err(error) => return Err(error).context("the output broke off"),
            }
        }
    }

    /// What stands in the way of a job, as far as anybody has noticed: one line each.
    pub async fn obstacles(&self, name: &str, pods: &[Value]) -> Result<Vec<String>> {
        let collection = EVENT.collection(&self.namespace);
        let of_job = format!("involvedObject.name%3D{name},type%3DWarning");
        let path = format!("{collection}?fieldSelector={of_job}");
        let list = self.requests.read(&path).await.context("could not ask for events")?;
        let events = list["items"].as_array().into_iter().flatten();
        let events = events.filter(|event| event["involvedObject"]["kind"] != "Pod");
        let mut lines: Vec<String> =
            events.filter_map(|event| event["message"].as_str().map(str::to_owned)).collect();
        lines.extend(pods.iter().filter_map(obstacle));
        lines.dedup();
        Ok(lines)
    }

    /// An answer of the server, and what to do where that is not plain.
    pub fn explained(&self, error: &Error) -> anyhow::Error {
        match error.code() {
            Some(404) if error.said().contains("could not find the requested resource") => {
                anyhow::anyhow!("the cluster knows no TrainJobs; does its part `training` run?")
            }
            Some(_) => anyhow::anyhow!(error.said()),
            None => anyhow::anyhow!("the cluster does not answer: {}", error.chain()),
        }
    }

    pub async fn suspend(&self, name: &str, suspend: bool, context: &Context) -> Result<ExitCode> {
        let job = self.job(name).await?;
        let patch = json!({"spec": {"suspend": suspend}});
        let changed = self.requests.patch(&Seen::of(TRAIN_JOB, &job), &patch).await;
        changed.with_context(|| format!("could not change TrainJob {name}"))?;
        context.output.print(&Suspended { name: name.to_owned(), suspended: suspend })?;
        Ok(ExitCode::SUCCESS)
    }
}

#[derive(Serialize)]
struct Suspended {
    name: String,
    suspended: bool,
}

impl fmt::Display for Suspended {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let does = if self.suspended { "is held" } else { "goes on" };
        write!(formatter, "{} {does}", self.name)
    }
}

/// Why a pod does not run yet, if it says so.
fn obstacle(pod: &Value) -> Option<String> {
    let name = pod["metadata"]["name"].as_str()?;
    if let Some(condition) = conditions::find(&pod["status"], "PodScheduled")
        && condition["status"] == "False"
    {
        return Some(format!("{name}: {}", condition["message"].as_str()?));
    }
    let statuses = ["initContainerStatuses", "containerStatuses"];
    let containers = statuses.iter().flat_map(|field| pod["status"][*field].as_array());
    let mut waiting = containers.flatten().map(|one| &one["state"]["waiting"]);
    let waiting = waiting.find(|one| one["message"].is_string())?;
    Some(format!("{name}: {}: {}", waiting["reason"].as_str()?, waiting["message"].as_str()?))
}

fn escaped(text: &str) -> String {
    text.replace('/', "%2F")
}
