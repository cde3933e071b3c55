//! The support table: what a cluster of this program does with every kind and field that its API
//! accepts (`table.txt`).
//!
//! A row says that a kind or a field is implemented, accepted with a warning, or refused. Warnings
//! are answered from the table itself (`admission/support_warnings.rs`), so that it cannot say
//! something else than the server does. A row applies only where the component runs that would
//! have to act: a server without our controllers claims nothing of them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use serde_json::Value;

/// State of a kind or a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Support {
    /// It works; the note names tests that show it.
    Implemented,
    /// Stored without effect; the note is the warning.
    Warned,
    /// Refused, or waits with a reason; the note is that reason.
    Refused,
}

/// One row of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    pub support: Support,
    /// Requirements of a warning: components that run, and absences that admission looks up.
    pub conditions: Vec<&'static str>,
    /// `Pod`, or `apps/Deployment`.
    pub kind: &'static str,
    /// `spec.containers[].image`; empty for the kind as a whole. It covers all fields below it
    /// that have no row of their own.
    pub path: &'static str,
    /// The value that the row is about, if it is not about every value.
    pub value: Option<&'static str>,
    pub note: &'static str,
}

/// Condition of a warning that holds where no IngressClass of the name exists.
pub const NO_INGRESS_CLASS: &str = "no-ingress-class";
/// Condition of a warning that holds where a Service names no class of load balancers.
pub const NO_LOAD_BALANCER_CLASS: &str = "no-load-balancer-class";

/// Every row, in the order of the file.
pub fn rows() -> &'static [Row] {
    static ROWS: LazyLock<Vec<Row>> =
        LazyLock::new(|| include_str!("table.txt").lines().filter_map(parse).collect());
    &ROWS
}

/// Reads a line; `None` for comments and empty lines.
fn parse(line: &'static str) -> Option<Row> {
    let mut columns = line.split('|').map(str::trim);
    let support = match columns.next()? {
        "implemented" => Support::Implemented,
        "warned" => Support::Warned,
        "refused" => Support::Refused,
        _ => return None,
    };
    let conditions = columns.next()?.split(',').filter(|one| *one != "-").collect();
    let kind = columns.next()?;
    let field = columns.next()?;
    let (path, value) = match field.split_once('=') {
        Some((path, value)) => (path, Some(value)),
        None => (field, None),
    };
    Some(Row { support, conditions, kind, path, value, note: columns.next().unwrap_or_default() })
}

/// The name of a kind in the table.
pub fn kind_name(group: &str, kind: &str) -> String {
    if group.is_empty() { kind.to_owned() } else { format!("{group}/{kind}") }
}

/// Path of the pod template of a kind.
fn pod_template(kind: &str) -> Option<&'static str> {
    Some(match kind {
        "PodTemplate" => "template.",
        "ReplicationController"
        | "apps/DaemonSet"
        | "apps/Deployment"
        | "apps/ReplicaSet"
        | "apps/StatefulSet"
        | "batch/Job" => "spec.template.",
        "batch/CronJob" => "spec.jobTemplate.spec.template.",
        _ => return None,
    })
}

/// Rows that may warn, by kind.
fn warned() -> &'static BTreeMap<&'static str, Vec<&'static Row>> {
    static WARNED: LazyLock<BTreeMap<&'static str, Vec<&'static Row>>> = LazyLock::new(|| {
        let mut by_kind: BTreeMap<&'static str, Vec<&'static Row>> = BTreeMap::new();
        for row in rows().iter().filter(|row| row.support == Support::Warned) {
            by_kind.entry(row.kind).or_default().push(row);
        }
        by_kind
    });
    &WARNED
}

/// Returns whether any write of a kind may be warned of.
pub fn concerns(kind: &str) -> bool {
    warned().contains_key(kind) || pod_template(kind).is_some()
}

/// The warnings for an object, as far as their conditions hold.
pub fn warnings(kind: &str, object: &Value, holds: &BTreeSet<&str>) -> Vec<String> {
    let own = warned().get(kind).into_iter().flatten().map(|row| (*row, ""));
    let of_pods = pod_template(kind).into_iter().flat_map(|prefix| {
        warned().get("Pod").into_iter().flatten().map(move |row| (*row, prefix))
    });
    let applies = |row: &Row| row.conditions.iter().all(|one| holds.contains(one));
    own.chain(of_pods)
        .filter(|(row, _)| applies(row))
        .filter_map(|(row, prefix)| warning(row, prefix, object))
        .collect()
}

fn warning(row: &Row, prefix: &str, object: &Value) -> Option<String> {
    if row.path.is_empty() {
        return Some(format!("{}: {}", row.kind, row.note));
    }
    let path = format!("{prefix}{}", row.path);
    let at = find(object, &path, row.value)?;
    Some(format!("{at}: {}", row.note))
}

/// The path of the first place where an object has a field, with the indices of lists.
fn find(object: &Value, path: &str, value: Option<&str>) -> Option<String> {
    let (step, rest) = path.split_once('.').map_or((path, None), |(step, rest)| (step, Some(rest)));
    let (name, is_list) = step.strip_suffix("[]").map_or((step, false), |name| (name, true));
    let found = object.get(name).filter(|found| !is_empty(found))?;
    let below = |found: &Value, at: String| match rest {
        Some(rest) => find(found, rest, value).map(|below| format!("{at}.{below}")),
        None => value.is_none_or(|value| found.as_str() == Some(value)).then_some(at),
    };
    match (is_list, found) {
        (true, Value::Array(items)) => {
            let mut items = items.iter().enumerate();
            items.find_map(|(index, item)| below(item, format!("{name}[{index}]")))
        }
        _ => below(found, name.to_owned()),
    }
}

/// A field that says nothing.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => false,
    }
}

/// The row that covers a field: the one with the longest path that it is at or below.
pub fn covering(kind: &str, path: &str) -> Option<&'static Row> {
    let covers = |row: &&Row| {
        let rest = path.strip_prefix(row.path);
        let is_at = |rest: &str| rest.is_empty() || rest.starts_with(['.', '[']);
        !row.path.is_empty() && row.value.is_none() && rest.is_some_and(is_at)
    };
    let own = rows().iter().filter(|row| row.kind == kind);
    own.filter(covers).max_by_key(|row| row.path.len())
}

/// The row of a kind as a whole.
pub fn of_kind(kind: &str) -> Option<&'static Row> {
    rows().iter().find(|row| row.kind == kind && row.path.is_empty())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_line_of_the_table_is_a_row_or_a_comment() {
        let lines = include_str!("table.txt").lines();
        for line in lines.filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let row = parse(line).unwrap_or_else(|| panic!("{line}"));
            assert!(!row.note.is_empty() && line.split('|').count() == 5, "{line}");
        }
    }

    #[test]
    fn fields_without_effect_are_warned_of_where_the_component_runs() {
        let pod = json!({"spec": {"containers": [{"name": "a"}, {"name": "b",
            "resizePolicy": [{"resourceName": "cpu"}]}]}});
        let node = BTreeSet::from(["node"]);
        let found = warnings("Pod", &pod, &node);
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(found[0].starts_with("spec.containers[1].resizePolicy: "), "{found:?}");
        assert!(warnings("Pod", &pod, &BTreeSet::new()).is_empty());
        let deployment = json!({"spec": {"template": pod}});
        let found = warnings("apps/Deployment", &deployment, &node);
        assert!(found[0].starts_with("spec.template.spec.containers[1].resizePolicy: "));
    }

    #[test]
    fn kinds_that_no_controller_acts_on_are_warned_of() {
        let controllers = BTreeSet::from(["controllers"]);
        for kind in [
            "autoscaling/HorizontalPodAutoscaler",
            "networking.k8s.io/NetworkPolicy",
            "ReplicationController",
            "certificates.k8s.io/CertificateSigningRequest",
        ] {
            let found = warnings(kind, &json!({}), &controllers);
            assert_eq!(found.len(), 1, "{kind} {found:?}");
            assert!(found[0].starts_with(kind), "{found:?}");
            assert!(warnings(kind, &json!({}), &BTreeSet::new()).is_empty());
        }
        let kind = "apiregistration.k8s.io/APIService";
        let local = json!({"spec": {"group": "apps"}});
        let other = json!({"spec": {"service": {"name": "s", "namespace": "n"}}});
        assert!(warnings(kind, &local, &controllers).is_empty());
        assert_eq!(warnings(kind, &other, &BTreeSet::new()).len(), 1);
    }

    #[test]
    fn a_row_covers_what_is_below_it_and_the_longest_one_decides() {
        let path = |path: &str| covering("Pod", path).map(|row| row.path);
        assert_eq!(path("spec.containers[].env[].value"), Some("spec.containers[].env"));
        assert_eq!(
            path("spec.containers[].env[].valueFrom.fileKeyRef.key"),
            Some("spec.containers[].env[].valueFrom.fileKeyRef")
        );
        assert_eq!(path("spec.containersX"), None);
    }
}
