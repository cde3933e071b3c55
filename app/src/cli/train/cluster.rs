//! Requests of the training commands to a cluster.

use std::fmt;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use reconcile::plan::Target as Seen;
use reconcile::requests::Requests;
use reconcile::{Error, Kind, Name, Object, conditions};
use serde::Serialize;
use serde_json::{Value, json};
use training::kinds::{CLUSTER_TRAINING_RUNTIME, TRAIN_JOB};

use super::show;
use crate::cli::Context;
use crate::cli::connect::{Chosen, Target, connect};
use crate::cli::evidence::Reader;
use crate::cli::exit::{not_found, said};
use crate::cli::log_stream::Source;
use crate::cli::removal;
use crate::instance::Instance;
use crate::python::Python;

const EVENT: Kind = Kind::namespaced("", "v1", "Event", "events");
/// Reason of the event and condition for failed Jobs.
pub const FAILED_JOBS: &str = "FailedJobs";
const JOB: Kind = Kind::namespaced("batch", "v1", "Job", "jobs");
pub const POD: Kind = Kind::namespaced("", "v1", "Pod", "pods");
/// Who changes jobs.
const MANAGER: &str = "setpoint-train";
/// How often, and how many times, a cluster is looked at that has just been started.
const LOOK: Duration = Duration::from_millis(100);
const LOOKS_MAX: u32 = 100;
pub const JOB_SET_NAME: &str = "jobset.sigs.k8s.io/jobset-name";

#[derive(Clone)]
pub struct Cluster {
    pub requests: Requests,
    /// Whether it is the one of the data directory, so that its node is this machine.
    pub is_local: bool,
    /// Its data directory, if it is that one.
    pub data: Option<PathBuf>,
    pub namespace: String,
    /// Python of its pods, if its server runs on this machine.
    pub python: Option<Python>,
}

impl Cluster {
    pub async fn connect(target: &Target) -> Result<Cluster> {
        let requests = connect(target, MANAGER).await?;
        let data = target.local_data()?;
        let is_local = data.is_some();
        let python = python_of(target)?;
        let namespace = target.namespace(&requests.client);
        let cluster = Cluster { requests, is_local, data, namespace, python };
        cluster.until_served().await?;
        Ok(cluster)
    }

    /// Waits a little for a cluster that has just been started: its kinds come soon after it.
    async fn until_served(&self) -> Result<()> {
        let path = format!("{}?limit=1", TRAIN_JOB.collection(&self.namespace));
        let mut looks = 0;
        loop {
            match self.requests.read(&path).await {
                Ok(_) => return Ok(()),
                Err(error) if error.is_not_found() && looks < LOOKS_MAX => looks += 1,
                Err(error) if error.is_not_found() => {
                    bail!("the cluster has no TrainJob API; is its training operator running?")
                }
                Err(error) => return Err(self.explained(&error)),
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// The same for a runtime that comes with the operator.
    pub async fn until_runtime(&self, name: &str) -> Result<()> {
        for _ in 0..LOOKS_MAX {
            let found = self.requests.get(CLUSTER_TRAINING_RUNTIME, &Name::new("", name)).await;
            if found.map_err(|error| self.explained(&error))?.is_some() {
                break;
            }
            tokio::time::sleep(LOOK).await;
        }
        // Whoever uses it is told by the server that it is not there.
        Ok(())
    }

    pub fn name(&self, name: &str) -> Name {
        Name::new(self.namespace.as_str(), name)
    }

    pub async fn job(&self, name: &str) -> Result<Object> {
        let found = self.requests.get(TRAIN_JOB, &self.name(name)).await;
        let found = found.map_err(|error| self.explained(&error))?;
        found.ok_or_else(|| self.no_job(name))
    }

    pub fn no_job(&self, name: &str) -> anyhow::Error {
        let place = &self.namespace;
        not_found(format!("TrainJob {name:?} not found in {place}; see `setpoint train ls`"))
    }

    /// A job, if it is there, with its pods: for whoever decides which errors to bear.
    pub async fn look(&self, name: &str) -> Result<Option<(Object, Vec<Value>)>, Error> {
        let Some(job) = self.requests.get(TRAIN_JOB, &self.name(name)).await? else {
            return Ok(None);
        };
        let pods = self.read_pods(name).await?;
        Ok(Some((job, pods)))
    }

    pub async fn jobs(&self) -> Result<Vec<Value>> {
        let path = TRAIN_JOB.collection(&self.namespace);
        let list = self.requests.read(&path).await;
        let mut list = list.map_err(|error| self.explained(&error))?;
        Ok(list["items"].as_array_mut().map(std::mem::take).unwrap_or_default())
    }

    /// The pods of a job, in the order of their names.
    pub async fn pods(&self, job: &str) -> Result<Vec<Value>> {
        self.read_pods(job).await.context("could not ask for pods")
    }

    async fn read_pods(&self, job: &str) -> Result<Vec<Value>, Error> {
        let collection = POD.collection(&self.namespace);
        let path = format!("{collection}?labelSelector={}%3D{job}", escaped(JOB_SET_NAME));
        let mut list = self.requests.read(&path).await?;
        Ok(list["items"].as_array_mut().map(std::mem::take).unwrap_or_default())
    }

    /// The Jobs of a TrainJob; none if they may not be listed.
    pub async fn batch_jobs(&self, job: Option<&str>) -> Vec<Value> {
        let selector = match job {
            Some(job) => format!("{}%3D{job}", escaped(JOB_SET_NAME)),
            None => escaped(JOB_SET_NAME),
        };
        let path = format!("{}?labelSelector={selector}", JOB.collection(&self.namespace));
        let mut list = self.requests.read(&path).await.unwrap_or_default();
        list["items"].as_array_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Output of a container of this namespace.
    pub fn source(&self, pod: &str, container: &str) -> Source {
        let (namespace, pod, container) =
            (self.namespace.clone(), pod.to_owned(), container.to_owned());
        Source { namespace, pod, container, ..Source::default() }
    }

    /// Reads what explains a job that does not run.
    pub fn reader(&self) -> Reader<'_> {
        Reader { client: &self.requests.client, namespace: &self.namespace }
    }

    /// Deletes jobs with their pods.
    pub async fn remove(&self, names: &[String], context: &Context) -> Result<ExitCode> {
        let names: Vec<Name> = names.iter().map(|name| self.name(name)).collect();
        removal::remove_all(&self.requests, TRAIN_JOB, &names, context).await
    }

    /// What stands in the way of a job, as far as anybody has noticed: one line each.
    pub async fn obstacles(&self, name: &str, pods: &[Value]) -> Result<Vec<String>> {
        let collection = EVENT.collection(&self.namespace);
        let of_job = format!("involvedObject.name%3D{name},type%3DWarning");
        let path = format!("{collection}?fieldSelector={of_job}");
        let list = self.requests.read(&path).await.context("could not ask for events")?;
        let events = list["items"].as_array().into_iter().flatten();
        // The message of failed Jobs names a Job, which reads like another rank.
        let events = events.filter(|event| {
            event["involvedObject"]["kind"] != "Pod" && event["reason"] != FAILED_JOBS
        });
        let mut lines: Vec<String> =
            events.filter_map(|event| event["message"].as_str().map(str::to_owned)).collect();
        lines.extend(pods.iter().filter_map(obstacle));
        lines.dedup();
        Ok(lines)
    }

    /// An answer of the server, and what to do where that is not plain.
    pub fn explained(&self, error: &Error) -> anyhow::Error {
        match error.code() {
            Some(code) => said(code, error.said()),
            None => anyhow::anyhow!("could not reach the cluster: {}", error.chain()),
        }
    }

    pub async fn suspend(&self, name: &str, suspend: bool, context: &Context) -> Result<ExitCode> {
        let job = self.job(name).await?;
        let state = show::state(&job.value);
        if show::is_over(state) {
            bail!("{name} is {state}; only a job that has not ended can be suspended or resumed");
        }
        let patch = json!({"spec": {"suspend": suspend}});
        let changed = self.requests.patch(&Seen::of(TRAIN_JOB, &job), &patch).await;
        changed.with_context(|| format!("could not change TrainJob {name}"))?;
        context.output.print(&Suspended { name: name.to_owned(), suspended: suspend })?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Returns the Python of pods of a cluster whose server runs on this host.
pub fn python_of(target: &Target) -> Result<Option<Python>> {
    let Chosen::Local(kubeconfig) = target.choose()? else { return Ok(None) };
    let instance = kubeconfig.parent().and_then(|data| Instance::running(data).ok().flatten());
    Ok(instance.and_then(|instance| instance.python))
}

#[derive(Serialize)]
struct Suspended {
    name: String,
    suspended: bool,
}

impl fmt::Display for Suspended {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let does = if self.suspended { "suspended" } else { "resumed" };
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
