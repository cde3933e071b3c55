//! The cluster that trains, as far as these commands ask it.

use std::process::ExitCode;

use anyhow::{Context as _, Result};
use futures::AsyncBufReadExt;
use http::Request;
use reconcile::plan::Target as Seen;
use reconcile::requests::Requests;
use reconcile::{Kind, Name, Object};
use serde_json::{Value, json};
use training::kinds::TRAIN_JOB;

use crate::cli::connect::{Target, connect};

pub const POD: Kind = Kind::namespaced("", "v1", "Pod", "pods");
/// Who changes jobs.
const MANAGER: &str = "setpoint-train";
const JOB_SET_NAME: &str = "jobset.sigs.k8s.io/jobset-name";

#[derive(Clone)]
pub struct Cluster {
    pub requests: Requests,
    pub namespace: String,
}

impl Cluster {
    pub async fn connect(target: &Target) -> Result<Cluster> {
        let requests = connect(target, MANAGER).await?;
        Ok(Cluster { requests, namespace: target.namespace.clone() })
    }

    pub fn name(&self, name: &str) -> Name {
        Name::new(self.namespace.as_str(), name)
    }

    pub async fn job(&self, name: &str) -> Result<Object> {
        let found = self.requests.get(TRAIN_JOB, &self.name(name)).await;
        let found = found.with_context(|| format!("could not ask for TrainJob {name}"))?;
        found.with_context(|| {
            format!("there is no TrainJob {name:?} in {}; see `setpoint train ls`", self.namespace)
        })
    }

    pub async fn jobs(&self) -> Result<Vec<Value>> {
        let path = TRAIN_JOB.collection(&self.namespace);
        let mut list = self.requests.read(&path).await.context("could not ask for TrainJobs")?;
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

    pub async fn suspend(&self, name: &str, suspend: bool) -> Result<ExitCode> {
        let job = self.job(name).await?;
        let patch = json!({"spec": {"suspend": suspend}});
        let changed = self.requests.patch(&Seen::of(TRAIN_JOB, &job), &patch).await;
        changed.with_context(|| format!("could not change TrainJob {name}"))?;
        println!("{name} {}", if suspend { "is held" } else { "goes on" });
        Ok(ExitCode::SUCCESS)
    }
}

fn escaped(text: &str) -> String {
    text.replace('/', "%2F")
}
