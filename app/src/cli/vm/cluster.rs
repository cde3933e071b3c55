//! The cluster that runs machines, as far as these commands ask it.

use anyhow::{Context as _, Result, bail};
use http::{Method, Request};
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use machines::kinds::{MACHINE, WUKONG};
use machines::provider::subresources::GROUP;
use reconcile::plan::Target;
use reconcile::requests::Requests;
use reconcile::{Kind, Name};
use serde_json::Value;

use super::done::{Done, State};
use crate::cli::connect::{self, connect};
use crate::cli::exit::not_found;

/// Who makes machines.
const MANAGER: &str = "setpoint-vm";

pub struct Cluster {
    pub requests: Requests,
    pub namespace: String,
}

impl Cluster {
    pub async fn connect(target: &connect::Target) -> Result<Cluster> {
        let requests = connect(target, MANAGER).await?;
        let namespace = target.namespace(&requests.client);
        Ok(Cluster { requests, namespace })
    }

    pub fn name(&self, name: &str) -> Name {
        Name::new(self.namespace.as_str(), name)
    }

    /// The name of a machine: its own, or that of the Wukong that it is of. As virtctl has it, its
    /// kind may stand before it.
    pub async fn machine(&self, name: &str) -> Result<String> {
        let name = match name.split_once('/') {
            Some(("vm" | "vms" | "virtualmachine" | "virtualmachines", name)) => name,
            Some(("vmi" | "vmis" | "virtualmachineinstance", name)) => name,
            Some((kind, _)) => bail!("{kind:?} is no kind of machine: vm and vmi are"),
            None => name,
        };
        let asking = || format!("could not ask for machine {name}");
        for candidate in [name.to_owned(), machines::wukong::machine_name(name)] {
            let found = self.requests.get(MACHINE, &self.name(&candidate)).await;
            if found.with_context(asking)?.is_some() {
                return Ok(candidate);
            }
        }
        Err(not_found(format!(
            "machine {name:?} not found in {}; see `setpoint vm ls`",
            self.namespace
        )))
    }

    pub async fn items(&self, kind: Kind) -> Result<Vec<Value>> {
        let read = self.requests.read(&kind.collection(&self.namespace)).await;
        let mut list = read.with_context(|| format!("could not ask for {}", kind.plural))?;
        Ok(list["items"].as_array_mut().map(std::mem::take).unwrap_or_default())
    }

    fn path(&self, resource: &str, name: &str, of: &str) -> String {
        format!("/apis/{GROUP}/v1/namespaces/{}/{resource}/{name}/{of}", self.namespace)
    }

    pub async fn ask_machine(&self, name: &str, of: &'static str, options: &Value) -> Result<Done> {
        let name = self.machine(name).await?;
        self.put(&self.path("virtualmachines", &name, of), options).await?;
        Ok(Done::new(name, of, State::Requested))
    }

    pub async fn ask_instance(&self, name: &str, of: &'static str) -> Result<Done> {
        let name = self.machine(name).await?;
        self.put(&self.path("virtualmachineinstances", &name, of), &Value::Null).await?;
        Ok(Done::new(name, of, State::Done))
    }

    /// Deletes a Wukong, or a machine that is of none.
    pub async fn delete(&self, name: &str) -> Result<Done> {
        let deleting = || format!("could not delete machine {name}");
        for kind in [WUKONG, MACHINE] {
            let found = self.requests.get(kind, &self.name(name)).await.with_context(deleting)?;
            if let Some(found) = found {
                let deleted =
                    self.requests.delete(&Target::of(kind, &found), &Default::default()).await;
                deleted.with_context(deleting)?;
                return Ok(Done::new(name, "delete", State::Requested));
            }
        }
        Err(not_found(format!(
            "machine {name:?} not found in {}; see `setpoint vm ls`",
            self.namespace
        )))
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

    /// Something of the instance of a machine; nothing where the server does not say.
    pub async fn read(&self, machine: &str, of: &str) -> Option<Value> {
        self.requests.read(&self.path("virtualmachineinstances", machine, of)).await.ok()
    }

    /// Both directions of something of the instance of a machine.
    pub async fn open(&self, machine: &str, of: &str) -> Result<TokioIo<Upgraded>> {
        self.join("virtualmachineinstances", machine, of).await
    }

    /// Both directions of something of an object.
    pub async fn join(&self, resource: &str, name: &str, of: &str) -> Result<TokioIo<Upgraded>> {
        let path = self.path(resource, name, of);
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
