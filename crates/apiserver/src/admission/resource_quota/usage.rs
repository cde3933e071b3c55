//! ResourceQuota: what an object uses, and whether its namespace may use so much.
//!
//! Upstream: pkg/quota/v1/evaluator/core, staging/apiserver/pkg/admission/plugin/resourcequota

use serde_json::{Value, json};

use super::super::Refusal;
use super::super::pod_amounts::{self, Amounts};
use crate::quantity::Quantity;
use crate::registry::builtin::pod::qos;
use crate::registry::builtin::service;
use crate::registry::edit::{self, text};

/// The kind of a counted object.
#[derive(Clone, Copy, Debug)]
pub struct Counted<'a> {
    pub group: &'a str,
    /// The plural name.
    pub resource: &'a str,
}

/// Counted under their own name, not only under `count/`.
const BY_NAME: [&str; 6] = [
    "configmaps",
    "persistentvolumeclaims",
    "replicationcontrollers",
    "resourcequotas",
    "secrets",
    "services",
];

/// All that an object uses. A pod that is over uses nothing of the machine.
pub fn usage(counted: Counted<'_>, object: &Value) -> Amounts {
    let one = Quantity::from_i64(1);
    let mut used = Amounts::new();
    let count = match counted.group {
        "" => format!("count/{}", counted.resource),
        group => format!("count/{}.{group}", counted.resource),
    };
    used.insert(count, one);
    if !counted.group.is_empty() {
        return used;
    }
    if BY_NAME.contains(&counted.resource) {
        used.insert(counted.resource.to_owned(), one);
    }
    match counted.resource {
        "pods" if !is_over(object) => add_pod(object, &mut used),
        "services" => add_service(object, &mut used),
        "persistentvolumeclaims" => add_claim(object, &mut used),
        _ => {}
    }
    used
}

fn is_over(pod: &Value) -> bool {
    ["Succeeded", "Failed"].contains(&text(pod, &["status", "phase"]))
}

fn add_pod(pod: &Value, used: &mut Amounts) {
    used.insert("pods".to_owned(), Quantity::from_i64(1));
    for (name, amount) in pod_amounts::of(pod, "requests") {
        let plain = ["cpu", "memory", "ephemeral-storage"].contains(&name.as_str())
            || name.starts_with("hugepages-");
        if plain {
            used.insert(name.clone(), amount);
        }
        used.insert(format!("requests.{name}"), amount);
    }
    for (name, amount) in pod_amounts::of(pod, "limits") {
        if ["cpu", "memory", "ephemeral-storage"].contains(&name.as_str()) {
            used.insert(format!("limits.{name}"), amount);
        }
    }
}

fn add_service(object: &Value, used: &mut Amounts) {
    let ports = edit::list(object, &["spec", "ports"]);
    let number = i64::try_from(ports.len()).unwrap_or(i64::MAX);
    let given = ports.iter().filter(|it| edit::int(it, &["nodePort"]).unwrap_or(0) != 0).count();
    let nodes = match text(object, &["spec", "type"]) {
        "NodePort" => number,
        "LoadBalancer" if service::needs_node_ports(object) => number,
        "LoadBalancer" => i64::try_from(given).unwrap_or(i64::MAX),
        _ => 0,
    };
    let balancers = i64::from(text(object, &["spec", "type"]) == "LoadBalancer");
    used.insert("services.nodeports".to_owned(), Quantity::from_i64(nodes));
    used.insert("services.loadbalancers".to_owned(), Quantity::from_i64(balancers));
}

fn add_claim(claim: &Value, used: &mut Amounts) {
    let class = text(claim, &["spec", "storageClassName"]);
    let prefix = format!("{class}.storageclass.storage.k8s.io/");
    let requests = pod_amounts::read(edit::at(claim, &["spec", "resources", "requests"]));
    let storage = requests.get("storage").copied();
    if let Some(storage) = storage {
        used.insert("requests.storage".to_owned(), storage);
    }
    if !class.is_empty() {
        used.insert(format!("{prefix}persistentvolumeclaims"), Quantity::from_i64(1));
        if let Some(storage) = storage {
            used.insert(format!("{prefix}requests.storage"), storage);
        }
    }
}

/// Whether a quota is about this object at all.
pub fn matches(quota: &Value, counted: Counted<'_>, object: &Value) -> bool {
    let plain = edit::list(quota, &["spec", "scopes"]).iter();
    let plain = plain.map(|scope| json!({"scopeName": scope, "operator": "Exists"}));
    let chosen = edit::list(quota, &["spec", "scopeSelector", "matchExpressions"]).iter();
    plain.chain(chosen.cloned()).all(|it| in_scope(&it, counted, object))
}

fn in_scope(expression: &Value, counted: Counted<'_>, object: &Value) -> bool {
    let is_pod = counted.group.is_empty() && counted.resource == "pods";
    let is_claim = counted.group.is_empty() && counted.resource == "persistentvolumeclaims";
    let values = edit::list(expression, &["values"]);
    let chosen = |value: &str| match text(expression, &["operator"]) {
        "In" => values.iter().any(|it| it == value),
        "NotIn" => !values.iter().any(|it| it == value),
        "DoesNotExist" => value.is_empty(),
        _ => !value.is_empty(),
    };
    let deadline = edit::has(object, &["spec", "activeDeadlineSeconds"]);
    let best_effort = || qos::class(object) == "BestEffort";
    match text(expression, &["scopeName"]) {
        "Terminating" => is_pod && deadline,
        "NotTerminating" => is_pod && !deadline,
        "BestEffort" => is_pod && best_effort(),
        "NotBestEffort" => is_pod && !best_effort(),
        "PriorityClass" => is_pod && chosen(text(object, &["spec", "priorityClassName"])),
        "CrossNamespacePodAffinity" => is_pod && crosses_namespaces(object),
        "VolumeAttributesClass" => {
            is_claim && chosen(text(object, &["spec", "volumeAttributesClassName"]))
        }
        _ => false,
    }
}

fn crosses_namespaces(pod: &Value) -> bool {
    let term_crosses = |term: &Value| {
        !edit::is_empty(edit::at(term, &["namespaces"])) || edit::has(term, &["namespaceSelector"])
    };
    ["podAffinity", "podAntiAffinity"].iter().any(|kind| {
        let affinity = edit::at(pod, &["spec", "affinity", kind]);
        let required = "requiredDuringSchedulingIgnoredDuringExecution";
        let preferred = "preferredDuringSchedulingIgnoredDuringExecution";
        edit::list(affinity, &[required]).iter().any(term_crosses)
            || edit::list(affinity, &[preferred])
                .iter()
                .any(|it| term_crosses(edit::at(it, &["podAffinityTerm"])))
    })
}

/// Whether the object fits into one quota that is about it, and what the quota then says is used.
///
/// `before` is what the object used until now: empty for a new one.
pub fn charge(quota: &Value, usage: &Amounts, before: &Amounts) -> Result<Value, Refusal> {
    let name = text(quota, &["metadata", "name"]);
    let hard = pod_amounts::read(edit::at(quota, &["status", "hard"]));
    let used = pod_amounts::read(edit::at(quota, &["status", "used"]));
    let zero = Quantity::ZERO;
    let mut after = used.clone();
    let mut exceeded = Vec::new();
    for (resource, limit) in &hard {
        let Some(now) = usage.get(resource).or(before.get(resource)) else { continue };
        let now = usage.get(resource).map_or(zero, |_| *now);
        let more = now.minus(before.get(resource).unwrap_or(&zero));
        let was = used.get(resource).copied().unwrap_or(zero);
        let total = was.plus(&more);
        if more > zero && total > *limit {
            exceeded.push((resource.clone(), more, was, *limit));
        }
        after.insert(resource.clone(), if total.is_negative() { zero } else { total });
    }
    if exceeded.is_empty() {
        let used = after.into_iter().map(|(name, it)| (name, json!(it.to_string())));
        return Ok(used.collect());
    }
    let list = |pick: fn(&(String, Quantity, Quantity, Quantity)) -> Quantity| {
        let one = |it: &(String, Quantity, Quantity, Quantity)| format!("{}={}", it.0, pick(it));
        exceeded.iter().map(one).collect::<Vec<_>>().join(",")
    };
    Err(format!(
        "exceeded quota: {name}, requested: {}, used: {}, limited: {}",
        list(|it| it.1),
        list(|it| it.2),
        list(|it| it.3)
    ))
}

/// A quota on requests or limits wants every container to say what it needs.
pub fn check_constraints(quota: &Value, pod: &Value) -> Result<(), Refusal> {
    let hard = edit::map(quota, &["spec", "hard"]);
    let is_computed = |name: &str| {
        let plain = ["cpu", "memory"].contains(&name);
        let rest = name.strip_prefix("requests.").or(name.strip_prefix("limits."));
        plain || rest.is_some_and(|rest| ["cpu", "memory"].contains(&rest))
    };
    let wanted: Vec<&str> = hard
        .into_iter()
        .flatten()
        .map(|(name, _)| name.as_str())
        .filter(|name| is_computed(name))
        .collect();
    let containers = edit::list(pod, &["spec", "containers"]);
    let init = edit::list(pod, &["spec", "initContainers"]);
    let mut missing: Vec<String> = Vec::new();
    for resource in wanted {
        let (list, name) = match resource.split_once('.') {
            Some((list, name)) => (list, name),
            None => ("requests", resource),
        };
        let lacks = |it: &&Value| !edit::has(it, &["resources", list, name]);
        if edit::has(pod, &["spec", "resources", list, name]) {
            continue;
        }
        let lacking: Vec<&str> =
            containers.iter().chain(init).filter(lacks).map(|it| text(it, &["name"])).collect();
        if !lacking.is_empty() {
            missing.push(format!("{resource} for: {}", lacking.join(",")));
        }
    }
    match missing.is_empty() {
        true => Ok(()),
        false => {
            let quota = text(quota, &["metadata", "name"]);
            Err(format!("failed quota: {quota}: must specify {}", missing.join("; ")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PODS: Counted<'_> = Counted { group: "", resource: "pods" };

    fn pod() -> Value {
        let resources = json!({"requests": {"cpu": "500m"}, "limits": {"cpu": "1"}});
        json!({"spec": {"containers": [{"name": "c", "resources": resources}]}})
    }

    fn shown(usage: &Amounts) -> String {
        let one = |(name, amount): (&String, &Quantity)| format!("{name}={amount}");
        usage.iter().map(one).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn objects_use_what_they_are_and_ask_for() {
        let claims = Counted { group: "", resource: "persistentvolumeclaims" };
        let claim = json!({"spec": {"storageClassName": "gold",
            "resources": {"requests": {"storage": "1Gi"}}}});
        let service = json!({"spec": {"type": "NodePort", "ports": [{}, {}]}});
        let cases = [
            (PODS, pod(), "count/pods=1 cpu=500m limits.cpu=1 pods=1 requests.cpu=500m"),
            (PODS, json!({"status": {"phase": "Failed"}}), "count/pods=1"),
            (
                Counted { group: "apps", resource: "deployments" },
                json!({}),
                "count/deployments.apps=1",
            ),
            (
                claims,
                claim,
                "count/persistentvolumeclaims=1 \
                 gold.storageclass.storage.k8s.io/persistentvolumeclaims=1 \
                 gold.storageclass.storage.k8s.io/requests.storage=1Gi \
                 persistentvolumeclaims=1 requests.storage=1Gi",
            ),
            (
                Counted { group: "", resource: "services" },
                service,
                "count/services=1 services=1 services.loadbalancers=0 services.nodeports=2",
            ),
        ];
        for (counted, object, expected) in cases {
            assert_eq!(shown(&usage(counted, &object)), expected);
        }
    }

    #[test]
    fn a_full_quota_refuses_in_the_words_users_know() {
        let quota = |used: &str| {
            json!({"metadata": {"name": "q"},
                "status": {"hard": {"pods": "2"}, "used": {"pods": used}}})
        };
        let usage = usage(PODS, &pod());
        assert_eq!(charge(&quota("1"), &usage, &Amounts::new()), Ok(json!({"pods": "2"})));
        assert_eq!(
            charge(&quota("2"), &usage, &Amounts::new()),
            Err("exceeded quota: q, requested: pods=1, used: pods=2, limited: pods=2".to_owned())
        );
        assert_eq!(charge(&quota("2"), &usage, &usage), Ok(json!({"pods": "2"})));
        assert_eq!(charge(&quota("2"), &Amounts::new(), &usage), Ok(json!({"pods": "1"})));
    }

    #[test]
    fn scopes_choose_pods() {
        let quota = |scope: &str| json!({"spec": {"scopes": [scope]}});
        let cases = [
            ("BestEffort", false),
            ("NotBestEffort", true),
            ("Terminating", false),
            ("NotTerminating", true),
        ];
        for (scope, expected) in cases {
            assert_eq!(matches(&quota(scope), PODS, &pod()), expected, "{scope}");
        }
        let by_class = json!({"spec": {"scopeSelector": {"matchExpressions": [
            {"scopeName": "PriorityClass", "operator": "In", "values": ["high"]}]}}});
        assert!(!matches(&by_class, PODS, &pod()));
    }

    #[test]
    fn a_quota_on_limits_wants_limits() {
        let quota = json!({"metadata": {"name": "q"},
            "spec": {"hard": {"limits.memory": "1Gi", "pods": "3"}}});
        assert_eq!(
            check_constraints(&quota, &pod()),
            Err("failed quota: q: must specify limits.memory for: c".to_owned())
        );
    }
}
