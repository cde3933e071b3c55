//! Containers of Docker and Podman, over the socket of the engine.

mod client;

use std::path::Path;

use super::Answer;
use client::Client;

/// Asks a socket which engine is there. Podman speaks as Docker does, and tells so.
pub async fn ask(socket: &Path) -> Result<Answer, String> {
    let client = Client { socket: socket.to_owned() };
    let version = client.get("/version").await.map_err(|error| error.message)?;
    let components = version["Components"].as_array().into_iter().flatten();
    let is_podman =
        components.filter_map(|one| one["Name"].as_str()).any(|name| name.contains("Podman"));
    match version["Version"].as_str() {
        Some(number) if is_podman => Ok(Answer { name: "podman", version: number.to_owned() }),
        Some(number) => Ok(Answer { name: "docker", version: number.to_owned() }),
        None => Err("whoever listens there is no engine of containers".to_owned()),
    }
}
