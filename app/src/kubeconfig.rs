//! Where kubeconfigs of this program are written, and how the user's own gets an entry.

use std::env;
use std::error::Error as _;
use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, anyhow};
use apiserver::identity::Error;
use apiserver::identity::key_files::{Privacy, write_atomically};
pub use apiserver::identity::kubeconfig::Selection;
use apiserver::identity::kubeconfig::{self, Credential, Entry};
use apiserver::start::Admin;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use crate::listener;

/// The name of our cluster, user and context.
pub const CONTEXT: &str = "setpoint";

/// Others write the user's kubeconfig in a moment; one that is locked for longer was left so.
const LOCKED_TRIES_MAX: usize = 200;
const LOCKED_PAUSE: Duration = Duration::from_millis(5);
const FILE_NAME: &str = "kubeconfig";

/// The one that is always kept.
pub fn in_data(data: &Path) -> PathBuf {
    data.join(FILE_NAME)
}

/// Writes a kubeconfig of an administrator, for its owner only; what was there is replaced.
pub fn write(path: &Path, admin: &Admin, listen: SocketAddr) -> Result<()> {
    let url = listener::url(listen);
    let text = kubeconfig::alone(&admin.entry(CONTEXT, &url));
    write_atomically(path, text.as_bytes(), Privacy::Private).with_context(|| {
        format!("could not write the kubeconfig {}; check its directory", path.display())
    })
}

/// Where an entry was put, and what it is called there.
pub struct Merged {
    pub path: PathBuf,
    pub context: String,
    /// The context that the file names as current, ours or another.
    pub current: Option<String>,
}

/// Puts the entry of a data directory into the user's kubeconfig. It has the usual name, unless
/// one of the other data directories has that.
pub fn merge_into_users(data: &Path, others: &[PathBuf], selection: Selection) -> Result<Merged> {
    let path = users(data).ok_or_else(|| anyhow!("HOME is not set"))?;
    let ours = Ours::read(data)?;
    let taken = authority_of(&path, CONTEXT).filter(|authority| *authority != ours.authority);
    let has_it = |other: &PathBuf| Ours::read(other).is_ok_and(|it| Some(it.authority) == taken);
    let context = match taken.is_some() && others.iter().any(has_it) {
        true => name_of(data),
        false => CONTEXT.to_owned(),
    };
    let entry = Entry {
        name: &context,
        server: &ours.server,
        authority_pem: &ours.authority,
        credential: Credential::Certificate {
            certificate_pem: &ours.certificate,
            key_pem: &ours.key,
        },
        selection,
    };
    patiently(|| kubeconfig::merge_into_file(&path, &entry))?;
    let current = current_context(&path);
    Ok(Merged { path, context, current })
}

/// Takes what [`merge_into_users`] has put there out again; answers from which file.
pub fn remove_from_users(data: &Path) -> Result<Option<PathBuf>> {
    let Some(path) = users(data).filter(|path| path.exists()) else { return Ok(None) };
    let ours = Ours::read(data)?;
    let was_there = patiently(|| kubeconfig::remove_from_file(&path, &ours.authority))?;
    Ok(was_there.then_some(path))
}

/// The context that kubectl would use, by the file in the home directory.
pub fn users_current_context() -> Option<String> {
    let home = env::var_os("HOME").filter(|home| !home.is_empty())?;
    current_context(&Path::new(&home).join(".kube/config"))
}

fn current_context(path: &Path) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let config: Value = serde_saphyr::from_str(&text).ok()?;
    let current = config["current-context"].as_str().filter(|current| !current.is_empty());
    current.map(str::to_owned)
}

/// The file that kubectl writes to. Who has KUBECONFIG name the file of the data directory itself
/// did not mean that one: it is written anew at every start, and is no place to merge into.
fn users(data: &Path) -> Option<PathBuf> {
    let variable = |name: &str| env::var_os(name).filter(|value| !value.is_empty());
    let listed = variable("KUBECONFIG");
    let own = in_data(data);
    let is_users = |path: &PathBuf| !path.as_os_str().is_empty() && *path != own;
    let first = listed.as_ref().and_then(|list| env::split_paths(list).find(is_users));
    let home = || variable("HOME").map(|home| Path::new(&home).join(".kube/config"));
    first.or_else(home)
}

/// What the kubeconfig of a data directory says.
struct Ours {
    server: String,
    authority: String,
    certificate: String,
    key: String,
}

impl Ours {
    fn read(data: &Path) -> Result<Ours> {
        let path = in_data(data);
        let reading = || format!("could not read {}", path.display());
        let text = fs::read_to_string(&path).with_context(reading)?;
        let config: Value = serde_saphyr::from_str(&text).with_context(reading)?;
        let (cluster, user) = (&config["clusters"][0]["cluster"], &config["users"][0]["user"]);
        Ok(Ours {
            server: cluster["server"].as_str().unwrap_or_default().to_owned(),
            authority: pem(&cluster["certificate-authority-data"]).with_context(reading)?,
            certificate: pem(&user["client-certificate-data"]).with_context(reading)?,
            key: pem(&user["client-key-data"]).with_context(reading)?,
        })
    }
}

fn pem(value: &Value) -> Result<String> {
    let text = value.as_str().ok_or_else(|| anyhow!("it is not whole"))?;
    Ok(String::from_utf8(STANDARD.decode(text)?)?)
}

/// The authority of a cluster in somebody's file.
fn authority_of(path: &Path, name: &str) -> Option<String> {
    let config: Value = serde_saphyr::from_str(&fs::read_to_string(path).ok()?).ok()?;
    let cluster = config["clusters"].as_array()?.iter().find(|one| one["name"] == name)?;
    pem(&cluster["cluster"]["certificate-authority-data"]).ok()
}

/// `setpoint-NAME`, where the last part of the directory's path is the name.
fn name_of(data: &Path) -> String {
    let last = data.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
    let kept = last.chars().map(|one| if one.is_ascii_alphanumeric() { one } else { '-' });
    format!("{CONTEXT}-{}", kept.collect::<String>().trim_matches('-'))
}

/// Tries again while another program has locked the file.
fn patiently<T>(mut change: impl FnMut() -> Result<T, Error>) -> Result<T> {
    for _ in 0..LOCKED_TRIES_MAX {
        match change() {
            Err(error) if is_locked(&error) => thread::sleep(LOCKED_PAUSE),
            changed => return Ok(changed?),
        }
    }
    Ok(change()?)
}

/// Whether another program is writing.
fn is_locked(error: &Error) -> bool {
    let kind = error.source().and_then(|source| source.downcast_ref::<io::Error>());
    kind.is_some_and(|error| error.kind() == io::ErrorKind::AlreadyExists)
}
