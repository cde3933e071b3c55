//! Terms by which pods want to be near or far from other pods, and constraints on their spread.

use std::collections::BTreeSet;
use std::sync::Arc;

use serde_json::Value;

use crate::labels::{Labels, Operator, Requirement, Selector, list, text};

/// Which pods are meant: those in certain namespaces with certain labels.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Matcher {
    pub namespaces: BTreeSet<Arc<str>>,
    /// Namespaces by their labels, beside those named.
    pub namespace_selector: Option<Selector>,
    pub selector: Selector,
    /// Whether pods that are being deleted do not count.
    pub ignores_terminating: bool,
}

/// Pods that are meant, and what counts as one place.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Term {
    pub matcher: Matcher,
    pub topology: Arc<str>,
}

/// A constraint on how evenly pods are spread.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Spread {
    pub matcher: Matcher,
    pub topology: Arc<str>,
    pub skew_max: i64,
    pub domains_min: i64,
    /// Whether a node that would break it is refused, or only less liked.
    pub is_hard: bool,
    pub honors_affinity: bool,
    pub honors_taints: bool,
    /// Whether the pod counts itself.
    pub matches_self: bool,
}

/// What a pod says about other pods.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Relations {
    pub near: Vec<Term>,
    pub far: Vec<Term>,
    /// With weights; those to be far from have negative ones.
    pub preferred: Vec<(i64, Term)>,
    pub spread: Vec<Spread>,
}

impl Relations {
    pub fn is_empty(&self) -> bool {
        self.has_no_terms() && self.spread.is_empty()
    }

    pub fn has_no_terms(&self) -> bool {
        self.near.is_empty() && self.far.is_empty() && self.preferred.is_empty()
    }

    pub fn read(namespace: &str, labels: &Labels, spec: &Value) -> Relations {
        const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
        const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";
        let affinity = &spec["affinity"];
        let term = |value: &Value| term(namespace, labels, value);
        let mut preferred = Vec::new();
        for (field, sign) in [("podAffinity", 1), ("podAntiAffinity", -1)] {
            for one in list(&affinity[field][PREFERRED]) {
                let weight = one["weight"].as_i64().unwrap_or(0) * sign;
                preferred.push((weight, term(&one["podAffinityTerm"])));
            }
        }
        Relations {
            near: list(&affinity["podAffinity"][REQUIRED]).map(term).collect(),
            far: list(&affinity["podAntiAffinity"][REQUIRED]).map(term).collect(),
            preferred,
            spread: list(&spec["topologySpreadConstraints"])
                .map(|value| spread(namespace, labels, value))
                .collect(),
        }
    }
}

fn term(namespace: &str, labels: &Labels, value: &Value) -> Term {
    let mut selector = Selector::read(&value["labelSelector"]);
    add_own_labels(&mut selector, labels, &value["matchLabelKeys"], Operator::In);
    add_own_labels(&mut selector, labels, &value["mismatchLabelKeys"], Operator::NotIn);
    let mut namespaces: BTreeSet<Arc<str>> =
        list(&value["namespaces"]).map(|name| text(name).into()).collect();
    let namespace_selector = (!value["namespaceSelector"].is_null())
        .then(|| Selector::read(&value["namespaceSelector"]));
    if namespaces.is_empty() && namespace_selector.is_none() {
        namespaces.insert(namespace.into());
    }
    let matcher = Matcher { namespaces, namespace_selector, selector, ignores_terminating: false };
    Term { matcher, topology: text(&value["topologyKey"]).into() }
}

fn spread(namespace: &str, labels: &Labels, value: &Value) -> Spread {
    let mut selector = Selector::read(&value["labelSelector"]);
    add_own_labels(&mut selector, labels, &value["matchLabelKeys"], Operator::In);
    let matches_self = selector.matches(labels);
    let matcher = Matcher {
        namespaces: BTreeSet::from([namespace.into()]),
        namespace_selector: None,
        selector,
        ignores_terminating: true,
    };
    Spread {
        matcher,
        topology: text(&value["topologyKey"]).into(),
        skew_max: value["maxSkew"].as_i64().unwrap_or(1),
        domains_min: value["minDomains"].as_i64().unwrap_or(1),
        is_hard: text(&value["whenUnsatisfiable"]) != "ScheduleAnyway",
        honors_affinity: text(&value["nodeAffinityPolicy"]) != "Ignore",
        honors_taints: text(&value["nodeTaintsPolicy"]) == "Honor",
        matches_self,
    }
}

/// Selects also by the pod's own value of some labels.
fn add_own_labels(
    selector: &mut Selector,
    labels: &Labels,
    keys: &Value,
    operator: fn(Vec<Arc<str>>) -> Operator,
) {
    if selector.is_absent {
        return;
    }
    for key in list(keys).map(text) {
        if let Some((key, value)) = labels.get_key_value(key) {
            let requirement =
                Requirement { key: key.clone(), operator: operator(vec![value.clone()]) };
            if !selector.requirements.contains(&requirement) {
                selector.requirements.push(requirement);
            }
        }
    }
}

impl Matcher {
    /// Whether a pod is meant. `labels_of` gives the labels of a namespace.
    pub fn matches<'a>(
        &self,
        namespace: &str,
        labels: &Labels,
        labels_of: impl FnOnce(&str) -> Option<&'a Labels>,
    ) -> bool {
        let is_namespace = self.namespaces.contains(namespace)
            || self.namespace_selector.as_ref().is_some_and(|selector| {
                // An empty selector means every namespace, also one that was not seen yet.
                match labels_of(namespace) {
                    Some(labels) => selector.matches(labels),
                    None => selector.requirements.is_empty() && !selector.is_absent,
                }
            });
        is_namespace && self.selector.matches(labels)
    }
}
