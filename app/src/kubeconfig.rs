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

/// Puts the entry of a data directory into the user's kubeconfig; answers which file that is.
pub fn merge_into_users(data: &Path) -> Result<PathBuf> {
    let variable = |name: &str| env::var_os(name).filter(|value| !value.is_empty());
    let listed = variable("KUBECONFIG");
    let first = listed
        .as_ref()
        .and_then(|list| env::split_paths(list).find(|path| !path.as_os_str().is_empty()));
    let home = || variable("HOME").map(|home| Path::new(&home).join(".kube/config"));
    let users = first.or_else(home).ok_or_else(|| anyhow!("HOME is not set"))?;
    merge(&in_data(data), &users)?;
    Ok(users)
}

fn merge(ours: &Path, users: &Path) -> Result<()> {
    let reading = || format!("could not read {}", ours.display());
    let text = fs::read_to_string(ours).with_context(reading)?;
    let config: Value = serde_saphyr::from_str(&text).with_context(reading)?;
    let (cluster, user) = (&config["clusters"][0]["cluster"], &config["users"][0]["user"]);
    let pem = |value: &Value| -> Result<String> {
        let text = value.as_str().ok_or_else(|| anyhow!("it is not whole"))?;
        Ok(String::from_utf8(STANDARD.decode(text)?)?)
    };
    let authority = pem(&cluster["certificate-authority-data"]).with_context(reading)?;
    let certificate = pem(&user["client-certificate-data"]).with_context(reading)?;
    let key = pem(&user["client-key-data"]).with_context(reading)?;
    let entry = Entry {
        name: CONTEXT,
        server: cluster["server"].as_str().unwrap_or_default(),
        authority_pem: &authority,
        credential: Credential::Certificate { certificate_pem: &certificate, key_pem: &key },
    };
    for _ in 0..LOCKED_TRIES_MAX {
        match kubeconfig::merge_into_file(users, &entry) {
            Err(error) if is_locked(&error) => thread::sleep(LOCKED_PAUSE),
            merged => return Ok(merged?),
        }
    }
    Ok(kubeconfig::merge_into_file(users, &entry)?)
}

/// Whether another program is writing.
fn is_locked(error: &Error) -> bool {
    let kind = error.source().and_then(|source| source.downcast_ref::<io::Error>());
    kind.is_some_and(|error| error.kind() == io::ErrorKind::AlreadyExists)
}
