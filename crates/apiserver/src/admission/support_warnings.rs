//! Warns of kinds and fields that this cluster stores without acting on them, as the support table
//! says (`support/table.txt`).

use std::collections::BTreeSet;

use async_trait::async_trait;
use serde_json::Value;

use super::{Attributes, Operation, Plugin, lookup};
use crate::server::Server;
use crate::status::Error;
use crate::support::{self, NO_INGRESS_CLASS, NO_LOAD_BALANCER_CLASS};

pub struct SupportWarnings;

#[async_trait]
impl Plugin for SupportWarnings {
    fn handles(&self, attributes: &Attributes<'_>) -> bool {
        let is_write = matches!(attributes.operation, Operation::Create | Operation::Update);
        is_write && attributes.subresource.is_empty() && support::concerns(&kind(attributes))
    }

    async fn validate(
        &self,
        server: &Server,
        attributes: &Attributes<'_>,
        object: &Value,
    ) -> Result<(), Error> {
        // An update that changes nothing of the specification was warned of before.
        if attributes.old.is_some_and(|old| old["spec"] == object["spec"]) {
            return Ok(());
        }
        let kind = kind(attributes);
        let mut holds: BTreeSet<&str> =
            server.beside.running_components().iter().copied().collect();
        if kind == "networking.k8s.io/Ingress" && !has_ingress_class(server, object).await? {
            holds.insert(NO_INGRESS_CLASS);
        }
        if object["spec"]["loadBalancerClass"].is_null() {
            holds.insert(NO_LOAD_BALANCER_CLASS);
        }
        for warning in support::warnings(&kind, object, &holds) {
            attributes.warnings.add(warning);
        }
        Ok(())
    }
}

fn kind(attributes: &Attributes<'_>) -> String {
    support::kind_name(&attributes.resource.group, &attributes.resource.kind)
}

/// An installed ingress controller brings an IngressClass.
async fn has_ingress_class(server: &Server, ingress: &Value) -> Result<bool, Error> {
    let Some(name) = ingress["spec"]["ingressClassName"].as_str() else { return Ok(false) };
    let at = ("", name);
    Ok(lookup::entry(server, "networking.k8s.io", "ingressclasses", at).await?.is_some())
}
