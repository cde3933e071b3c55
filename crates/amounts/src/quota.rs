//! What an object uses of a quota, and what quotas are about.
//!
//! Upstream: pkg/quota/v1/evaluator/core

use serde_json::{Map, Value, json};

use crate::pod::{self, Amounts};
use crate::quantity::Quantity;

/// The kind of a counted object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
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
    ["Succeeded", "Failed"].contains(&text(&pod["status"]["phase"]))
}

fn add_pod(pod: &Value, used: &mut Amounts) {
    used.insert("pods".to_owned(), Quantity::from_i64(1));
    for (name, amount) in pod::of(pod, "requests") {
        let plain = ["cpu", "memory", "ephemeral-storage"].contains(&name.as_str())
            || name.starts_with("hugepages-");
        if plain {
            used.insert(name.clone(), amount);
        }
        used.insert(format!("requests.{name}"), amount);
    }
    for (name, amount) in pod::of(pod, "limits") {
        if ["cpu", "memory", "ephemeral-storage"].contains(&name.as_str()) {
            used.insert(format!("limits.{name}"), amount);
        }
    }
}

fn add_service(object: &Value, used: &mut Amounts) {
    let ports = list(&object["spec"]["ports"]);
    let number = i64::try_from(ports.len()).unwrap_or(i64::MAX);
    let given = ports.iter().filter(|it| it["nodePort"].as_i64().unwrap_or(0) != 0).count();
    let nodes = match text(&object["spec"]["type"]) {
        "NodePort" => number,
        "LoadBalancer" if object["spec"]["allocateLoadBalancerNodePorts"] != json!(false) => number,
        "LoadBalancer" => i64::try_from(given).unwrap_or(i64::MAX),
        _ => 0,
    };
    let balancers = i64::from(text(&object["spec"]["type"]) == "LoadBalancer");
    used.insert("services.nodeports".to_owned(), Quantity::from_i64(nodes));
    used.insert("services.loadbalancers".to_owned(), Quantity::from_i64(balancers));
}

fn add_claim(claim: &Value, used: &mut Amounts) {
    let class = text(&claim["spec"]["storageClassName"]);
    let prefix = format!("{class}.storageclass.storage.k8s.io/");
    let requests = pod::read(&claim["spec"]["resources"]["requests"]);
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
    let plain = list(&quota["spec"]["scopes"]).iter();
    let plain = plain.map(|scope| json!({"scopeName": scope, "operator": "Exists"}));
    let chosen = list(&quota["spec"]["scopeSelector"]["matchExpressions"]).iter();
    plain.chain(chosen.cloned()).all(|it| in_scope(&it, counted, object))
}

fn in_scope(expression: &Value, counted: Counted<'_>, object: &Value) -> bool {
    let is_pod = counted.group.is_empty() && counted.resource == "pods";
    let is_claim = counted.group.is_empty() && counted.resource == "persistentvolumeclaims";
    let values = list(&expression["values"]);
    let chosen = |value: &str| match text(&expression["operator"]) {
        "In" => values.iter().any(|it| it == value),
        "NotIn" => !values.iter().any(|it| it == value),
        "DoesNotExist" => value.is_empty(),
        _ => !value.is_empty(),
    };
    let deadline = !object["spec"]["activeDeadlineSeconds"].is_null();
    let best_effort = || pod::quality(object) == "BestEffort";
    match text(&expression["scopeName"]) {
        "Terminating" => is_pod && deadline,
        "NotTerminating" => is_pod && !deadline,
        "BestEffort" => is_pod && best_effort(),
        "NotBestEffort" => is_pod && !best_effort(),
        "PriorityClass" => is_pod && chosen(text(&object["spec"]["priorityClassName"])),
        "CrossNamespacePodAffinity" => is_pod && crosses_namespaces(object),
        "VolumeAttributesClass" => {
            is_claim && chosen(text(&object["spec"]["volumeAttributesClassName"]))
        }
        _ => false,
    }
}

fn crosses_namespaces(pod: &Value) -> bool {
    let term_crosses = |term: &Value| {
        !list(&term["namespaces"]).is_empty() || !term["namespaceSelector"].is_null()
    };
    ["podAffinity", "podAntiAffinity"].iter().any(|kind| {
        let affinity = &pod["spec"]["affinity"][kind];
        let required = "requiredDuringSchedulingIgnoredDuringExecution";
        let preferred = "preferredDuringSchedulingIgnoredDuringExecution";
        list(&affinity[required]).iter().any(term_crosses)
            || list(&affinity[preferred]).iter().any(|it| term_crosses(&it["podAffinityTerm"]))
    })
}

/// The kinds that use what a quota limits; some more than once.
pub fn counted(quota: &Value) -> impl Iterator<Item = Counted<'_>> {
    let hard = quota["spec"]["hard"].as_object();
    hard.into_iter().flatten().map(|(name, _)| what(name))
}

/// Adds what an object uses, if the quota is about it.
pub fn add(total: &mut Amounts, quota: &Value, counted: Counted<'_>, object: &Value) {
    if matches(quota, counted, object) {
        pod::add(total, &usage(counted, object));
    }
}

/// What a quota says is used, of all that is.
pub fn used(quota: &Value, total: &Amounts) -> Value {
    let hard = quota["spec"]["hard"].as_object().into_iter().flatten();
    let used = hard.map(|(name, _)| {
        let amount = total.get(name).copied().unwrap_or(Quantity::ZERO);
        (name.clone(), json!(amount.to_string()))
    });
    Value::Object(used.collect::<Map<_, _>>())
}

/// Whether a quota limits anything that objects of this kind use.
pub fn is_about(quota: &Value, counted: Counted<'_>) -> bool {
    self::counted(quota).any(|one| one == counted)
}

/// Group and resource of the objects that use what a quota limits.
fn what(name: &str) -> Counted<'_> {
    if let Some(counted) = name.strip_prefix("count/") {
        let (resource, group) = counted.split_once('.').unwrap_or((counted, ""));
        return Counted { group, resource };
    }
    let core = |resource| Counted { group: "", resource };
    match name {
        "configmaps" | "replicationcontrollers" | "resourcequotas" | "secrets" | "services" => {
            core(name)
        }
        "services.nodeports" | "services.loadbalancers" => core("services"),
        "persistentvolumeclaims" | "requests.storage" => core("persistentvolumeclaims"),
        _ if name.contains(".storageclass.storage.k8s.io/") => core("persistentvolumeclaims"),
        _ => core("pods"),
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
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
            let (group, resource) = expected;
            assert_eq!(what(name), Counted { group, resource }, "{name}");
        }
    }
}
