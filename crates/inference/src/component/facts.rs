//! What a component says of itself.

use std::sync::LazyLock;

use reconcile::Object;
use serde_json::{Value, json};

use crate::backends::{self, Framework};
use crate::conversion::envelope;
use crate::names;
use crate::settings::{Discovery, Settings};
use crate::value::{find, text};

/// The kinds of components.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    Frontend,
    Worker,
    Prefill,
    Decode,
    Planner,
    Picker,
    Other,
}

impl Type {
    pub fn named(name: &str) -> Type {
        match name {
            "frontend" => Type::Frontend,
            "worker" => Type::Worker,
            "prefill" => Type::Prefill,
            "decode" => Type::Decode,
            "planner" => Type::Planner,
            "epp" => Type::Picker,
            _ => Type::Other,
        }
    }

    /// Whether it runs an engine.
    pub fn is_worker(self) -> bool {
        matches!(self, Type::Worker | Type::Prefill | Type::Decode)
    }
}

/// A DynamoComponentDeployment, read.
pub struct Facts<'a> {
    pub object: &'a Object,
    pub spec: &'a Value,
    /// What only the older version can say.
    pub preserved: Value,
}

impl<'a> Facts<'a> {
    pub fn of(object: &'a Object) -> Facts<'a> {
        let preserved = envelope::kept(&object.value, envelope::COMPONENT);
        Facts { object, spec: &object.value["spec"], preserved }
    }

    pub fn name(&self) -> &str {
        match text(&self.spec["name"]) {
            "" => &self.object.name.name,
            name => name,
        }
    }

    /// The name of its own object.
    pub fn own_name(&self) -> &str {
        &self.object.name.name
    }

    pub fn namespace(&self) -> &str {
        &self.object.name.namespace
    }

    pub fn kind(&self) -> Type {
        Type::named(self.type_name())
    }

    pub fn type_name(&self) -> &str {
        text(&self.spec["type"])
    }

    pub fn graph(&self) -> Option<&str> {
        self.object.label(names::GRAPH)
    }

    /// The graph, or itself if it has none.
    pub fn parent(&self) -> &str {
        self.graph().unwrap_or(self.own_name())
    }

    pub fn dynamo_namespace(&self) -> String {
        let kept = text(&self.preserved["dynamoNamespace"]);
        if !kept.is_empty() {
            return kept.to_owned();
        }
        match self.object.label(names::DYNAMO_NAMESPACE) {
            Some(namespace) => namespace.to_owned(),
            None => dynamo_namespace(self.spec, self.namespace(), self.parent()),
        }
    }

    pub fn template(&self) -> &Value {
        &self.spec["podTemplate"]
    }

    pub fn template_label(&self, name: &str) -> Option<&str> {
        self.template()["metadata"]["labels"][name].as_str()
    }

    pub fn template_annotation(&self, name: &str) -> Option<&str> {
        self.template()["metadata"]["annotations"][name].as_str()
    }

    /// The container that matters, as the user wrote it.
    pub fn main(&self) -> &Value {
        static NONE: LazyLock<Value> = LazyLock::new(|| json!({}));
        find(&self.template()["spec"]["containers"], "name", "main").unwrap_or(&NONE)
    }

    pub fn worker_hash(&self) -> Option<&str> {
        let hash =
            self.template_label(names::WORKER_HASH).or(self.object.label(names::WORKER_HASH));
        hash.filter(|_| self.kind().is_worker())
    }

    pub fn discovery(&self, settings: &Settings) -> Discovery {
        let said = self.template_annotation(names::DISCOVERY_BACKEND);
        match said.or(self.object.annotation(names::DISCOVERY_BACKEND)) {
            Some("etcd") => Discovery::Etcd,
            Some("kubernetes") => Discovery::Kubernetes,
            _ => settings.discovery,
        }
    }

    /// Whether containers and not pods are what is found.
    pub fn finds_containers(&self) -> bool {
        let said = self.template_annotation(names::DISCOVERY_MODE);
        said.or(self.object.annotation(names::DISCOVERY_MODE)) == Some("container")
    }

    /// The pods of one replica.
    pub fn nodes(&self) -> i64 {
        nodes(self.spec)
    }

    pub fn replicas(&self) -> Option<i64> {
        self.spec["replicas"].as_i64()
    }

    pub fn model(&self) -> Option<&str> {
        self.spec["modelRef"]["name"].as_str()
    }

    /// The engine, where it is known.
    pub fn framework(&self) -> Result<Option<Framework>, String> {
        if !self.kind().is_worker() {
            return Ok(None);
        }
        backends::choose(self.main(), text(&self.spec["backendFramework"]))
    }

    /// The kind of worker that its labels say.
    pub fn sub_type(&self) -> Option<&str> {
        match self.kind() {
            Type::Prefill | Type::Decode => Some(self.type_name()),
            _ => self.preserved["subComponentType"].as_str(),
        }
    }
}

/// The pods of one replica of a component.
pub fn nodes(spec: &Value) -> i64 {
    match &spec["multinode"] {
        Value::Object(multinode) => multinode.get("nodeCount").and_then(Value::as_i64).unwrap_or(2),
        _ => 1,
    }
}

/// Where the processes of a component look for each other.
pub fn dynamo_namespace(spec: &Value, namespace: &str, graph: &str) -> String {
    if spec["globalDynamoNamespace"] == true {
        return names::GLOBAL_NAMESPACE.to_owned();
    }
    format!("{namespace}-{}", graph.replace('.', "-"))
}
