//! The options that say what runs containers; they win over the configuration.

use std::path::PathBuf;

use clap::Args;

use crate::config::Loaded;
use crate::runtimes::{Runtime, Wanted, parse_socket};

#[derive(Args, Clone)]
pub struct RuntimeOptions {
    /// What runs the containers of pods that are bound to this machine. Else `runtime` of the
    /// configuration, or the first that answers of docker, podman, containerd and cri-o, or plain
    /// processes.
    #[arg(long, env = "SETPOINT_RUNTIME", hide_env = true, hide_possible_values = true)]
    #[arg(value_name = "auto|docker|podman|containerd|cri-o|process|none")]
    pub runtime: Option<Runtime>,

    /// The socket of that runtime, if it is not where it usually is.
    #[arg(long, env = "CONTAINER_RUNTIME_ENDPOINT", hide_env = true, value_name = "SOCKET")]
    #[arg(value_parser = parse)]
    pub container_runtime_endpoint: Option<PathBuf>,
}

impl RuntimeOptions {
    pub fn wanted(&self, loaded: &Loaded) -> Wanted {
        let configured = &loaded.config.runtime;
        let socket = self.container_runtime_endpoint.clone();
        Wanted {
            runtime: self.runtime.unwrap_or(configured.runtime),
            socket: socket.or_else(|| configured.socket.clone()),
        }
    }
}

fn parse(text: &str) -> Result<PathBuf, String> {
    let expected = "expected a path, or unix:// and a path";
    parse_socket(text).ok_or_else(|| expected.to_owned())
}
