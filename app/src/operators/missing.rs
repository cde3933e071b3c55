//! What a cluster does not know that an operator needs, and what to do about it. It is waited for:
//! whoever starts an operator may install it a moment later.

use std::collections::BTreeMap;
use std::time::Duration;

use reconcile::requests::Requests;
use reconcile::{Error, Kind};
use serde_json::Value;

use super::readiness::Readiness;
use super::{ALL, Family, Operator};

/// How often is looked again.
const LOOK: Duration = Duration::from_secs(2);
/// How often is looked for what an operator can do without.
const LOOK_FOR_MORE: Duration = Duration::from_secs(5);

/// Waits until the cluster knows everything that an operator needs. Never returns if it never
/// does: the caller drops it.
pub async fn wait(
    requests: &Requests,
    (family, operator): (&dyn Family, &Operator),
    readiness: &Readiness,
) {
    let needs = [operator.needs, &family.demands(operator)].concat();
    loop {
        let why = match of(requests, &needs).await {
            Ok(missing) if missing.is_empty() => break,
            Ok(missing) => remedy(&missing),
            Err(error) => format!("could not ask the cluster what it knows: {}", error.chain()),
        };
        if readiness.waits(operator.name, why.clone()) {
            tracing::warn!(operator = operator.name, "{why}");
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Waits until the cluster knows more or less of the kinds than it did; returns what it then does
/// not know. Discovery is asked rather than definitions watched: everybody may ask it, and it
/// knows what other servers serve as well.
pub async fn changed(requests: &Requests, kinds: &[Kind], before: &[Kind]) -> Vec<Kind> {
    if kinds.is_empty() {
        return std::future::pending().await;
    }
    loop {
        tokio::time::sleep(LOOK_FOR_MORE).await;
        // Who cannot be asked has not changed.
        if let Ok(now) = of(requests, kinds).await
            && now != before
        {
            return now;
        }
    }
}

/// Those of the kinds that the cluster does not know.
pub async fn of(requests: &Requests, kinds: &[Kind]) -> Result<Vec<Kind>, Error> {
    let mut missing = Vec::new();
    let mut asked: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for kind in kinds {
        let path = format!("/apis/{}/{}", kind.group, kind.version);
        if !asked.contains_key(&path) {
            let served = match requests.read(&path).await {
                Ok(list) => names(&list),
                Err(error) if error.is_not_found() => Vec::new(),
                Err(error) => return Err(error),
            };
            asked.insert(path.clone(), served);
        }
        let served = asked.get(&path).map(Vec::as_slice).unwrap_or_default();
        if !served.iter().any(|name| name == kind.plural) {
            missing.push(*kind);
        }
    }
    Ok(missing)
}

fn names(list: &Value) -> Vec<String> {
    let resources = list["resources"].as_array().map(Vec::as_slice).unwrap_or_default();
    resources.iter().filter_map(|one| one["name"].as_str().map(str::to_owned)).collect()
}

fn remedy(missing: &[Kind]) -> String {
    let names: Vec<String> =
        missing.iter().map(|kind| format!("{} ({})", kind.kind, kind.api_version())).collect();
    let (names, enable) = (names.join(", "), definers(missing).join(","));
    match enable.is_empty() {
        // Only files ask for kinds that none of ours brings.
        true => format!(
            "the cluster does not know {names}; install what brings it, or do not ask for it in \
             the file"
        ),
        false => format!(
            "the cluster does not know {names}; install with `setpoint operator manifests \
             --enable {enable} | kubectl apply -f -`"
        ),
    }
}

/// The operators that bring the definitions of some kinds.
fn definers(kinds: &[Kind]) -> Vec<&'static str> {
    let mut found = Vec::new();
    for family in ALL {
        for operator in family.operators() {
            let manifests = family.manifests(&[operator.name]);
            let brings = |kind: &Kind| {
                let name = format!("{}.{}", kind.plural, kind.group);
                let is_it = |one: &Value| {
                    one["kind"] == "CustomResourceDefinition" && one["metadata"]["name"] == *name
                };
                manifests.iter().any(is_it)
            };
            if kinds.iter().any(brings) {
                found.push(operator.name);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_named_with_what_to_do() {
        let jobs = Kind::namespaced("trainer.kubeflow.org", "v1alpha1", "TrainJob", "trainjobs");
        let sets = Kind::namespaced("jobset.x-k8s.io", "v1alpha2", "JobSet", "jobsets");
        assert_eq!(
            remedy(&[jobs, sets]),
            "the cluster does not know TrainJob (trainer.kubeflow.org/v1alpha1), JobSet \
             (jobset.x-k8s.io/v1alpha2); install with `setpoint operator manifests --enable \
             trainer,jobset | kubectl apply -f -`"
        );
        // Who has only to be given JobSet is not told to install everything again.
        assert!(remedy(&[sets]).contains("--enable jobset |"));
        let cliques = Kind::namespaced("grove.io", "v1alpha1", "PodCliqueSet", "podcliquesets");
        assert!(remedy(&[cliques]).contains("install what brings it"));
    }
}
