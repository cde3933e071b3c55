//! `pods/exec`, `pods/attach` and `pods/portforward`: what is asked for, and of which node.
//!
//! Upstream: pkg/registry/core/pod/rest/subresources.go, pkg/registry/core/pod/strategy.go

use std::sync::Arc;

use link::{ProgramRequest, Streams};
use serde_json::Value;

use super::connect;
use crate::answer::Answer;
use crate::endpoints::Request;
use crate::object;
use crate::rbac::Attributes;
use crate::registry::edit::text;
use crate::server::Server;
use crate::status::Error;
use crate::streams::{self, Deed, PORTS_MAX, Target};

/// Words of a command.
const WORDS_MAX: usize = 4_096;

/// A program beside a container, or the container's own. `None` if the node cannot be asked.
pub async fn program(
    server: &Arc<Server>,
    request: &Request,
    pod: &Value,
) -> Option<Result<Answer, Error>> {
    let node = server.node(text(pod, &["spec", "nodeName"])).await?;
    let answer = async {
        let wanted = wanted(request, pod)?;
        let runs = node.runs(&wanted.pod, &wanted.container).await;
        if !runs.map_err(Error::unavailable)? {
            return Err(not_there(request, pod, &wanted.container));
        }
        streams::answer(server, request, (node, Deed::Program(wanted)))
    };
    Some(answer.await)
}

/// Connections to ports of the pod. `None` if the node cannot be asked.
pub async fn forward(
    server: &Arc<Server>,
    request: &Request,
    pod: &Value,
) -> Option<Result<Answer, Error>> {
    let node = server.node(text(pod, &["spec", "nodeName"])).await?;
    let answer = || {
        let target = Target {
            pod: text(pod, &["metadata", "uid"]).to_owned(),
            name: object::name(pod).to_owned(),
            address: text(pod, &["status", "podIP"]).to_owned(),
            ports: ports(request)?,
        };
        streams::answer(server, request, (node, Deed::Forward(target)))
    };
    Some(answer())
}

/// A WebSocket begins with a GET, but reading is not what it is for.
pub(super) fn may_create(server: &Server, request: &Request) -> Result<(), Error> {
    if !request.upgrade.as_ref().is_some_and(streams::handshake::Upgrade::is_websocket) {
        return Ok(());
    }
    let target = &request.target;
    let attributes = Attributes {
        verb: "create",
        group: &target.group,
        resource: &target.resource,
        subresource: &target.subresource,
        namespace: &target.namespace,
        name: &target.name,
        path: None,
    };
    server.decide(&request.user, &attributes)
}

fn wanted(request: &Request, pod: &Value) -> Result<ProgramRequest, Error> {
    let is_set = |name: &str| matches!(request.options.get(name), Some("true" | "1"));
    let is_exec = request.target.subresource == "exec";
    let words = request.options.all.iter().filter(|(name, _)| is_exec && name == "command");
    let command: Vec<String> = words.map(|(_, word)| word.clone()).take(WORDS_MAX).collect();
    if is_exec && command.is_empty() {
        return Err(Error::bad_request("you must specify at least one command for the container"));
    }
    let tty = is_set("tty");
    let streams = Streams {
        stdin: is_set("stdin"),
        stdout: is_set("stdout"),
        // A terminal has one output.
        stderr: is_set("stderr") && !tty,
        tty,
    };
    if !streams.stdin && !streams.stdout && !streams.stderr {
        return Err(Error::bad_request("you must specify at least 1 of stdin, stdout, stderr"));
    }
    Ok(ProgramRequest {
        pod: text(pod, &["metadata", "uid"]).to_owned(),
        container: connect::container(request, pod).to_owned(),
        command,
        streams,
    })
}

fn not_there(request: &Request, pod: &Value, container: &str) -> Error {
    let phase = text(pod, &["status", "phase"]);
    if ["Succeeded", "Failed"].contains(&phase) {
        let what = if request.target.subresource == "exec" { "exec into" } else { "attach to" };
        return Error::bad_request(format!(
            "cannot {what} a container in a completed pod; current phase is {phase}"
        ));
    }
    Error::internal(format!("unable to upgrade connection: container not found ({container:?})"))
}

fn ports(request: &Request) -> Result<Vec<u16>, Error> {
    let named = request.options.all.iter().filter(|(name, _)| name == "ports");
    let mut ports = Vec::new();
    for port in named.flat_map(|(_, ports)| ports.split(',')) {
        match port.parse() {
            Ok(1..) if ports.len() == PORTS_MAX => {
                return Err(Error::bad_request(format!("at most {PORTS_MAX} ports at once")));
            }
            Ok(port @ 1..) => ports.push(port),
            _ => return Err(Error::bad_request(format!("unable to parse {port:?} as a port"))),
        }
    }
    Ok(ports)
}
