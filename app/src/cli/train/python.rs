//! The Python of a job that failed.

use serde_json::Value;

use super::cluster::Cluster;
use super::failure::Failure;
use crate::python;

/// Lines of output that are searched for an error of an import.
const LINES: u32 = 20;

/// Returns what to do about a module that a failed rank did not find.
pub async fn import_hint(cluster: &Cluster, job: &Value, failed: &Failure) -> Option<String> {
    let mut lines = Vec::new();
    let previous = if failed.is_previous { "&previous=true" } else { "" };
    let query = format!("&tailLines={LINES}{previous}");
    let keep = |line: &str| lines.push(line.to_owned());
    cluster.log_lines(&failed.pod, &failed.container, &query, keep).await.ok()?;
    let named = job["spec"]["trainer"]["command"][0].as_str().filter(|it| it.starts_with('/'));
    let of_server = cluster.python.as_ref().map(|it| it.executable.to_string_lossy().into_owned());
    python::import_hint(lines.iter().map(String::as_str), named.or(of_server.as_deref()))
}
