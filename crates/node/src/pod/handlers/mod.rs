//! What probes and hooks do: run a program in the container, ask over HTTP or gRPC, connect, sleep.
//!
//! Upstream: pkg/probe, pkg/kubelet/lifecycle/handlers.go

mod grpc;
mod http;

use std::io;
use std::time::Duration;

use serde_json::Value;

use super::worker::Shared;
use crate::network::dial;
use crate::runtime::ContainerId;

/// How probes and hooks name themselves to those they ask.
const USER_AGENT: &str = "kube-probe/1.36";

/// What a probe found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    Good,
    /// It is well, but people should know something.
    Warning(String),
    Bad(String),
    /// Nothing was found out.
    Unknown(String),
}

/// Whom a handler asks.
#[derive(Clone, Copy)]
pub struct Asked<'a> {
    pub id: &'a ContainerId,
    /// As the pod specifies it.
    pub container: &'a Value,
}

impl Asked<'_> {
    /// Where the pod is reached.
    fn address(&self, shared: &Shared) -> String {
        let sandbox = shared.runtime.sandbox_of(&self.id.pod).unwrap_or_default();
        sandbox.addresses.first().unwrap_or(&shared.options.address).to_string()
    }
}

/// Asks once, as a probe says, and not for longer than it may take.
pub async fn probe(
    shared: &Shared,
    asked: Asked<'_>,
    handler: &Value,
    timeout: Duration,
) -> Answer {
    if handler["exec"].is_object() {
        let command = command(&handler["exec"]);
        let ran = tokio::time::timeout(timeout, shared.runtime.exec(asked.id, &command)).await;
        return match ran {
            Err(_) => {
                let line = command.join(" ");
                Answer::Bad(format!("command timed out: {line:?} timed out after {timeout:?}"))
            }
            Ok(Err(refusal)) => Answer::Unknown(refusal.message),
            Ok(Ok(executed)) if executed.code == 0 => Answer::Good,
            Ok(Ok(executed)) => Answer::Bad(String::from_utf8_lossy(&executed.output).into_owned()),
        };
    }
    let own = asked.address(shared);
    if handler["httpGet"].is_object() {
        return ask_http(&handler["httpGet"], asked.container, &own, timeout).await;
    }
    if handler["tcpSocket"].is_object() {
        return ask_tcp(&handler["tcpSocket"], asked.container, &own, timeout).await;
    }
    if handler["grpc"].is_object() {
        return ask_grpc(&handler["grpc"], &own, timeout).await;
    }
    Answer::Unknown("missing probe handler".to_owned())
}

/// Asks over HTTP, `own` being the pod's address.
pub async fn ask_http(action: &Value, container: &Value, own: &str, timeout: Duration) -> Answer {
    match http::Target::of(action, container, own) {
        Ok(target) => http::probe(&target, timeout).await,
        Err(why) => Answer::Unknown(why),
    }
}

/// Connects, and no more.
pub async fn ask_tcp(socket: &Value, container: &Value, own: &str, timeout: Duration) -> Answer {
    let host = named(&socket["host"]).unwrap_or(own);
    match port(&socket["port"], container) {
        Ok(port) => connect(host, port, timeout).await,
        Err(why) => Answer::Unknown(why),
    }
}

/// Asks for the health of a service.
pub async fn ask_grpc(service: &Value, own: &str, timeout: Duration) -> Answer {
    match port(&service["port"], &Value::Null) {
        Ok(port) => grpc::probe((own, port), text(&service["service"]), timeout).await,
        Err(why) => Answer::Unknown(why),
    }
}

/// Does what a hook says; why it could not, if so.
pub async fn hook(shared: &Shared, asked: Asked<'_>, handler: &Value) -> Result<(), String> {
    if handler["exec"].is_object() {
        let command = command(&handler["exec"]);
        let executed = shared.runtime.exec(asked.id, &command).await;
        let executed = executed.map_err(|refusal| refusal.message)?;
        return match executed.code {
            0 => Ok(()),
            code => Err(format!(
                "command '{}' exited with {code}: {}",
                command.join(" "),
                String::from_utf8_lossy(&executed.output)
            )),
        };
    }
    if handler["httpGet"].is_object() {
        let own = asked.address(shared);
        let target = http::Target::of(&handler["httpGet"], asked.container, &own)?;
        return http::hook(&target).await;
    }
    if let Some(seconds) = handler["sleep"]["seconds"].as_u64() {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
        return Ok(());
    }
    if handler["tcpSocket"].is_object() {
        // Kept by others so that old manifests are accepted; it never did anything.
        return Ok(());
    }
    Err("invalid handler".to_owned())
}

async fn connect(host: &str, port: u16, timeout: Duration) -> Answer {
    match tokio::time::timeout(timeout, dial::connect_host(host, port)).await {
        Ok(Ok(_)) => Answer::Good,
        Ok(Err(error)) => Answer::Bad(format!("dial tcp {host}:{port}: {}", why(&error))),
        Err(_) => Answer::Bad(format!("dial tcp {host}:{port}: i/o timeout")),
    }
}

/// Why there is no connection, in the words that people search for.
fn why(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => "connect: connection refused".to_owned(),
        io::ErrorKind::HostUnreachable => "connect: no route to host".to_owned(),
        io::ErrorKind::NetworkUnreachable => "connect: network is unreachable".to_owned(),
        io::ErrorKind::TimedOut => "i/o timeout".to_owned(),
        io::ErrorKind::ConnectionReset => "read: connection reset by peer".to_owned(),
        _ => error.to_string(),
    }
}

/// A port by number, or by its name among the container's.
fn port(wanted: &Value, container: &Value) -> Result<u16, String> {
    let number = match wanted.as_u64() {
        Some(number) => Some(number),
        None => {
            let name = text(wanted);
            let mut ports = container["ports"].as_array().into_iter().flatten();
            let found = ports.find(|port| port["name"] == name);
            let number = found.and_then(|port| port["containerPort"].as_u64());
            number.or(name.parse().ok())
        }
    };
    match number.map(u16::try_from) {
        Some(Ok(number)) if number > 0 => Ok(number),
        Some(_) => Err(format!("invalid port number: {}", number.unwrap_or(0))),
        None => Err(format!("couldn't find port: {wanted} in container")),
    }
}

fn command(exec: &Value) -> Vec<String> {
    let words = exec["command"].as_array().into_iter().flatten();
    words.filter_map(Value::as_str).map(str::to_owned).collect()
}

fn named(value: &Value) -> Option<&str> {
    value.as_str().filter(|text| !text.is_empty())
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
