//! `setpoint cluster`: directories for several nodes on one machine, made and cleared.

use std::fmt::{self, Write as _};
use std::fs::{self, DirBuilder, File, Permissions};
use std::io::{self, IsTerminal, Write as _};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt, symlink};
use std::path::{Component, Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context as _, Result, bail};
use clap::{Args, Subcommand};
use serde::Serialize;

use super::Context;
use super::controller;
use super::serving::KEYS_DIRECTORY;
use crate::config::StoreKind;

/// Nodes of one cluster that are made at once.
const NODES_MAX: i64 = 64;
/// What marks a directory as made by this command: only such a one is ever removed.
const MARK: &str = ".setpoint-cluster";
/// The configuration of a node, where the program looks for it.
const CONFIG: &str = ".config.yaml";
const DATA: &str = "data";

const AFTER_HELP: &str = "\
Examples:
  setpoint cluster create --nodes 2 --storage mysql   configurations below .k3
  setpoint cluster clear                              stop and remove what was made there";

/// Create or delete a multi-node cluster configuration.
#[derive(Args)]
#[command(after_help = AFTER_HELP)]
pub struct Cluster {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Write a configuration for each node.
    Create(Create),
    /// Stop what runs on these directories, and remove them.
    Clear(Clear),
}

#[derive(Args)]
struct Create {
    /// Where the directories are made.
    #[arg(long, value_name = "DIR", default_value = ".k3")]
    dir: PathBuf,

    /// How many nodes.
    #[arg(long, value_name = "N", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=NODES_MAX))]
    nodes: u16,

    /// The port of the page of the first node; the next has the next.
    #[arg(long, value_name = "PORT", default_value_t = 8_080)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=65_535 - NODES_MAX))]
    web_port: u16,

    /// Where the state is kept. Several nodes need mysql or etcd.
    #[arg(long, value_name = "memory|embedded|mysql|etcd", default_value = "memory")]
    #[arg(hide_possible_values = true)]
    storage: StoreKind,
}

#[derive(Args)]
struct Clear {
    /// The directory that was given to `create`.
    #[arg(long, value_name = "DIR", default_value = ".k3")]
    dir: PathBuf,

    /// Do not ask.
    #[arg(long, short, visible_alias = "yes")]
    force: bool,
}

/// What was made.
#[derive(Serialize)]
struct Made {
    configs: Vec<PathBuf>,
    #[serde(skip)]
    storage: StoreKind,
}

/// What was cleared.
#[derive(Serialize)]
struct Cleared {
    directory: PathBuf,
    nodes: usize,
}

impl Cluster {
    pub fn run(&self, context: &Context) -> Result<ExitCode> {
        match &self.action {
            Action::Create(create) => context.output.print(&create.run()?)?,
            Action::Clear(clear) => match clear.run()? {
                Some(cleared) => context.output.print(&cleared)?,
                None => {
                    eprintln!("nothing was changed");
                    return Ok(ExitCode::FAILURE);
                }
            },
        }
        Ok(ExitCode::SUCCESS)
    }
}

impl Create {
    fn run(&self) -> Result<Made> {
        check(&self.dir)?;
        let is_private = matches!(self.storage, StoreKind::Memory | StoreKind::Embedded);
        if self.nodes > 1 && is_private {
            bail!(
                "{} storage is private to one process, and {} nodes must share one; \
                 use --storage mysql or --storage etcd",
                self.storage,
                self.nodes
            );
        }
        let made = DirBuilder::new().recursive(true).mode(0o700).create(&self.dir);
        made.with_context(|| making(&self.dir))?;
        // One authority for all: a node must believe what another has signed.
        let keys = self.dir.join(KEYS_DIRECTORY);
        make_private(&keys)?;
        fs::write(self.dir.join(MARK), "").with_context(|| making(&self.dir.join(MARK)))?;
        let mut configs = Vec::new();
        for number in 1..=self.nodes {
            let node = self.dir.join(format!("node-{number}"));
            make_private(&node.join(DATA))?;
            let keys = node.join(DATA).join(KEYS_DIRECTORY);
            if !keys.is_symlink() {
                symlink(Path::new("../..").join(KEYS_DIRECTORY), &keys)
                    .with_context(|| making(&keys))?;
            }
            let config = node.join(CONFIG);
            // What somebody has written there since is kept.
            if !config.exists() {
                let text = self.config(self.web_port + (number - 1));
                write_private(&config, &text).with_context(|| making(&config))?;
            }
            configs.push(config);
        }
        Ok(Made { configs, storage: self.storage })
    }

    fn config(&self, web_port: u16) -> String {
        let mut text = format!(
            "# A node of a cluster. Every key, with its default and what it means, is in\n\
             # configs/config-example.yaml.\nstorage:\n  type: {}\n",
            self.storage
        );
        let more = match self.storage {
            StoreKind::Memory | StoreKind::Embedded => "",
            StoreKind::Mysql => {
                "  mysql: {host: localhost, port: 3306, user: root, password: password}\n"
            }
            StoreKind::Etcd => "  etcd: {endpoints: [\"http://127.0.0.1:2379\"]}\n",
        };
        text.push_str(more);
        let _ = writeln!(text, "web:\n  port: {web_port}");
        text
    }
}

impl Clear {
    fn run(&self) -> Result<Option<Cleared>> {
        check(&self.dir)?;
        if !self.dir.join(MARK).is_file() {
            bail!("{} was not made by `setpoint cluster create`", self.dir.display());
        }
        if !self.force && !confirm(&self.dir)? {
            return Ok(None);
        }
        let nodes: Vec<PathBuf> = fs::read_dir(&self.dir)
            .with_context(|| format!("could not read {}", self.dir.display()))?
            .flatten()
            .map(|entry| entry.path())
            .filter(|path| path.join(CONFIG).is_file())
            .collect();
        for data in nodes.iter().map(|node| node.join(DATA)) {
            // What a controller keeps is below, by the names of nodes.
            let below = fs::read_dir(data.join(controller::NAME)).into_iter().flatten().flatten();
            for data in below.map(|entry| entry.path()).chain([data.clone()]) {
                stop(&data)?;
            }
        }
        fs::remove_dir_all(&self.dir)
            .with_context(|| format!("could not remove {}", self.dir.display()))?;
        Ok(Some(Cleared { directory: self.dir.clone(), nodes: nodes.len() }))
    }
}

/// Stops what runs on a data directory, with its containers: those of this cluster and no others.
fn stop(data: &Path) -> Result<()> {
    if !data.is_dir() {
        return Ok(());
    }
    let program = std::env::current_exe().context("could not tell where this program is")?;
    let mut command = Command::new(program);
    command.args(["down", "--pods", "--data-dir"]).arg(data);
    let ended = command.output().context("could not run `setpoint down`")?;
    if !ended.status.success() {
        let said = String::from_utf8_lossy(&ended.stderr).trim().to_owned();
        bail!("what runs on {} did not stop: {said}", data.display());
    }
    Ok(())
}

/// A directory of its own, and not one that holds more.
fn check(directory: &Path) -> Result<()> {
    let has_name = matches!(directory.components().next_back(), Some(Component::Normal(_)));
    if !has_name {
        bail!("{} cannot be the directory of a cluster; name one of its own", directory.display());
    }
    Ok(())
}

fn confirm(directory: &Path) -> Result<bool> {
    if !io::stdin().is_terminal() {
        bail!("{} is removed with all its data; say --force to do so", directory.display());
    }
    eprint!("Remove {} with all its data? Type yes: ", directory.display());
    io::stderr().flush()?;
    let mut answer = String::new();
    io::stdin().read_line(&mut answer)?;
    Ok(answer.trim() == "yes")
}

/// Creates a directory for its owner only. One that exists is restricted to its owner.
fn make_private(directory: &Path) -> Result<()> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(directory);
    made.and_then(|()| fs::set_permissions(directory, Permissions::from_mode(0o700)))
        .with_context(|| making(directory))
}

/// Writes a file for its owner only: configurations hold passwords of databases.
fn write_private(path: &Path, text: &str) -> io::Result<()> {
    let mut file = File::options().create_new(true).write(true).mode(0o600).open(path)?;
    file.write_all(text.as_bytes())
}

fn making(path: &Path) -> String {
    format!("could not make {}", path.display())
}

impl fmt::Display for Made {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let command = match self.storage {
            StoreKind::Memory | StoreKind::Embedded => "start",
            StoreKind::Mysql | StoreKind::Etcd => "controller",
        };
        for (index, config) in self.configs.iter().enumerate() {
            let directory = config.parent().unwrap_or(Path::new("."));
            let node = directory.file_name().unwrap_or_default().to_string_lossy();
            let (data, config) = (directory.join(DATA), config.display());
            // The first serves the API to all.
            let command = if index == 0 { "start" } else { command };
            if index > 0 {
                writeln!(f)?;
            }
            write!(
                f,
                "NODE_NAME={node} setpoint {command} --config {config} --data-dir {}",
                data.display()
            )?;
        }
        Ok(())
    }
}

impl fmt::Display for Cleared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "removed {} with {} nodes", self.directory.display(), self.nodes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_a_directory_of_its_own_is_refused() {
        for path in [".", "/", "..", "a/..", ""] {
            assert!(check(Path::new(path)).is_err(), "{path}");
        }
        for path in [".k3", "/tmp/x", "a/b/"] {
            assert!(check(Path::new(path)).is_ok(), "{path}");
        }
    }
}
