//! Remembers what a former start of this program installed, so that a later one need not look at
//! all of it before it is ready.
//!
//! The record is a ConfigMap. It says which program wrote it, and of each object the revision at
//! which it was left: one that is still at its revision is as it was.

use std::fmt::Write;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;

use apiserver::endpoints::discovery::fingerprint;
use apiserver::server::Server;
use reconcile::{Context, Kind, Name};
use serde_json::{Value, json};
use store::{Key, Revision};

use crate::definitions::{MANAGER, kind_of};

const CONFIG_MAP: Kind = Kind::namespaced("", "v1", "ConfigMap", "configmaps");
const NAMESPACE: &str = "kube-system";
/// In the data of a record.
const PROGRAM: &str = "program";
const OBJECTS: &str = "objects";

/// What became of what a former start installed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// All of it is as it was left.
    Unchanged,
    /// All of it is there, and somebody has written some of it since.
    There,
    /// Some of it is missing, or another program was here last, or nobody.
    Unknown,
}

/// The record of one part of the program.
pub struct Record {
    server: Arc<Server>,
    context: Context,
    name: String,
    program: String,
}

impl Record {
    /// Of a part that installs other things for other choices.
    pub fn of(server: &Arc<Server>, context: &Context, part: &str, choice: &[&str]) -> Record {
        Record {
            server: server.clone(),
            context: context.clone(),
            name: format!("setpoint-installed-{part}"),
            program: format!("{:016x} {}", program(), choice.join(" ")),
        }
    }

    pub async fn look(&self) -> Found {
        let requests = self.context.requests(MANAGER, Default::default());
        let name = Name::new(NAMESPACE, self.name.as_str());
        let Ok(Some(record)) = requests.get(CONFIG_MAP, &name).await else { return Found::Unknown };
        let data = &record.value["data"];
        if data[PROGRAM] != self.program.as_str() {
            return Found::Unknown;
        }
        let objects = read(data[OBJECTS].as_str().unwrap_or_default());
        let mut found = Found::Unchanged;
        for (key, left_at) in objects {
            match self.server.store.get(&key, None).await {
                Ok(Some(entry)) if entry.modified == left_at => {}
                Ok(Some(_)) => found = Found::There,
                Ok(None) | Err(_) => return Found::Unknown,
            }
        }
        found
    }

    /// Writes down that these were installed.
    pub async fn write(&self, manifests: &[(Kind, Name)]) {
        let mut objects = String::new();
        for (kind, name) in manifests {
            let resource = self.server.registry.find(kind.group, kind.plural);
            let key = resource.and_then(|one| one.key(&name.namespace, &name.name).ok());
            let Some(key) = key else { return };
            let Ok(Some(entry)) = self.server.store.get(&key, None).await else { return };
            let _ = writeln!(objects, "{} {}", entry.modified.0, key.as_str());
        }
        let record = json!({"apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": self.name, "namespace": NAMESPACE},
            "data": {PROGRAM: self.program, OBJECTS: objects}});
        let requests = self.context.requests(MANAGER, Default::default());
        // Without it the next start looks at everything again.
        if let Err(error) = requests.apply(CONFIG_MAP, &record).await {
            tracing::warn!(name = self.name, error = %error.chain(), "not recorded");
        }
    }
}

/// The objects of manifests.
pub fn named(manifests: &[Value]) -> Vec<(Kind, Name)> {
    let each = |one: &Value| {
        let text = |field: &str| one["metadata"][field].as_str().unwrap_or_default();
        Some((kind_of(one)?, Name::new(text("namespace"), text("name"))))
    };
    manifests.iter().filter_map(each).collect()
}

fn read(objects: &str) -> impl Iterator<Item = (Key, Revision)> {
    objects.lines().filter_map(|line| {
        let (revision, key) = line.split_once(' ')?;
        Some((Key::new(key).ok()?, Revision(revision.parse().ok()?)))
    })
}

/// Tells this program from one that was built otherwise.
fn program() -> u64 {
    let file = std::env::current_exe().and_then(std::fs::metadata);
    let of_file = file.map(|file| (file.len(), file.mtime(), file.mtime_nsec())).ok();
    fingerprint(format!("{} {of_file:?}", env!("CARGO_PKG_VERSION")).as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_as_it_was_written_and_what_is_no_line_of_it_is_left_out() {
        let text = "12 namespaces/a\nx namespaces/b\n\n7 roles/a/b c\n";
        let found: Vec<(String, u64)> =
            read(text).map(|(key, at)| (key.as_str().to_owned(), at.0)).collect();
        assert_eq!(found, [("namespaces/a".to_owned(), 12), ("roles/a/b c".to_owned(), 7)]);
    }
}
