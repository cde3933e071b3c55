//! `setpoint apply`: brings objects of files into a cluster, by server-side apply.

use std::fmt;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use clap::Args;
use kube::Api;
use kube::api::{DynamicObject, Patch, PatchParams};
use kube::core::GroupVersionKind;
use kube::discovery::{ApiResource, Scope, pinned_kind};
use serde::Serialize;
use serde_json::Value;

use super::connect::{self, Target};
use super::exit;
use super::wait::{Waited, parse_duration, until_done};
use super::{Context, small_runtime};

/// Who owns the fields of what is applied.
const MANAGER: &str = "setpoint";

const AFTER_HELP: &str = "\
Examples:
  setpoint apply -f job.yaml                   a file of any number of objects
  setpoint apply -f manifests/ -n team         all .yaml, .yml and .json files of a directory
  cat job.yaml | setpoint apply -f -           what comes on standard input
  setpoint apply -f job.yaml --dry-run         what would happen
  setpoint apply -f site.yaml --wait           and wait until it is ready

Fields that somebody else owns are left alone and said, unless --force-conflicts is given.

Exit codes:
  0  all are as the files say
  1  one could not be applied; those before it were
  3  one was not ready within --timeout
  4  one failed
  6  others own fields that the files say
  7  it is not allowed";

/// Bring objects of files into a cluster.
#[derive(Args)]
#[command(after_help = AFTER_HELP)]
pub struct Apply {
    /// A file in YAML or JSON, or a directory of such files; may be given more than once.
    #[arg(short, long = "filename", visible_alias = "file", value_name = "FILE", required = true)]
    files: Vec<PathBuf>,

    #[command(flatten)]
    target: Target,

    /// Take over fields that somebody else owns.
    #[arg(long)]
    force_conflicts: bool,

    /// Ask the server what would happen, and change nothing.
    #[arg(long)]
    dry_run: bool,

    /// Wait until all are ready, and say on stderr what they wait for.
    #[arg(long, conflicts_with = "dry_run")]
    wait: bool,

    /// How long is waited with --wait, for each.
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = parse_duration)]
    timeout: Duration,
}

/// What became of one object.
#[derive(Serialize)]
struct Applied {
    kind: String,
    namespace: String,
    name: String,
    what: &'static str,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    dry_run: bool,
}

impl fmt::Display for Applied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let note = if self.dry_run { " (dry run)" } else { "" };
        write!(f, "{}/{} {}{note}", self.kind, self.name, self.what)
    }
}

impl Apply {
    pub fn run(&self, context: &Context) -> Result<ExitCode> {
        let mut objects = Vec::new();
        for file in &self.files {
            for path in files_of(file)? {
                let read = read(&path)?;
                objects.extend(read.into_iter().map(|object| (path.clone(), object)));
            }
        }
        if objects.is_empty() {
            bail!("there is no object in what was given with -f");
        }
        small_runtime()?.block_on(async {
            let client = connect::connect(&self.target, MANAGER).await?.client;
            let mut all = Vec::new();
            for (path, object) in objects {
                let applied = self.apply(&client, object).await;
                let (applied, api) = applied.with_context(|| path.display().to_string())?;
                context.output.print(&applied)?;
                all.push((applied, api));
            }
            if self.wait {
                for (applied, api) in &all {
                    self.wait_for(applied, api).await?;
                }
            }
            Ok(ExitCode::SUCCESS)
        })
    }

    async fn wait_for(&self, applied: &Applied, api: &Api<DynamicObject>) -> Result<()> {
        let what = format!("{}/{}", applied.kind, applied.name);
        let hint = format!("kubectl describe {what} -n {}", self.target.namespace);
        let waited = Waited { what: &what, timeout: self.timeout, hint };
        let look = || async {
            match api.get_opt(&applied.name).await.map_err(said)? {
                Some(object) => anyhow::Ok(Some(serde_json::to_value(object)?)),
                None => Ok(None),
            }
        };
        until_done(&waited, look).await
    }

    async fn apply(
        &self,
        client: &kube::Client,
        object: Value,
    ) -> Result<(Applied, Api<DynamicObject>)> {
        let (resource, scope) = resource_of(client, &object).await?;
        let mut object: DynamicObject =
            serde_json::from_value(object).context("not an object of Kubernetes")?;
        let name = object.metadata.name.clone().context("metadata.name is missing")?;
        let api: Api<DynamicObject> = match scope {
            Scope::Cluster => Api::all_with(client.clone(), &resource),
            Scope::Namespaced => {
                let said =
                    object.metadata.namespace.get_or_insert_with(|| self.target.namespace.clone());
                Api::namespaced_with(client.clone(), said, &resource)
            }
        };
        let revision = |object: &DynamicObject| object.metadata.resource_version.clone();
        let before = api.get_opt(&name).await.map_err(said)?.as_ref().and_then(revision);
        let mut parameters = PatchParams::apply(MANAGER);
        parameters.force = self.force_conflicts;
        parameters.dry_run = self.dry_run;
        let after = api.patch(&name, &parameters, &Patch::Apply(&object)).await.map_err(said)?;
        let what = match before {
            None => "created",
            before if before == revision(&after) => "unchanged",
            _ => "configured",
        };
        let group = if resource.group.is_empty() { "" } else { "." };
        let applied = Applied {
            kind: format!("{}{group}{}", resource.kind.to_lowercase(), resource.group),
            namespace: object.metadata.namespace.unwrap_or_default(),
            name,
            what,
            dry_run: self.dry_run,
        };
        Ok((applied, api))
    }
}

/// What the server said, in its own words.
fn said(error: kube::Error) -> anyhow::Error {
    match error {
        kube::Error::Api(status) => exit::said(status.code, status.message),
        other => other.into(),
    }
}

/// What the server calls the kind of an object.
async fn resource_of(client: &kube::Client, object: &Value) -> Result<(ApiResource, Scope)> {
    let text = |field: &str| object[field].as_str().unwrap_or_default();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    if api_version.is_empty() || kind.is_empty() {
        bail!("an object says no apiVersion or no kind");
    }
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let found = pinned_kind(client, &GroupVersionKind::gvk(group, version, kind)).await;
    let (resource, capabilities) = found.with_context(|| {
        format!("the cluster does not serve {kind} of {api_version}; see `kubectl api-resources`")
    })?;
    Ok((resource, capabilities.scope))
}

/// The files that are meant, in the order of their names.
pub(super) fn files_of(path: &Path) -> Result<Vec<PathBuf>> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let reading = || format!("could not read the directory {}", path.display());
    let mut files = Vec::new();
    for entry in std::fs::read_dir(path).with_context(reading)? {
        let file = entry.with_context(reading)?.path();
        let end = file.extension().and_then(|end| end.to_str()).unwrap_or_default();
        if matches!(end, "yaml" | "yml" | "json") {
            files.push(file);
        }
    }
    files.sort();
    Ok(files)
}

pub(super) fn read(path: &Path) -> Result<Vec<Value>> {
    let reading = || format!("could not read {}", path.display());
    let text = match path.to_str() {
        Some("-") => {
            let mut text = String::new();
            std::io::stdin().read_to_string(&mut text).with_context(reading)?;
            text
        }
        _ => std::fs::read_to_string(path).with_context(reading)?,
    };
    let documents: Vec<Value> = serde_saphyr::from_multiple(&text).with_context(reading)?;
    Ok(documents.into_iter().flat_map(objects_of).collect())
}

/// A document is an object, a list of objects, or nothing.
fn objects_of(mut document: Value) -> Vec<Value> {
    let is_list = document["kind"].as_str().is_some_and(|kind| kind.ends_with("List"));
    match document.get_mut("items").map(Value::take) {
        Some(Value::Array(items)) if is_list => items,
        _ if document.is_null() => Vec::new(),
        _ => vec![document],
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_document_is_an_object_a_list_or_nothing() {
        let count = |document: Value| objects_of(document).len();
        assert_eq!(count(Value::Null), 0);
        assert_eq!(count(json!({"kind": "Pod"})), 1);
        assert_eq!(count(json!({"kind": "List", "items": [{"kind": "Pod"}, {"kind": "Pod"}]})), 2);
    }
}
