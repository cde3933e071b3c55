//! What a namespace uses of a quota, by looking at everything there.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::super::lookup;
use super::super::pod_amounts::{self, Amounts};
use super::usage::{Counted, matches, usage};
use crate::quantity::Quantity;
use crate::registry::edit;
use crate::server::Server;
use crate::status::Error;

/// The `used` of a quota.
pub async fn count(server: &Server, namespace: &str, quota: &Value) -> Result<Value, Error> {
    let names: Vec<&String> =
        edit::map(quota, &["spec", "hard"]).into_iter().flatten().map(|(name, _)| name).collect();
    let counted: BTreeSet<(&str, &str)> = names.iter().filter_map(|name| what(name)).collect();
    let mut total = Amounts::new();
    for (group, resource) in counted {
        let counted = Counted { group, resource };
        for entry in lookup::entries(server, group, resource, namespace).await? {
            let object = lookup::read(&entry);
            if matches(quota, counted, &object) {
                pod_amounts::add(&mut total, &usage(counted, &object));
            }
        }
    }
    let used = |name: &String| total.get(name).copied().unwrap_or(Quantity::ZERO);
    Ok(names.into_iter().map(|name| (name.clone(), json!(used(name).to_string()))).collect())
}

/// Whether a quota limits anything that objects of this kind use.
pub fn is_about(quota: &Value, counted: Counted<'_>) -> bool {
    let mut hard = edit::map(quota, &["spec", "hard"]).into_iter().flatten();
    hard.any(|(name, _)| what(name) == Some((counted.group, counted.resource)))
}

/// Group and resource of the objects that use what a quota limits.
fn what(name: &str) -> Option<(&str, &str)> {
    if let Some(counted) = name.strip_prefix("count/") {
        let (resource, group) = counted.split_once('.').unwrap_or((counted, ""));
        return Some((group, resource));
    }
    match name {
        "configmaps" | "replicationcontrollers" | "resourcequotas" | "secrets" | "services" => {
            Some(("", name))
        }
        "services.nodeports" | "services.loadbalancers" => Some(("", "services")),
        "persistentvolumeclaims" | "requests.storage" => Some(("", "persistentvolumeclaims")),
        _ if name.contains(".storageclass.storage.k8s.io/") => Some(("", "persistentvolumeclaims")),
        _ => Some(("", "pods")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_that_is_limited_is_used_by_something() {
        for (name, expected) in [
            ("pods", ("", "pods")),
            ("limits.cpu", ("", "pods")),
            ("requests.nvidia.com/gpu", ("", "pods")),
            ("requests.storage", ("", "persistentvolumeclaims")),
            ("gold.storageclass.storage.k8s.io/requests.storage", ("", "persistentvolumeclaims")),
            ("services.nodeports", ("", "services")),
            ("count/deployments.apps", ("apps", "deployments")),
            ("count/jobs.batch", ("batch", "jobs")),
            ("count/pods", ("", "pods")),
            ("secrets", ("", "secrets")),
        ] {
            assert_eq!(what(name), Some(expected), "{name}");
        }
    }
}
