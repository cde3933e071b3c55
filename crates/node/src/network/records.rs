//! What is remembered of the network over a restart: the mark of the node, its range, and which pod
//! has which address. Each record is a small file that is written whole or not at all.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::Range;
use crate::runtime::HostPort;

/// Pods that are remembered.
const RECORDS_MAX: usize = 100_000;
/// Of a mark: names of interfaces are short.
const MARK_CHARACTERS: usize = 5;
const SETTINGS: &str = "settings";

/// What a pod has.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    pub address: Ipv4Addr,
    pub host_ports: Vec<HostPort>,
}

#[derive(Serialize, Deserialize)]
struct Settings {
    id: String,
    range: String,
}

/// Where the records are.
#[derive(Debug)]
pub struct Records(PathBuf);

impl Records {
    pub fn open(directory: &Path) -> io::Result<Records> {
        let directory = directory.join("network");
        fs::create_dir_all(&directory)?;
        Ok(Records(fs::canonicalize(directory)?))
    }

    pub fn directory(&self) -> &Path {
        &self.0
    }

    /// The mark of the node, the same for as long as its records are there, and its last range.
    pub fn settings(&self, node: &str) -> io::Result<(String, Option<Range>)> {
        let stored = fs::read(self.0.join(SETTINGS)).ok();
        let stored = stored.and_then(|bytes| serde_json::from_slice::<Settings>(&bytes).ok());
        if let Some(Settings { id, range }) = stored {
            return Ok((id, range.parse().ok()));
        }
        let place = self.0.to_string_lossy();
        let id = reconcile::names::digest(&[&*place, node]);
        Ok((id.chars().take(MARK_CHARACTERS).collect(), None))
    }

    pub fn keep_settings(&self, id: &str, range: Range) -> io::Result<()> {
        let settings = Settings { id: id.to_owned(), range: range.to_string() };
        self.put(SETTINGS, &settings)
    }

    /// By UID of the pod.
    pub fn all(&self) -> BTreeMap<String, Record> {
        let mut all = BTreeMap::new();
        for entry in fs::read_dir(&self.0).into_iter().flatten().flatten().take(RECORDS_MAX) {
            let name = entry.file_name().to_string_lossy().into_owned();
            let Some(uid) = name.strip_suffix(".json") else { continue };
            let read = fs::read(entry.path()).ok();
            if let Some(record) = read.and_then(|bytes| serde_json::from_slice(&bytes).ok()) {
                all.insert(uid.to_owned(), record);
            }
        }
        all
    }

    pub fn write(&self, uid: &str, record: &Record) -> io::Result<()> {
        self.put(&format!("{uid}.json"), record)
    }

    pub fn remove(&self, uid: &str) {
        let _ = fs::remove_file(self.0.join(format!("{uid}.json")));
    }

    fn put(&self, name: &str, value: &impl Serialize) -> io::Result<()> {
        if name.contains('/') {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let draft = self.0.join(format!("{name}.draft"));
        let mut file = File::create(&draft)?;
        file.write_all(&serde_json::to_vec(value)?)?;
        file.sync_data()?;
        fs::rename(&draft, self.0.join(name))
    }
}
