//! `serviceaccounts/token`: a token for whoever runs as the account.

use serde_json::Value;

use crate::admission::webhooks::admit_posted;
use crate::answer::Answer;
use crate::endpoints::Request;
use crate::endpoints::write::{decode_as, read};
use crate::facts;
use crate::identity::token_requests::{self, BoundKind, token_request};
use crate::persist::stored;
use crate::server::{Server, store_failure};
use crate::status::Error;

pub async fn create(server: &Server, request: &Request) -> Result<Answer, Error> {
    let of = facts::type_by_name("io.k8s.api.authentication.v1.TokenRequest")
        .ok_or_else(Error::no_such_resource)?;
    let mut body = decode_as(request, of)?;
    let account = read(server, request).await?;
    let account =
        account.ok_or_else(|| Error::not_found(request.resource.about(), &request.target.name))?;
    admit_posted(server, request, &mut body).await?;
    let bound = Bound::load(server, request, &body).await?;
    let find = |kind: BoundKind, _: &str| match kind {
        BoundKind::Node if bound.is_pod => bound.node.clone(),
        BoundKind::Pod | BoundKind::Secret | BoundKind::Node => bound.object.clone(),
    };
    let granted = token_request(
        &server.tokens,
        &token_requests::Request {
            body: &body,
            account: &account.object,
            find: &find,
            now: server.now(),
        },
    )?;
    granted.warnings.iter().for_each(|warning| request.warnings.add(warning));
    Ok(Answer::value(201, &granted.object))
}

/// Objects that a token is bound to.
struct Bound {
    /// Object that the request names, if any.
    object: Option<Value>,
    is_pod: bool,
    /// Node of a pod that has one.
    node: Option<Value>,
}

impl Bound {
    async fn load(server: &Server, request: &Request, body: &Value) -> Result<Bound, Error> {
        let reference = &body["spec"]["boundObjectRef"];
        let namespace = request.target.namespace.as_str();
        let (plural, namespace) = match reference["kind"].as_str() {
            Some("Pod") => ("pods", namespace),
            Some("Secret") => ("secrets", namespace),
            Some("Node") => ("nodes", ""),
            _ => return Ok(Bound { object: None, is_pod: false, node: None }),
        };
        let name = reference["name"].as_str().unwrap_or_default();
        let is_pod = plural == "pods";
        let object = find(server, plural, (namespace, name)).await?;
        let node_name = object.as_ref().and_then(|pod| pod["spec"]["nodeName"].as_str());
        let node = match node_name.filter(|name| is_pod && !name.is_empty()) {
            Some(name) => find(server, "nodes", ("", name)).await?,
            None => None,
        };
        Ok(Bound { object, is_pod, node })
    }
}

async fn find(
    server: &Server,
    plural: &str,
    (namespace, name): (&str, &str),
) -> Result<Option<Value>, Error> {
    let Some(resource) = server.registry.find("", plural) else { return Ok(None) };
    let key = resource.key(namespace, name)?;
    let entry = server.store.get(&key, None).await.map_err(store_failure)?;
    Ok(entry.map(|entry| stored(&entry).object(entry.modified)))
}
