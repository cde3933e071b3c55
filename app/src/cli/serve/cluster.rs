//! Requests of the serving commands to a cluster.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use http::Request;
use inference::kinds::{ADAPTER, COMPONENT, GRAPH, POD};
use inference::names;
use inference::value::{list, text};
use reconcile::plan::Target as Seen;
use reconcile::requests::Requests;
use reconcile::{Kind, Name, Object};
use serde_json::{Value, json};

use crate::cli::Context;
use crate::cli::connect::{Target, connect};
use crate::cli::evidence::Reader;
use crate::cli::exit::not_found;
use crate::cli::removal;

/// Who changes graphs.
const MANAGER: &str = "setpoint-serve";
const SERVICE: Kind = inference::kinds::SERVICE;

pub struct Cluster {
    pub requests: Requests,
    /// True if the cluster runs on this machine and shares its files.
    pub is_local: bool,
    /// Data directory of that cluster.
    pub data: Option<PathBuf>,
    pub namespace: String,
}

impl Cluster {
    pub async fn connect(target: &Target) -> Result<Cluster> {
        let requests = connect(target, MANAGER).await?;
        let data = target.local_data()?;
        let is_local = data.is_some();
        let namespace = target.namespace(&requests.client);
        Ok(Cluster { requests, is_local, data, namespace })
    }

    /// The same in another namespace.
    pub fn within(&self, namespace: &str) -> Cluster {
        let (requests, namespace) = (self.requests.clone(), namespace.to_owned());
        Cluster { requests, is_local: self.is_local, data: self.data.clone(), namespace }
    }

    pub fn name(&self, name: &str) -> Name {
        Name::new(self.namespace.as_str(), name)
    }

    pub async fn graph(&self, name: &str) -> Result<Object> {
        let found = self.requests.get(GRAPH, &self.name(name)).await;
        let found = found.with_context(|| format!("could not ask for graph {name}"))?;
        found.ok_or_else(|| {
            let place = &self.namespace;
            not_found(format!("graph {name:?} not found in {place}; see `setpoint serve ls`"))
        })
    }

    pub async fn graphs(&self) -> Result<Vec<Value>> {
        self.items(GRAPH, "").await
    }

    /// The objects of the components of a graph.
    pub async fn components(&self, graph: &str) -> Result<Vec<Value>> {
        let label = names::GRAPH.replace('/', "%2F");
        self.items(COMPONENT, &format!("?labelSelector={label}%3D{graph}")).await
    }

    /// The pods of a graph.
    pub async fn pods(&self, graph: &str) -> Result<Vec<Value>> {
        let label = names::GRAPH.replace('/', "%2F");
        self.items(POD, &format!("?labelSelector={label}%3D{graph}")).await
    }

    /// Reads what explains a graph that does not serve.
    pub fn reader(&self) -> Reader<'_> {
        Reader { client: &self.requests.client, namespace: &self.namespace }
    }

    /// Deletes graphs with their pods.
    pub async fn remove(&self, names: &[String], context: &Context) -> Result<ExitCode> {
        let names: Vec<Name> = names.iter().map(|name| self.name(name)).collect();
        removal::remove_all(&self.requests, GRAPH, &names, context).await
    }

    async fn items(&self, kind: Kind, query: &str) -> Result<Vec<Value>> {
        let path = format!("{}{query}", kind.collection(&self.namespace));
        let read = self.requests.read(&path).await;
        let mut list = read.with_context(|| format!("could not ask for {}", kind.plural))?;
        Ok(list["items"].as_array_mut().map(std::mem::take).unwrap_or_default())
    }

    /// The service of the frontend of a graph, and where it listens.
    pub async fn frontend(&self, graph: &Object) -> Result<Option<(String, String)>> {
        let parts = list(&graph.value["spec"]["components"]);
        let Some(part) = parts.iter().find(|part| part["type"] == "frontend") else {
            return Ok(None);
        };
        let own = format!("{}-{}", graph.name.name, text(&part["name"]).to_lowercase());
        let name = names::service(&own);
        let found = self.requests.get(SERVICE, &self.name(&name)).await;
        let found = found.context("could not ask for the service of the frontend")?;
        Ok(found.map(|service| {
            let address = text(&service.value["spec"]["clusterIP"]).to_owned();
            (name, format!("http://{address}:{}", names::HTTP_PORT))
        }))
    }

    /// Through its adapter, where a component has one.
    pub async fn scale(
        &self,
        name: &str,
        component: &str,
        replicas: u32,
        context: &Context,
    ) -> Result<ExitCode> {
        let graph = self.graph(name).await?;
        let parts = list(&graph.value["spec"]["components"]);
        let at = parts.iter().position(|part| text(&part["name"]).eq_ignore_ascii_case(component));
        let at = at.ok_or_else(|| {
            let names: Vec<&str> = parts.iter().map(|part| text(&part["name"])).collect();
            let names = names.join(", ");
            not_found(format!("graph {name} has no component {component:?}; it has {names}"))
        })?;
        let part = &parts[at];
        let changed = if part["scalingAdapter"].is_object() {
            let adapter = format!("{name}-{}", text(&part["name"]).to_lowercase());
            let found = self.requests.get(ADAPTER, &self.name(&adapter)).await?;
            let found = found.with_context(|| format!("adapter {adapter} is not there yet"))?;
            let patch = json!({"spec": {"replicas": replicas}});
            self.requests.patch(&Seen::of(ADAPTER, &found), &patch).await.map(|_| ())
        } else {
            self.set_replicas(&graph, at, replicas).await
        };
        changed.with_context(|| format!("could not scale {component} of {name}"))?;
        let component = text(&part["name"]);
        context.output.tell(
            &format!("{component} of {name} scaled to {replicas}"),
            &json!({"name": name, "component": component, "replicas": replicas}),
        )?;
        Ok(ExitCode::SUCCESS)
    }

    /// Says of one component alone how many there are to be: the operator writes to the graph at
    /// any time, and what it writes must not stand in the way.
    async fn set_replicas(
        &self,
        graph: &Object,
        at: usize,
        replicas: u32,
    ) -> Result<(), reconcile::Error> {
        let component = format!("/spec/components/{at}");
        let name = &graph.value["spec"]["components"][at]["name"];
        let patch = json!([
            {"op": "test", "path": "/metadata/uid", "value": graph.uid},
            {"op": "test", "path": format!("{component}/name"), "value": name},
            {"op": "add", "path": format!("{component}/replicas"), "value": replicas},
        ]);
        let path = GRAPH.path(&self.namespace, &graph.name.name);
        let request = Request::patch(format!("{path}?fieldManager={MANAGER}"))
            .header("content-type", "application/json-patch+json")
            .body(patch.to_string().into_bytes());
        let answer = match request.map_err(kube::Error::HttpError) {
            Ok(request) => self.requests.client.request::<Value>(request).await,
            Err(error) => Err(error),
        };
        let what = || format!("patch {GRAPH} {}", graph.name);
        answer.map(|_| ()).map_err(|source| reconcile::Error::request(what(), source))
    }
}
