//! The Python of a job that failed.

use serde_json::Value;

use super::cluster::Cluster;
use super::failure::Failure;
use crate::python;

/// Lines of output that are searched for an error of an import.
const LINES: u64 = 20;

/// Returns what to do about a module that a failed rank did not find.
pub async fn import_hint(cluster: &Cluster, job: &Value, failed: &Failure) -> Option<String> {
    let mut lines = Vec::new();
    let mut source = cluster.source(&failed.pod, &failed.container);
    source.previous = failed.is_previous;
    source.tail = Some(LINES);
    let keep = |_: &str, line: &str| lines.push(line.to_owned());
    source.read(&cluster.requests.client, keep).await.ok()?;
    let named = job["spec"]["trainer"]["command"][0].as_str().filter(|it| it.starts_with('/'));
    let of_server = cluster.python.as_ref().map(|it| it.executable.to_string_lossy().into_owned());
    python::import_hint(lines.iter().map(String::as_str), named.or(of_server.as_deref()))
}
