//! NamespaceLifecycle: nothing is created in a namespace that is not there or is going, and those
//! that the system lives in stay.
//!
//! Upstream: staging/apiserver/pkg/admission/plugin/namespace/lifecycle/admission.go

use async_trait::async_trait;
use serde_json::Value;

use super::{Attributes, Operation, Plugin, lookup};
use crate::persist::stored;
use crate::server::Server;
use crate::status::{About, Cause, Error};

/// Namespaces the system lives in.
const IMMORTAL: [&str; 3] = ["default", "kube-system", "kube-public"];
const NAMESPACES: About<'static> = About { group: "", resource: "namespaces" };

pub struct NamespaceLifecycle;

#[async_trait]
impl Plugin for NamespaceLifecycle {
    fn handles(&self, attributes: &Attributes<'_>) -> bool {
        match attributes.operation {
            Operation::Create => attributes.resource.namespaced && !attributes.namespace.is_empty(),
            Operation::Delete => attributes.is_of("", "namespaces"),
            Operation::Update | Operation::Connect => false,
        }
    }

    async fn mutate(
        &self,
        server: &Server,
        attributes: &Attributes<'_>,
        _object: &mut Value,
    ) -> Result<(), Error> {
        if attributes.operation == Operation::Create {
            return expect_live_namespace(server, attributes).await;
        }
        if IMMORTAL.contains(&attributes.name) {
            let why = "this namespace may not be deleted";
            return Err(Error::forbidden(NAMESPACES, attributes.name, why));
        }
        Ok(())
    }
}

async fn expect_live_namespace(server: &Server, attributes: &Attributes<'_>) -> Result<(), Error> {
    let name = attributes.namespace;
    let namespace = lookup::entry(server, "", "namespaces", ("", name)).await?;
    let namespace = namespace.ok_or_else(|| Error::not_found(NAMESPACES, name))?;
    if !stored(&namespace).is_terminating() {
        return Ok(());
    }
    let why =
        format!("unable to create new content in namespace {name} because it is being terminated");
    let mut error = Error::forbidden(attributes.resource.about(), attributes.name, &why);
    if let Some(details) = &mut error.details {
        details.causes.push(Cause {
            reason: "NamespaceTerminating".to_owned(),
            message: format!("namespace {name} is being terminated"),
            field: "metadata.namespace".to_owned(),
        });
    }
    Err(error)
}
