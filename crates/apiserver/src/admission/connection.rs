//! Admission of CONNECT: webhooks and policies judge `exec`, `attach`, `portforward` and `proxy` by
//! the options object of the request, such as PodExecOptions.
//!
//! Upstream: apiserver/pkg/endpoints/handlers/rest.go (ConnectResource)

use serde_json::{Map, Value, json};

use super::webhooks::{self, Invoked};
use super::{Attributes, Changed, Operation, policies};
use crate::endpoints::Request;
use crate::server::Server;
use crate::status::Error;

const FLAGS: [&str; 4] = ["stdin", "stdout", "stderr", "tty"];

/// Reports whether a webhook or a policy may judge connections.
pub fn is_judged(server: &Server) -> bool {
    server.webhooks.mutating.current().is_some()
        || server.webhooks.validating.current().is_some()
        || server.policies.all.current().is_some()
}

/// Asks webhooks and policies whether a client may connect. Options that a mutating webhook
/// changed become those of the request.
pub async fn admit(server: &Server, request: &mut Request) -> Result<(), Error> {
    if !is_judged(server) {
        return Ok(());
    }
    let mut options = options_object(request);
    let changed = {
        let attributes = Attributes::of(request, Operation::Connect, None);
        let mut invoked = Invoked::default();
        let changed = webhooks::mutate(server, &attributes, &mut options, &mut invoked).await?;
        if changed == Changed::ByWebhooks {
            let again = invoked.again_over(&options);
            webhooks::mutate(server, &attributes, &mut options, again).await?;
        }
        policies::validate(server, &attributes, &options).await?;
        webhooks::validate(server, &attributes, &options).await?;
        changed
    };
    if changed == Changed::ByWebhooks {
        if request.target.subresource == "proxy" {
            let why = "a mutating webhook changed the options of a proxy request; that is not \
                       supported";
            return Err(Error::unusable(why));
        }
        request.options.all = query(&options);
    }
    Ok(())
}

/// Returns the options of a request as the object that webhooks and policies see.
fn options_object(request: &Request) -> Value {
    let subresource = request.target.subresource.as_str();
    let kind = webhooks::kind_of(&request.resource, subresource).kind;
    let mut object = Map::new();
    object.insert("kind".to_owned(), json!(kind));
    object.insert("apiVersion".to_owned(), json!("v1"));
    let values = |name: &str| -> Vec<&str> {
        let pairs = request.options.all.iter().filter(|(key, _)| key == name);
        pairs.map(|(_, value)| value.as_str()).collect()
    };
    match subresource {
        "proxy" if !request.target.rest.is_empty() => {
            object.insert("path".to_owned(), json!(request.target.rest));
        }
        "proxy" => {}
        "portforward" => {
            let ports = values("ports").into_iter().flat_map(|ports| ports.split(','));
            let ports: Vec<u16> = ports.filter_map(|port| port.parse().ok()).collect();
            object.insert("ports".to_owned(), json!(ports));
        }
        _ => {
            for flag in FLAGS {
                if values(flag).first().is_some_and(|value| matches!(*value, "true" | "1")) {
                    object.insert(flag.to_owned(), json!(true));
                }
            }
            if let Some(container) = values("container").first() {
                object.insert("container".to_owned(), json!(container));
            }
            if subresource == "exec" {
                object.insert("command".to_owned(), json!(values("command")));
            }
        }
    }
    Value::Object(object)
}

/// Returns an options object as the pairs of a query.
fn query(options: &Value) -> Vec<(String, String)> {
    let fields = options.as_object().into_iter().flatten();
    let fields = fields.filter(|(name, _)| !["kind", "apiVersion"].contains(&name.as_str()));
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let mut pairs = Vec::new();
    for (name, value) in fields {
        match value.as_array() {
            Some(values) => pairs.extend(values.iter().map(|one| (name.clone(), text(one)))),
            None => pairs.push((name.clone(), text(value))),
        }
    }
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_options_object_becomes_the_query_that_it_was() {
        let options = json!({"kind": "PodExecOptions", "apiVersion": "v1", "stdin": true,
            "container": "c", "command": ["sh", "-c", "true"]});
        let pairs = query(&options);
        let expected = [
            ("command", "sh"),
            ("command", "-c"),
            ("command", "true"),
            ("container", "c"),
            ("stdin", "true"),
        ];
        assert_eq!(pairs, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
    }
}
