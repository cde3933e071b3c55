//! Gives isolated pods the directories that a command names: they can be read, and not written.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use node::pod::confinement::{ISOLATED, ISOLATION};
use node::pod::readable;
use node::python::{Interpreters, is_interpreter};
use reconcile::requests::Requests;
use reconcile::{Kind, Name};

use crate::node_agent;

const NAMESPACE: Kind = Kind::cluster("", "v1", "Namespace", "namespaces");

/// Directories for the pods of a namespace.
pub struct Named<'a> {
    /// Data directory of the server, which is on this host.
    pub data: &'a Path,
    pub namespace: &'a str,
    pub directory: &'a Path,
    /// Program of the pods. The installation of a Python interpreter is added.
    pub program: &'a str,
}

impl Named<'_> {
    /// Adds the directories if the pods of the namespace are isolated.
    pub async fn add(&self, requests: &Requests) -> Result<()> {
        let namespace = requests.get(NAMESPACE, &Name::new("", self.namespace)).await;
        let namespace = namespace.ok().flatten();
        if namespace.is_none_or(|it| it.label(ISOLATION) != Some(ISOLATED)) {
            return Ok(());
        }
        let mut directories = vec![self.directory.to_owned()];
        directories.extend(self.installation().await);
        readable::add(&self.data.join(node_agent::DIRECTORY), self.namespace, &directories)
            .context("could not let the pods read the directory")
    }

    async fn installation(&self) -> Vec<PathBuf> {
        if !is_interpreter(self.program) {
            return Vec::new();
        }
        let inspected = Interpreters::default().inspect(Path::new(self.program)).await;
        inspected.map(|interpreter| interpreter.readable()).unwrap_or_default()
    }
}
