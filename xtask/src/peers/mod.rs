//! `cargo xtask peers [NAME]...`: tests against peers that are too large for `cargo xtask test`.
//!
//! A peer is one file below and one line of `PEERS`. It installs what it needs once per pinned
//! version into the cache, starts the program, and returns an error unless everything passed.
//! Nothing is skipped: a peer that cannot be installed has failed.

mod daemon;
mod go;
mod kubelet;
mod kubernetes;
mod runtimes;
mod training;

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::workspace::{self, cargo, check};

/// Moves the cache out of the target directory.
const CACHE_VARIABLE: &str = "SETPOINT_PEERS";

/// Peers to run.
#[derive(Debug, PartialEq, Eq)]
pub enum Choice {
    List,
    Run(Selection),
}

#[derive(Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// By name; all of them if empty.
    pub names: Vec<String>,
    /// The program under test; a release build if unset.
    pub program: Option<PathBuf>,
}

/// Installed peers and the program under test.
pub struct Cache {
    pub directory: PathBuf,
    /// The `setpoint` binary.
    pub program: PathBuf,
}

struct Peer {
    name: &'static str,
    about: &'static str,
    run: fn(&Cache) -> Result<()>,
}

const PEERS: &[Peer] = &[
    Peer {
        name: "training",
        about: "PyTorch DDP, Hugging Face Trainer and the Kubeflow SDK have progress and loss",
        run: training::run,
    },
    Peer {
        name: "kubernetes",
        about: "all operators in one process on a Kubernetes control plane",
        run: kubernetes::run,
    },
    Peer {
        name: "kubelet",
        about: "a kubelet registers with the API server and runs a pod through containerd",
        run: kubelet::run,
    },
    Peer { name: "crio", about: "CRI-O runs pods", run: runtimes::run_cri_o },
    Peer { name: "containerd2", about: "containerd 2 runs pods", run: runtimes::run_containerd },
];

pub fn run(choice: &Choice) -> Result<()> {
    let selection = match choice {
        Choice::Run(selection) => selection,
        Choice::List => {
            PEERS.iter().for_each(|peer| println!("{:<12} {}", peer.name, peer.about));
            return Ok(());
        }
    };
    let names = &selection.names;
    if let Some(name) = names.iter().find(|name| PEERS.iter().all(|peer| peer.name != **name)) {
        bail!("there is no peer `{name}`; see `cargo xtask peers --list`");
    }
    let is_chosen = |peer: &&Peer| names.is_empty() || names.iter().any(|name| name == peer.name);
    let cache = prepare(selection)?;
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

fn prepare(selection: &Selection) -> Result<Cache> {
    let target = workspace::target_directory()?;
    let usual = || target.join("peers");
    let directory = std::env::var_os(CACHE_VARIABLE).map_or_else(usual, PathBuf::from);
    std::fs::create_dir_all(&directory)
        .with_context(|| format!("could not create {}", directory.display()))?;
    let directory = directory.canonicalize().context("the cache must be a directory")?;
    if let Some(program) = &selection.program {
        let found = program.canonicalize();
        let program = found.with_context(|| format!("no program {}", program.display()))?;
        return Ok(Cache { directory, program });
    }
    check(&mut cargo(&["build", "--release", "--locked", "--package", "setpoint"]))?;
    Ok(Cache { directory, program: target.join("release/setpoint") })
}

/// Runs a command, and returns what it printed.
fn output(command: &mut Command) -> Result<String> {
    let ended = command.output().with_context(|| format!("could not run {command:?}"))?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if !ended.status.success() {
        bail!("{command:?}: {}\n{}{}", ended.status, text(&ended.stdout), text(&ended.stderr));
    }
    Ok(text(&ended.stdout))
}
