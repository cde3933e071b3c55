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
    let bound = bound_object(server, request, &body).await?;
    let find = |_: BoundKind, _: &str| bound.clone();
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

/// The object that the token is to be bound to, if any.
async fn bound_object(
    server: &Server,
    request: &Request,
    body: &Value,
) -> Result<Option<Value>, Error> {
    let reference = &body["spec"]["boundObjectRef"];
    let (plural, namespace) = match reference["kind"].as_str() {
        Some("Pod") => ("pods", request.target.namespace.as_str()),
        Some("Secret") => ("secrets", request.target.namespace.as_str()),
        Some("Node") => ("nodes", ""),
        _ => return Ok(None),
    };
    let name = reference["name"].as_str().unwrap_or_default();
    let Some(resource) = server.registry.find("", plural) else { return Ok(None) };
    let key = resource.key(namespace, name)?;
    let entry = server.store.get(&key, None).await.map_err(store_failure)?;
    Ok(entry.map(|entry| stored(&entry).object(entry.modified)))
}
