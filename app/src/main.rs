//! The program `setpoint`: reads the command line and does what it says.
//!
//! Wiring only. What the parts do is in the other crates; `server.rs` puts them together.

mod activation;
mod allocator;
mod census;
mod cli;
mod client;
mod component_states;
mod components;
mod config;
mod console;
mod database;
mod definitions;
mod directories;
mod docs;
mod doctor;
mod foresight;
mod former;
mod health;
mod installed;
mod instance;
mod kept_lines;
mod kubeconfig;
mod kvm;
mod listener;
mod log_file;
mod machines;
mod mapped;
mod node_agent;
mod node_listener;
mod node_name;
mod notify;
mod operators;
mod output;
mod page;
mod parts;
mod pod_network;
mod podman;
mod preload;
mod private_paths;
mod process;
mod python;
mod reach;
mod ready;
mod release;
mod runtimes;
mod server;
mod shutdown;
mod socket;
mod telemetry;
mod time;
mod traces;
mod upgrade;
mod watchdog;

use std::process::ExitCode;

use tokio::time::Instant;

#[global_allocator]
static ALLOCATOR: allocator::Allocator = allocator::Allocator;

fn main() -> ExitCode {
    allocator::give_back_at_once();
    if let Some(code) = node_agent::shim_if_asked() {
        return code;
    }
    cli::run(Instant::now())
}
