//! What a graph says of itself.

use reconcile::Object;
use serde_json::Value;

use crate::component::{Type, dynamo_namespace, nodes};
use crate::conversion::envelope;
use crate::names;
use crate::value::{list, text};

/// A DynamoGraphDeployment, read.
pub struct Graph<'a> {
    pub object: &'a Object,
    pub spec: &'a Value,
    /// What only the older version can say.
    pub preserved: Value,
}

impl<'a> Graph<'a> {
    pub fn of(object: &'a Object) -> Graph<'a> {
        let preserved = envelope::kept(&object.value, envelope::GRAPH);
        Graph { object, spec: &object.value["spec"], preserved }
    }

    pub fn name(&self) -> &str {
        &self.object.name.name
    }

    pub fn namespace(&self) -> &str {
        &self.object.name.namespace
    }

    pub fn status(&self) -> &Value {
        &self.object.value["status"]
    }

    pub fn components(&self) -> impl Iterator<Item = Part<'a>> {
        list(&self.spec["components"]).iter().map(Part)
    }

    pub fn workers(&self) -> impl Iterator<Item = Part<'a>> {
        self.components().filter(Part::is_worker)
    }

    pub fn is_multinode(&self) -> bool {
        self.components().any(|part| nodes(part.0) > 1)
    }

    /// Components that start one after the other, in that order; the others start at once.
    pub fn start_order(&self) -> Vec<Part<'a>> {
        let named = |name: &str| {
            self.components().find(|part| part.name().eq_ignore_ascii_case(name.trim()))
        };
        let order = self.object.annotation(names::START_ORDER).unwrap_or_default();
        order.split(',').filter_map(named).collect()
    }

    pub fn picker(&self) -> Option<Part<'a>> {
        self.components().find(|part| part.kind() == Type::Picker)
    }

    pub fn current_hash(&self) -> Option<&str> {
        self.object.annotation(names::CURRENT_HASH)
    }

    pub fn provider(&self) -> Option<&str> {
        self.object.annotation(names::PROVIDER)
    }

    /// Where the processes of a component look for each other.
    pub fn dynamo_namespace(&self, part: &Part<'_>) -> String {
        dynamo_namespace(part.0, self.namespace(), self.name())
    }
}

/// A component of a graph, as the graph says it.
#[derive(Clone, Copy)]
pub struct Part<'a>(pub &'a Value);

impl<'a> Part<'a> {
    pub fn name(&self) -> &'a str {
        text(&self.0["name"])
    }

    pub fn kind(&self) -> Type {
        Type::named(text(&self.0["type"]))
    }

    pub fn is_worker(&self) -> bool {
        self.kind().is_worker()
    }

    pub fn replicas(&self) -> i64 {
        self.0["replicas"].as_i64().unwrap_or(1)
    }

    pub fn has_adapter(&self) -> bool {
        self.0["scalingAdapter"].is_object()
    }

    /// The name of what the graph makes for it, without a hash.
    pub fn child_name(&self, graph: &str) -> String {
        format!("{graph}-{}", self.name().to_lowercase())
    }
}
