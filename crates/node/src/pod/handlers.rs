//! What probes and hooks do: run a program in the container, ask over HTTP, connect, sleep.
//!
//! Upstream: pkg/probe/{exec,http,tcp}

use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::worker::Shared;
use crate::runtime::ContainerId;

/// How much of an answer is read.
const ANSWER_BYTES_MAX: u64 = 10 << 10;

/// Does what a handler says. The error is what people are told after `probe failed: `.
pub async fn run(
    shared: &Shared,
    (id, container): (&ContainerId, &Value),
    handler: &Value,
) -> Result<(), String> {
    let sandbox = shared.runtime.sandbox_of(&id.pod).unwrap_or_default();
    let own = sandbox.addresses.first().unwrap_or(&shared.options.address).to_string();
    if let Some(command) = handler["exec"]["command"].as_array() {
        let command: Vec<String> =
            command.iter().filter_map(Value::as_str).map(str::to_owned).collect();
        let executed = shared.runtime.exec(id, &command).await;
        let executed = executed.map_err(|refusal| refusal.message)?;
        return match executed.code {
            0 => Ok(()),
            _ => Err(String::from_utf8_lossy(&executed.output).into_owned()),
        };
    }
    if handler["httpGet"].is_object() {
        return get(&handler["httpGet"], container, &own).await;
    }
    if handler["tcpSocket"].is_object() {
        let socket = &handler["tcpSocket"];
        let host = socket["host"].as_str().unwrap_or(&own);
        let port = port(&socket["port"], container)?;
        let connected = TcpStream::connect((host, port)).await;
        return connected.map(drop).map_err(|error| format!("dial tcp {host}:{port}: {error}"));
    }
    if let Some(seconds) = handler["sleep"]["seconds"].as_u64() {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
        return Ok(());
    }
    Err("this node knows no such handler".to_owned())
}

async fn get(action: &Value, container: &Value, own: &str) -> Result<(), String> {
    let host = action["host"].as_str().filter(|host| !host.is_empty()).unwrap_or(own);
    let port = port(&action["port"], container)?;
    let path = action["path"].as_str().unwrap_or("/");
    if action["scheme"] == "HTTPS" {
        return Err("this node asks over HTTP only".to_owned());
    }
    let failed = |error: std::io::Error| {
        format!("Get \"http://{host}:{port}{path}\": dial tcp {host}:{port}: {error}")
    };
    let mut headers = String::new();
    let mut has_host = false;
    for header in action["httpHeaders"].as_array().into_iter().flatten() {
        let (name, value) = (text(&header["name"]), text(&header["value"]));
        has_host |= name.eq_ignore_ascii_case("host");
        // A line break would begin another header.
        if !name.contains(['\r', '\n']) && !value.contains(['\r', '\n']) {
            headers.push_str(&format!("{name}: {value}\r\n"));
        }
    }
    if !has_host {
        headers.push_str(&format!("Host: {host}:{port}\r\n"));
    }
    let request = format!(
        "GET {path} HTTP/1.1\r\n{headers}User-Agent: kube-probe/1.36\r\nAccept: */*\r\n\
         Connection: close\r\n\r\n"
    );
    let mut stream = TcpStream::connect((host, port)).await.map_err(failed)?;
    stream.write_all(request.as_bytes()).await.map_err(failed)?;
    let mut answer = Vec::new();
    (&mut stream).take(ANSWER_BYTES_MAX).read_to_end(&mut answer).await.map_err(failed)?;
    let line = String::from_utf8_lossy(&answer);
    let code: u16 = line.split_whitespace().nth(1).and_then(|code| code.parse().ok()).unwrap_or(0);
    match code {
        200..=399 => Ok(()),
        code => Err(format!("HTTP probe failed with statuscode: {code}")),
    }
}

/// A port by number, or by its name among the container's.
fn port(wanted: &Value, container: &Value) -> Result<u16, String> {
    if let Some(number) = wanted.as_u64() {
        return u16::try_from(number).map_err(|_| format!("invalid port number: {number}"));
    }
    let name = text(wanted);
    let ports = container["ports"].as_array().into_iter().flatten();
    let found = ports.clone().find(|port| port["name"] == name);
    let number = found.and_then(|port| port["containerPort"].as_u64());
    let number = number.and_then(|number| u16::try_from(number).ok()).or(name.parse().ok());
    number.ok_or_else(|| format!("couldn't find port: {name}"))
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
