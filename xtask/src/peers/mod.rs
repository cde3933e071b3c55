//! `cargo xtask peers [NAME]...`: tests against peers that are too large for `cargo xtask test`.
//!
//! A peer is one file below and one line of `PEERS`. It installs what it needs once per pinned
//! version into the cache, starts the program, and returns an error unless everything passed.
//! Nothing is skipped: a peer that cannot be installed has failed.

mod training;

use std::path::PathBuf;

use anyhow::{Context, Result, bail};

use crate::workspace::{self, cargo, check};

/// Moves the cache out of the target directory.
const CACHE_VARIABLE: &str = "SETPOINT_PEERS";

/// Peers to run.
#[derive(Debug, PartialEq, Eq)]
pub enum Choice {
    List,
    /// By name; all of them if empty.
    Run(Vec<String>),
}

/// Installed peers and the program under test.
pub struct Cache {
    pub directory: PathBuf,
    /// The `setpoint` binary, built in release mode.
    pub program: PathBuf,
}

struct Peer {
    name: &'static str,
    about: &'static str,
    run: fn(&Cache) -> Result<()>,
}

const PEERS: &[Peer] = &[Peer {
    name: "training",
    about: "PyTorch DDP, Hugging Face Trainer and the Kubeflow SDK have progress and loss",
    run: training::run,
}];

pub fn run(choice: &Choice) -> Result<()> {
    let names = match choice {
        Choice::Run(names) => names,
        Choice::List => {
            PEERS.iter().for_each(|peer| println!("{:<12} {}", peer.name, peer.about));
            return Ok(());
        }
    };
    if let Some(name) = names.iter().find(|name| PEERS.iter().all(|peer| peer.name != **name)) {
        bail!("there is no peer `{name}`; see `cargo xtask peers --list`");
    }
    let is_chosen = |peer: &&Peer| names.is_empty() || names.iter().any(|name| name == peer.name);
    let cache = prepare()?;
    let (mut passed, mut failed) = (0, Vec::new());
    for peer in PEERS.iter().filter(is_chosen) {
        println!("xtask: peer {}: {}", peer.name, peer.about);
        match (peer.run)(&cache) {
            Ok(()) => passed += 1,
            Err(error) => {
                eprintln!("xtask: peer {} failed: {error:#}", peer.name);
                failed.push(peer.name);
            }
        }
    }
    println!("\n{passed} passed, {} failed", failed.len());
    match failed.is_empty() {
        true => Ok(()),
        false => bail!("failed peers: {}", failed.join(", ")),
    }
}

fn prepare() -> Result<Cache> {
    let target = workspace::target_directory()?;
    let usual = || target.join("peers");
    let directory = std::env::var_os(CACHE_VARIABLE).map_or_else(usual, PathBuf::from);
    std::fs::create_dir_all(&directory)
        .with_context(|| format!("could not create {}", directory.display()))?;
    check(&mut cargo(&["build", "--release", "--locked", "--package", "setpoint"]))?;
    Ok(Cache { directory, program: target.join("release/setpoint") })
}
