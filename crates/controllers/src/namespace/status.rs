//! Why a namespace is still there: five conditions.

use std::collections::BTreeMap;

use k8s_openapi::jiff::Timestamp;
use reconcile::conditions::{self, Condition, Truth};
use reconcile::{Error, Object};
use serde_json::{Value, json};

use super::observe::Observed;

/// A condition: its type, and reason and message while nothing is wrong.
struct Fact {
    kind: &'static str,
    fine: (&'static str, &'static str),
    /// The reason when something is.
    wrong: &'static str,
}

const DISCOVERY: Fact = Fact {
    kind: "NamespaceDeletionDiscoveryFailure",
    fine: ("ResourcesDiscovered", "All resources successfully discovered"),
    wrong: "DiscoveryFailed",
};
const PARSING: Fact = Fact {
    kind: "NamespaceDeletionGroupVersionParsingFailure",
    fine: ("ParsedGroupVersions", "All legacy kube types successfully parsed"),
    wrong: "GroupVersionParsingFailed",
};
const DELETION: Fact = Fact {
    kind: "NamespaceDeletionContentFailure",
    fine: ("ContentDeleted", "All content successfully deleted, may be waiting on finalization"),
    wrong: "ContentDeletionFailed",
};
const CONTENT: Fact = Fact {
    kind: "NamespaceContentRemaining",
    fine: ("ContentRemoved", "All content successfully removed"),
    wrong: "SomeResourcesRemain",
};
const FINALIZERS: Fact = Fact {
    kind: "NamespaceFinalizersRemaining",
    fine: ("ContentHasNoFinalizers", "All content-preserving finalizers finished"),
    wrong: "SomeFinalizersRemain",
};

pub fn status(
    namespace: &Object,
    observed: &Observed,
    error: Option<&Error>,
    now: Timestamp,
) -> Value {
    let mut status = namespace.value["status"].clone();
    status["phase"] = json!("Terminating");
    let mut conditions = status["conditions"].as_array().cloned().unwrap_or_default();
    let deletion = error.map(|error| {
        let kinds = observed.content.len();
        format!("Failed to delete all resource types, {kinds} remaining: {}", error.chain())
    });
    let facts = [
        (DISCOVERY, undiscovered(&observed.stale)),
        (PARSING, None),
        (DELETION, deletion),
        (CONTENT, remaining(observed)),
        (FINALIZERS, held(observed)),
    ];
    for (fact, wrong) in facts {
        let condition = Condition {
            kind: fact.kind,
            status: if wrong.is_some() { Truth::True } else { Truth::False },
            reason: if wrong.is_some() { fact.wrong } else { fact.fine.0 },
            message: wrong.as_deref().unwrap_or(fact.fine.1),
            observed_generation: None,
        };
        conditions::set(&mut conditions, &condition, now);
    }
    status["conditions"] = json!(conditions);
    status
}

fn undiscovered(stale: &[String]) -> Option<String> {
    let why = |one: &String| format!("{one}: stale GroupVersion discovery: {one}");
    let all: Vec<String> = stale.iter().map(why).collect();
    let (count, all) = (all.len(), all.join(", "));
    (count > 0).then(|| {
        format!(
            "Discovery failed for some groups, {count} failing: unable to retrieve the complete \
             list of server APIs: {all}"
        )
    })
}

fn remaining(observed: &Observed) -> Option<String> {
    let mut all: Vec<String> = Vec::new();
    for content in &observed.content {
        let (kind, count) = (content.served.kind, content.count);
        all.push(format!("{}.{} has {count} resource instances", kind.plural, kind.group));
    }
    all.sort();
    (!all.is_empty()).then(|| format!("Some resources are remaining: {}", all.join(", ")))
}

fn held(observed: &Observed) -> Option<String> {
    let mut finalizers: BTreeMap<&str, usize> = BTreeMap::new();
    for (name, count) in observed.content.iter().flat_map(|content| &content.finalizers) {
        *finalizers.entry(name).or_default() += count;
    }
    let text = |(name, count)| format!("{name} in {count} resource instances");
    let all: Vec<String> = finalizers.into_iter().map(text).collect();
    (!all.is_empty()).then(|| {
        format!("Some content in the namespace has finalizers remaining: {}", all.join(", "))
    })
}
