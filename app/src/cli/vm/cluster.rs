//! The cluster that runs machines, as far as these commands ask it.

use anyhow::{Context as _, Result, bail};
use http::{Method, Request};
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use machines::kinds::MACHINE;
use machines::provider::subresources::GROUP;
use reconcile::requests::Requests;
use reconcile::{Kind, Name};
use serde_json::Value;

use crate::cli::connect::{Target, connect};

/// Who makes machines.
const MANAGER: &str = "setpoint-vm";

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

    /// The name of a machine: its own, or that of the Wukong that it is of.
    pub async fn machine(&self, name: &str) -> Result<String> {
        let asking = || format!("could not ask for machine {name}");
        for candidate in [name.to_owned(), machines::wukong::machine_name(name)] {
            let found = self.requests.get(MACHINE, &self.name(&candidate)).await;
            if found.with_context(asking)?.is_some() {
                return Ok(candidate);
            }
        }
        bail!("there is no machine {name:?} in {}; see `setpoint vm ls`", self.namespace)
    }

    pub async fn items(&self, kind: Kind) -> Result<Vec<Value>> {
        let read = self.requests.read(&kind.collection(&self.namespace)).await;
        let mut list = read.with_context(|| format!("could not ask for {}", kind.plural))?;
        Ok(list["items"].as_array_mut().map(std::mem::take).unwrap_or_default())
    }

    fn path(&self, resource: &str, name: &str, of: &str) -> String {
        format!("/apis/{GROUP}/v1/namespaces/{}/{resource}/{name}/{of}", self.namespace)
    }

    pub async fn ask_machine(&self, name: &str, of: &str, options: &Value) -> Result<()> {
        let name = self.machine(name).await?;
        self.put(&self.path("virtualmachines", &name, of), options).await?;
        println!("{name}: {of} was asked for");
        Ok(())
    }

    pub async fn ask_instance(&self, name: &str, of: &str) -> Result<()> {
        let name = self.machine(name).await?;
        self.put(&self.path("virtualmachineinstances", &name, of), &Value::Null).await?;
        println!("{name}: {of} is done");
        Ok(())
    }

    async fn put(&self, path: &str, options: &Value) -> Result<()> {
        let body = match options {
            Value::Null => Vec::new(),
            options => serde_json::to_vec(options)?,
        };
        let request = Request::builder().method(Method::PUT).uri(path);
        let request = request.header("content-type", "application/json").body(body)?;
        match self.requests.client.request_text(request).await {
            Err(kube::Error::Api(refused)) => bail!("{}", refused.message),
            answer => answer.map(drop).context("could not ask the server"),
        }
    }

    /// Both directions of something of the instance of a machine.
    pub async fn open(&self, machine: &str, of: &str) -> Result<TokioIo<Upgraded>> {
        let path = self.path("virtualmachineinstances", machine, of);
        let request = Request::get(path).header("connection", "Upgrade").header("upgrade", "tcp");
        let request = request.body(kube::client::Body::empty())?;
        let answer = self.requests.client.send(request).await?;
        if answer.status() != http::StatusCode::SWITCHING_PROTOCOLS {
            use http_body_util::BodyExt;
            let said = answer.into_body().collect().await?.to_bytes();
            let said: Value = serde_json::from_slice(&said).unwrap_or_default();
            bail!("{}", said["message"].as_str().unwrap_or("the server did not connect"));
        }
        Ok(TokioIo::new(hyper::upgrade::on(answer).await?))
    }
}
