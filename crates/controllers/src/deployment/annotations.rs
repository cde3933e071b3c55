//! What a Deployment writes on its ReplicaSets: its own annotations, the revision, and how many
//! pods were asked for when it was last scaled.

use std::collections::BTreeMap;

use reconcile::Object;
use serde_json::Value;

pub const REVISION: &str = "deployment.kubernetes.io/revision";
pub const HISTORY: &str = "deployment.kubernetes.io/revision-history";
pub const DESIRED: &str = "deployment.kubernetes.io/desired-replicas";
pub const TOTAL_MAX: &str = "deployment.kubernetes.io/max-replicas";

/// Annotations of a Deployment that its ReplicaSets do not get.
const NOT_COPIED: [&str; 6] = [
    "kubectl.kubernetes.io/last-applied-configuration",
    REVISION,
    HISTORY,
    DESIRED,
    TOTAL_MAX,
    "deprecated.deployment.rollback.to",
];
/// How long the list of former revisions may get.
const HISTORY_BYTES_MAX: usize = 2_000;

pub type Annotations = BTreeMap<String, String>;

pub fn of(object: &Object) -> Annotations {
    let all = object.value["metadata"]["annotations"].as_object();
    let text = |(key, value): (&String, &Value)| Some((key.clone(), value.as_str()?.to_owned()));
    all.into_iter().flatten().filter_map(text).collect()
}

pub fn number(annotations: &Annotations, name: &str) -> Option<i64> {
    annotations.get(name)?.parse().ok()
}

/// The ReplicaSet of the template takes over what its Deployment says, and the newest revision.
pub fn renew(annotations: &mut Annotations, deployment: &Object, revision: i64) {
    let copied = of(deployment).into_iter().filter(|(key, _)| !NOT_COPIED.contains(&key.as_str()));
    annotations.extend(copied);
    let former = annotations.get(REVISION).cloned();
    let number = former.as_ref().map_or(Some(0), |former| former.parse::<i64>().ok());
    // A revision that is no number was written by somebody else and stays.
    let Some(number) = number else { return };
    if number >= revision {
        return;
    }
    annotations.insert(REVISION.to_owned(), revision.to_string());
    if let Some(former) = former {
        remember(annotations, &former);
    }
}

/// Adds a former revision to the list of them; the oldest go when it gets too long.
fn remember(annotations: &mut Annotations, former: &str) {
    let list = annotations.get(HISTORY).cloned().unwrap_or_default();
    let mut all: Vec<&str> = list.split(',').filter(|one| !one.is_empty()).collect();
    all.push(former);
    let mut text = all.join(",");
    while text.len() > HISTORY_BYTES_MAX && all.len() > 1 {
        all.remove(0);
        text = all.join(",");
    }
    annotations.insert(HISTORY.to_owned(), text);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn deployment() -> Object {
        Object::new(json!({"metadata": {"name": "web", "annotations": {
            "kubernetes.io/change-cause": "second", REVISION: "2",
            "kubectl.kubernetes.io/last-applied-configuration": "{}"}}}))
    }

    #[test]
    fn the_cause_of_a_change_is_carried_over_and_what_kubectl_keeps_is_not() {
        let mut annotations = Annotations::new();
        renew(&mut annotations, &deployment(), 2);
        let expected =
            [("deployment.kubernetes.io/revision", "2"), ("kubernetes.io/change-cause", "second")];
        let expected = expected.map(|(key, value)| (key.to_owned(), value.to_owned()));
        assert_eq!(annotations, Annotations::from(expected));
    }

    #[test]
    fn former_revisions_are_listed_and_the_oldest_go() {
        let mut annotations = Annotations::new();
        for revision in 1..=900 {
            renew(&mut annotations, &deployment(), revision);
        }
        let history = &annotations[HISTORY];
        assert!(history.len() <= HISTORY_BYTES_MAX, "{}", history.len());
        assert!(history.ends_with("898,899"), "{history}");
        assert_eq!(annotations[REVISION], "900");
    }

    #[test]
    fn a_revision_never_goes_back() {
        let mut annotations = Annotations::from([(REVISION.to_owned(), "7".to_owned())]);
        renew(&mut annotations, &deployment(), 3);
        assert_eq!(annotations[REVISION], "7");
        annotations.insert(REVISION.to_owned(), "odd".to_owned());
        renew(&mut annotations, &deployment(), 8);
        assert_eq!(annotations[REVISION], "odd");
    }
}
