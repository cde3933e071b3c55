//! ServiceAccount: every pod runs as somebody, and gets a token to prove it.
//!
//! Every namespace has an account `default`. Where it does not have it yet, the first pod makes it:
//! upstream lets a controller do that, and the first pods of a namespace wait for it.
//!
//! Upstream: plugin/pkg/admission/serviceaccount/admission.go

pub mod account;
mod references;

use async_trait::async_trait;
use serde_json::{Value, json};
use store::{Commit, Mutation, Operation as Put, Precondition, Provenance};

use super::{Attributes, Operation, Plugin, lookup};
use crate::registry::edit::text;
use crate::server::{Server, store_failure};
use crate::status::Error;
use crate::{ids, object, persist, time};

const DEFAULT: &str = "default";
/// On whose behalf the account is made.
const ACTOR: &str = "system:apiserver";

pub struct ServiceAccount;

#[async_trait]
impl Plugin for ServiceAccount {
    fn handles(&self, attributes: &Attributes<'_>) -> bool {
        let adds_container = attributes.operation == Operation::Update
            && attributes.subresource == "ephemeralcontainers"
            && attributes.resource.plural == "pods";
        attributes.creates("", "pods") || adds_container
    }

    async fn mutate(
        &self,
        server: &Server,
        attributes: &Attributes<'_>,
        object: &mut Value,
    ) -> Result<(), Error> {
        if attributes.operation != Operation::Create {
            return Ok(());
        }
        let name = account::account_of(object).map_err(|why| attributes.refuse(object, &why))?;
        let Some(name) = name else { return Ok(()) };
        let found = find(server, attributes, &name).await?;
        let Some(found) = found else {
            let why = account::missing(attributes.namespace, &name);
            return Err(attributes.refuse(object, &why));
        };
        account::apply(object, &found, &ids::suffix(&*server.environment));
        Ok(())
    }

    async fn validate(
        &self,
        server: &Server,
        attributes: &Attributes<'_>,
        object: &Value,
    ) -> Result<(), Error> {
        let name = text(object, &["spec", "serviceAccountName"]);
        if name.is_empty() {
            return Ok(());
        }
        let Some(found) = find(server, attributes, name).await? else { return Ok(()) };
        references::check(object, &found).map_err(|why| attributes.refuse(object, &why))
    }
}

async fn find(
    server: &Server,
    attributes: &Attributes<'_>,
    name: &str,
) -> Result<Option<Value>, Error> {
    let place = (attributes.namespace, name);
    match lookup::one(server, "", "serviceaccounts", place).await? {
        None if name == DEFAULT => make_default(server, attributes).await,
        found => Ok(found),
    }
}

/// Makes the account that every namespace has; whoever was faster made the same.
async fn make_default(
    server: &Server,
    attributes: &Attributes<'_>,
) -> Result<Option<Value>, Error> {
    let namespace = attributes.namespace;
    let Some(resource) = server.registry.find("", "serviceaccounts") else { return Ok(None) };
    let mut account = json!({
        "apiVersion": "v1", "kind": "ServiceAccount",
        "metadata": {"name": DEFAULT, "namespace": namespace},
    });
    let now = server.environment.now();
    object::set_meta(&mut account, "uid", ids::uuid(&*server.environment));
    object::set_meta(&mut account, "creationTimestamp", time::rfc3339(now));
    if attributes.dry_run {
        return Ok(Some(account));
    }
    let key = resource.key(namespace, DEFAULT)?;
    let mutation = Mutation::Put(persist::encode(&account, &[]));
    let operations = vec![Put { key, mutation, when: Precondition::Absent }];
    let provenance = Provenance::of(now, ACTOR);
    match server.store.commit(Commit { operations, epoch: None, provenance }).await {
        Ok(_) | Err(store::Error::Conflict { .. }) => {}
        Err(error) => return Err(store_failure(error)),
    }
    lookup::one(server, "", "serviceaccounts", (namespace, DEFAULT)).await
}
