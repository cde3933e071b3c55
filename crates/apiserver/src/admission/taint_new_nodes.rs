//! TaintNodesByCondition: a new node gets no pods until it is known to be ready.
//!
//! Upstream: plugin/pkg/admission/nodetaint/admission.go

use async_trait::async_trait;
use serde_json::{Value, json};

use super::{Attributes, Plugin};
use crate::registry::edit::{object, set_default, text};
use crate::server::Server;
use crate::status::Error;

const NOT_READY: &str = "node.kubernetes.io/not-ready";

pub fn apply(node: &mut Value) {
    let Some(spec) = object(node, "spec") else { return };
    set_default(spec, "taints", json!([]));
    if let Some(taints) = spec.get_mut("taints").and_then(Value::as_array_mut)
        && !taints.iter().any(|it| text(it, &["key"]) == NOT_READY)
    {
        taints.push(json!({"key": NOT_READY, "effect": "NoSchedule"}));
    }
}

pub struct TaintNewNodes;

#[async_trait]
impl Plugin for TaintNewNodes {
    fn handles(&self, attributes: &Attributes<'_>) -> bool {
        attributes.creates("", "nodes")
    }

    async fn mutate(
        &self,
        _server: &Server,
        _attributes: &Attributes<'_>,
        object: &mut Value,
    ) -> Result<(), Error> {
        apply(object);
        Ok(())
    }
}
