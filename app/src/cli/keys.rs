//! `setpoint keys`: lists and rotates the keys of a cluster.

use std::fmt::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use apiserver::identity::key_files::Directory;
use apiserver::identity::rotation::{self, KeyEntry, KeyUse, RotatedKey};
use clap::{Args, Subcommand, ValueEnum};
use serde::Serialize;
use store::{Environment as _, System, Timestamp};

use super::Context;
use super::exit::not_found;
use super::serving::KEYS_DIRECTORY;
use crate::directories;
use crate::instance::Instance;
use crate::kubeconfig;
use crate::time;

const MICROS_PER_SECOND: i64 = 1_000_000;
const DAY: i64 = 86_400;

const AFTER_HELP: &str = "\
Examples:
  setpoint keys ls                        all keys, and when they expire
  setpoint keys rotate admin              revoke all administrators' certificates, write another
  setpoint keys rotate ca --dry-run       show what would happen

Former keys verify and decrypt what they signed and encrypted. `admin` takes effect within seconds,
the others at the next start of the cluster.

Exit codes:
  0  done
  5  there is no cluster in the data directory";

/// Show and rotate the keys of a cluster.
#[derive(Args)]
#[command(after_help = AFTER_HELP)]
pub struct Keys {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// List keys and when they expire.
    Ls(Ls),
    /// Replace a key; what the former one signed or encrypted stays valid.
    Rotate(Rotate),
}

#[derive(Args)]
struct Ls {
    /// Data directory of the cluster [env: SETPOINT_DATA_DIR].
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
}

#[derive(Args)]
struct Rotate {
    /// The key to replace.
    key: KeyName,

    /// Show what would happen and change nothing.
    #[arg(long)]
    dry_run: bool,

    /// Data directory of the cluster [env: SETPOINT_DATA_DIR].
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
enum KeyName {
    /// The certificate authority.
    Ca,
    /// The key that signs tokens of service accounts.
    Tokens,
    /// The key that encrypts Secrets at rest.
    Secrets,
    /// The certificate of the administrator.
    Admin,
}

impl Keys {
    pub fn run(&self, context: &Context) -> Result<ExitCode> {
        match &self.action {
            Action::Ls(ls) => {
                let keys = Directory { path: directory(ls.data_dir.as_deref())?.1 };
                let entries = rotation::inventory(&keys).context("could not read the keys")?;
                context.output.print(&Listed { now: now(), keys: entries })?;
            }
            Action::Rotate(rotate) => context.output.print(&rotate.run()?)?,
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Returns the data directory and the directory of its keys.
fn directory(data_dir: Option<&Path>) -> Result<(PathBuf, PathBuf)> {
    let data = directories::data(data_dir)?;
    let keys = data.join(KEYS_DIRECTORY);
    if !keys.exists() {
        let data = data.display();
        return Err(not_found(format!("there is no cluster in {data}; run `setpoint up`")));
    }
    Ok((data, keys))
}

fn now() -> i64 {
    System.now().0.div_euclid(MICROS_PER_SECOND)
}

/// Returns a line for each key that expires soon.
pub fn expiry_hints(data: &Path) -> Vec<String> {
    let keys = Directory { path: data.join(KEYS_DIRECTORY) };
    let now = now();
    let entries = rotation::inventory(&keys).unwrap_or_default();
    let soon = entries.iter().filter(|entry| entry.expires_soon(now));
    let line = |entry: &KeyEntry| {
        let days = (entry.expires_at.unwrap_or(now) - now) / DAY;
        format!("key {} expires in {days} days; `setpoint keys rotate` replaces it", entry.name)
    };
    soon.map(line).collect()
}

impl Rotate {
    fn run(&self) -> Result<Rotated> {
        let (data, path) = directory(self.data_dir.as_deref())?;
        let is_running = Instance::running(&data)?.is_some();
        if !self.dry_run {
            let key = match self.key {
                KeyName::Ca => RotatedKey::Authority,
                KeyName::Tokens => RotatedKey::Tokens,
                KeyName::Secrets => RotatedKey::Secrets,
                KeyName::Admin => RotatedKey::Admin,
            };
            let rotated = rotation::rotate(&Directory { path }, key, now());
            rotated.with_context(|| format!("could not rotate {:?}", self.key))?;
        }
        Ok(Rotated {
            key: self.key,
            dry_run: self.dry_run,
            effect: self.effect(),
            next: self.next(&data, is_running),
        })
    }

    fn effect(&self) -> &'static str {
        match self.key {
            KeyName::Ca => {
                "another authority signs certificates; those of the former one stay accepted, and \
                 the server shows one of the former for 243 days, so that clients can get the \
                 other authority meanwhile"
            }
            KeyName::Tokens => {
                "another key signs tokens; those of the last four keys stay accepted until they \
                 expire"
            }
            KeyName::Secrets => {
                "another key encrypts Secrets and virtual machines; all of them are written again, \
                 and former keys decrypt history"
            }
            KeyName::Admin => {
                "all certificates of the administrator and all sessions of the console end; the \
                 kubeconfig gets another certificate"
            }
        }
    }

    fn next(&self, data: &Path, is_running: bool) -> String {
        let kubeconfig = kubeconfig::in_data(data);
        match (self.key, is_running) {
            (KeyName::Admin, true) => {
                format!("{} is replaced within seconds", kubeconfig.display())
            }
            (KeyName::Admin, false) => {
                format!("the next start replaces {}", kubeconfig.display())
            }
            (_, true) => "restart the cluster to use it: `setpoint down` and `setpoint up`; pods \
                          keep running"
                .to_owned(),
            (_, false) => "the next start uses it".to_owned(),
        }
    }
}

#[derive(Serialize)]
struct Listed {
    #[serde(skip)]
    now: i64,
    keys: Vec<KeyEntry>,
}

impl fmt::Display for Listed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = format!("{:<8}  {:<7}  {:<20}  ID", "KEY", "USE", "EXPIRES");
        for entry in &self.keys {
            let role = if entry.role == KeyUse::Active { "active" } else { "former" };
            let expires = match entry.expires_at {
                Some(at) => time::rfc3339(Timestamp(at * MICROS_PER_SECOND)),
                None => "never".to_owned(),
            };
            let soon = if entry.expires_soon(self.now) { "  (expires soon)" } else { "" };
            let (name, id) = (entry.name, &entry.id);
            write!(text, "\n{name:<8}  {role:<7}  {expires:<20}  {id}{soon}")?;
        }
        formatter.write_str(&text)
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Rotated {
    key: KeyName,
    dry_run: bool,
    effect: &'static str,
    next: String,
}

impl fmt::Display for Rotated {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = format!("{:?}", self.key).to_lowercase();
        match self.dry_run {
            true => write!(formatter, "{name} would be rotated: {}", self.effect),
            false => write!(formatter, "rotated {name}: {}\n{}", self.effect, self.next),
        }
    }
}
