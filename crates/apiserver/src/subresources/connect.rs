//! What needs the machine a pod runs on: logs, commands, streams and proxies.
//!
//! The pod's node is asked, in this process or another. For one that cannot be asked the answer is
//! why not, as precise as can be told from the objects.
//!
//! Upstream: pkg/registry/core/pod/strategy.go (LogLocation, streamLocation)

use std::sync::Arc;

use serde_json::Value;

use super::{log, stream};
use crate::admission::connection;
use crate::answer::Answer;
use crate::endpoints::Request;
use crate::endpoints::write::read;
use crate::object;
use crate::registry::edit::{self, text};
use crate::server::Server;
use crate::status::Error;

pub const NAMES: [&str; 5] = ["attach", "exec", "log", "portforward", "proxy"];

pub async fn answer(server: &Arc<Server>, request: &Request) -> Result<Answer, Error> {
    let mut admitted = request.clone();
    if request.target.subresource != "log" {
        stream::may_create(server, request)?;
        connection::admit(server, &mut admitted).await?;
    }
    let request = &admitted;
    let mut of_object = request.clone();
    of_object.target.subresource.clear();
    let name = of_object.target.name.clone();
    if request.target.subresource == "proxy" {
        // `scheme:name:port` names the object in the middle.
        let parts: Vec<&str> = name.split(':').collect();
        of_object.target.name = match parts[..] {
            [_, name, _] | [name, _] | [name] => name.to_owned(),
            _ => return Err(Error::bad_request(format!("invalid proxy request {name:?}"))),
        };
    }
    let name = &of_object.target.name;
    let current = read(server, &of_object).await?;
    let current = current.ok_or_else(|| Error::not_found(request.resource.about(), name))?;
    let pod = &current.object;
    let answered = match (request.resource.kind.as_str(), request.target.subresource.as_str()) {
        ("Pod", "portforward") => stream::forward(server, request, pod).await,
        ("Pod", "log" | "exec" | "attach")
            if container_fault(request.options.get("container"), pod).is_some() =>
        {
            None
        }
        ("Pod", "log") => log::answer(server, request, pod).await,
        ("Pod", "exec" | "attach") => stream::program(server, request, pod).await,
        _ => None,
    };
    if let Some(answer) = answered {
        return answer;
    }
    Err(match request.resource.kind.as_str() {
        "Pod" => of_pod(request, &current.object),
        "Service" => Error::unavailable(format!("no endpoints available for service {name:?}")),
        _ => not_connected(name),
    })
}

/// Why a pod cannot be reached.
fn of_pod(request: &Request, pod: &Value) -> Error {
    let name = object::name(pod);
    if ["attach", "exec", "log"].contains(&request.target.subresource.as_str())
        && let Some(error) = container_fault(request.options.get("container"), pod)
    {
        return error;
    }
    match text(pod, &["spec", "nodeName"]) {
        "" => Error::bad_request(format!("pod {name} does not have a host assigned")),
        node => not_connected(node),
    }
}

fn not_connected(node: &str) -> Error {
    Error::unavailable(format!("node {node:?} is not connected to this server"))
}

/// The container that is meant, of a request without a fault.
pub fn container<'a>(request: &'a Request, pod: &'a Value) -> &'a str {
    let named = request.options.get("container").filter(|name| !name.is_empty());
    let default = ["metadata", "annotations", "kubectl.kubernetes.io/default-container"];
    match (named, text(pod, &default)) {
        (Some(named), _) => named,
        (None, "") => edit::list(pod, &["spec", "containers"])
            .first()
            .map_or("", |first| text(first, &["name"])),
        (None, default) => default,
    }
}

/// One container must be meant.
fn container_fault(wanted: Option<&str>, pod: &Value) -> Option<Error> {
    let name = object::name(pod);
    let names = |kind: &str| -> Vec<String> {
        let containers = edit::list(pod, &["spec", kind]).iter();
        containers.map(|it| text(it, &["name"]).to_owned()).collect()
    };
    let containers = names("containers");
    let (init, ephemeral) = (names("initContainers"), names("ephemeralContainers"));
    match wanted.unwrap_or_default() {
        "" => {
            let default = ["metadata", "annotations", "kubectl.kubernetes.io/default-container"];
            if containers.len() <= 1 || containers.iter().any(|it| it == text(pod, &default)) {
                return None;
            }
            let mut message = format!(
                "a container name must be specified for pod {name}, choose one of: [{}]",
                containers.join(" ")
            );
            if !init.is_empty() {
                message += &format!(" or one of the init containers: [{}]", init.join(" "));
            }
            Some(Error::bad_request(message))
        }
        wanted => {
            let known = [containers, init, ephemeral].concat().iter().any(|it| it == wanted);
            let text = || format!("container {wanted} is not valid for pod {name}");
            (!known).then(|| Error::bad_request(text()))
        }
    }
}
