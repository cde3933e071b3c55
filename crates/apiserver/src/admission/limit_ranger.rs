//! LimitRanger: defaults and bounds that a namespace sets for requests and limits.
//!
//! Upstream: plugin/pkg/admission/limitranger/admission.go

use async_trait::async_trait;
use serde_json::{Value, json};

use amounts::pod as pod_amounts;

use super::{Attributes, Operation, Plugin, Refusal, lookup};
use crate::quantity::Quantity;
use crate::registry::amount;
use crate::registry::edit::{self, each_mut, object, set_default, text};
use crate::server::Server;
use crate::status::Error;

const ANNOTATION: &str = "kubernetes.io/limit-ranger";

/// Fills in the requests and limits that a new pod's containers leave out.
pub fn apply_defaults(ranges: &[Value], pod: &mut Value) {
    let mut notes = Vec::new();
    for range in ranges {
        let (requests, limits) = defaults(range);
        for kind in ["containers", "initContainers"] {
            let word = if kind == "containers" { "container" } else { "init container" };
            for container in each_mut(pod, &["spec", kind]) {
                let name = text(container, &["name"]).to_owned();
                for (list, wanted, what) in
                    [("requests", &requests, "request"), ("limits", &limits, "limit")]
                {
                    let set = fill(container, list, wanted);
                    if !set.is_empty() {
                        notes.push(format!("{} {what} for {word} {name}", set.join(", ")));
                    }
                }
            }
        }
    }
    if notes.is_empty() {
        return;
    }
    let metadata = object(pod, "metadata");
    if let Some(annotations) = metadata.and_then(|it| object(it, "annotations")) {
        let note = format!("LimitRanger plugin set: {}", notes.join("; "));
        edit::set(annotations, ANNOTATION, note);
    }
}

/// What a range wants containers to request and to be limited to.
fn defaults(range: &Value) -> (Value, Value) {
    let (mut requests, mut limits) = (json!({}), json!({}));
    for item in edit::list(range, &["spec", "limits"]) {
        if text(item, &["type"]) != "Container" {
            continue;
        }
        for (list, into) in [("defaultRequest", &mut requests), ("default", &mut limits)] {
            for (name, value) in edit::map(item, &[list]).into_iter().flatten() {
                edit::set(into, name, value.clone());
            }
        }
    }
    (requests, limits)
}

fn fill(container: &mut Value, list: &str, wanted: &Value) -> Vec<String> {
    let mut set = Vec::new();
    if edit::is_empty(wanted) {
        return set;
    }
    let Some(resources) = object(container, "resources") else { return set };
    let Some(amounts) = object(resources, list) else { return set };
    for (name, value) in wanted.as_object().into_iter().flatten() {
        if !edit::has(amounts, &[name]) {
            set_default(amounts, name, value.clone());
            set.push(name.clone());
        }
    }
    set
}

/// Why a new pod is refused, if it is: all that is wrong at once.
pub fn check_pod(ranges: &[Value], pod: &Value) -> Result<(), Refusal> {
    let mut faults = Vec::new();
    for item in items(ranges) {
        match text(item, &["type"]) {
            "Container" => {
                let containers = edit::list(pod, &["spec", "containers"]);
                let init = edit::list(pod, &["spec", "initContainers"]);
                for container in containers.iter().chain(init) {
                    let requests = edit::at(container, &["resources", "requests"]);
                    let limits = edit::at(container, &["resources", "limits"]);
                    check_item(item, requests, limits, &mut faults);
                }
            }
            "Pod" => {
                let json_of = |list: &str| -> Value {
                    let amounts = pod_amounts::of(pod, list).into_iter();
                    amounts.map(|(name, it)| (name, json!(it.to_string()))).collect()
                };
                check_item(item, &json_of("requests"), &json_of("limits"), &mut faults);
            }
            _ => {}
        }
    }
    refusal(faults)
}

pub fn check_claim(ranges: &[Value], claim: &Value) -> Result<(), Refusal> {
    let mut faults = Vec::new();
    let requests = edit::at(claim, &["spec", "resources", "requests"]);
    for item in items(ranges) {
        if text(item, &["type"]) != "PersistentVolumeClaim" {
            continue;
        }
        for (name, least) in edit::map(item, &["min"]).into_iter().flatten() {
            faults.extend(below(name, "PersistentVolumeClaim", least, requests));
        }
        for (name, most) in edit::map(item, &["max"]).into_iter().flatten() {
            let wanted = amount::read(edit::at(requests, &[name]));
            let (Some(wanted), Some(most)) = (wanted, amount::read(most)) else { continue };
            if wanted > most {
                faults.push(format!(
                    "maximum {name} usage per PersistentVolumeClaim is {most}, but request is \
                     {wanted}"
                ));
            }
        }
    }
    refusal(faults)
}

fn items(ranges: &[Value]) -> impl Iterator<Item = &Value> {
    ranges.iter().flat_map(|range| edit::list(range, &["spec", "limits"]))
}

fn refusal(faults: Vec<String>) -> Result<(), Refusal> {
    match &faults[..] {
        [] => Ok(()),
        [one] => Err(one.clone()),
        many => Err(format!("[{}]", many.join(", "))),
    }
}

fn check_item(item: &Value, requests: &Value, limits: &Value, faults: &mut Vec<String>) {
    let kind = text(item, &["type"]);
    for (name, least) in edit::map(item, &["min"]).into_iter().flatten() {
        faults.extend(below(name, kind, least, requests).or_else(|| {
            let bound = amount::read(least)?;
            let limit = amount::read(edit::at(limits, &[name]))?;
            (limit < bound).then(|| {
                format!("minimum {name} usage per {kind} is {bound}, but limit is {limit}")
            })
        }));
    }
    for (name, most) in edit::map(item, &["max"]).into_iter().flatten() {
        faults.extend(above(name, kind, most, (requests, limits)));
    }
    for (name, ratio) in edit::map(item, &["maxLimitRequestRatio"]).into_iter().flatten() {
        faults.extend(beyond_ratio(name, kind, ratio, (requests, limits)));
    }
}

fn below(name: &str, kind: &str, least: &Value, requests: &Value) -> Option<String> {
    let least = amount::read(least)?;
    let Some(request) = amount::read(edit::at(requests, &[name])) else {
        return Some(format!(
            "minimum {name} usage per {kind} is {least}.  No request is specified"
        ));
    };
    (request < least)
        .then(|| format!("minimum {name} usage per {kind} is {least}, but request is {request}"))
}

fn above(name: &str, kind: &str, most: &Value, amounts: (&Value, &Value)) -> Option<String> {
    let (requests, limits) = amounts;
    let most = amount::read(most)?;
    let Some(limit) = amount::read(edit::at(limits, &[name])) else {
        return Some(format!("maximum {name} usage per {kind} is {most}.  No limit is specified"));
    };
    if limit > most {
        return Some(format!("maximum {name} usage per {kind} is {most}, but limit is {limit}"));
    }
    let request = amount::read(edit::at(requests, &[name]))?;
    (request > most)
        .then(|| format!("maximum {name} usage per {kind} is {most}, but request is {request}"))
}

fn beyond_ratio(
    name: &str,
    kind: &str,
    ratio: &Value,
    (requests, limits): (&Value, &Value),
) -> Option<String> {
    let ratio = amount::read(ratio)?;
    let given = |amounts: &Value| {
        amount::read(edit::at(amounts, &[name])).filter(|it| *it > Quantity::ZERO)
    };
    let say = |rest: &str| {
        Some(format!("{name} max limit to request ratio per {kind} is {ratio}, but {rest}"))
    };
    let (Some(request), limit) = (given(requests), given(limits)) else {
        return say("no request is specified or request is 0");
    };
    let Some(limit) = limit else {
        return say("no limit is specified or limit is 0");
    };
    let found = limit.milli_value() as f64 / request.milli_value() as f64;
    let allowed = ratio.milli_value() as f64 / 1000.0;
    if found > allowed { say(&format!("provided ratio is {found:.6}")) } else { None }
}

pub struct LimitRanger;

#[async_trait]
impl Plugin for LimitRanger {
    /// A pod's requests and limits change by `resize` alone once it exists.
    fn handles(&self, attributes: &Attributes<'_>) -> bool {
        let is_resize = attributes.operation == Operation::Update
            && attributes.subresource == "resize"
            && attributes.resource.plural == "pods";
        is_resize
            || attributes.creates("", "pods")
            || attributes.creates("", "persistentvolumeclaims")
            || attributes.updates("", "persistentvolumeclaims")
    }

    async fn mutate(
        &self,
        server: &Server,
        attributes: &Attributes<'_>,
        object: &mut Value,
    ) -> Result<(), Error> {
        if attributes.creates("", "pods") {
            let ranges = lookup::all(server, "", "limitranges", attributes.namespace).await?;
            apply_defaults(&ranges, object);
        }
        Ok(())
    }

    async fn validate(
        &self,
        server: &Server,
        attributes: &Attributes<'_>,
        object: &Value,
    ) -> Result<(), Error> {
        // What is going is let go.
        if attributes.old.is_some_and(crate::object::is_terminating) {
            return Ok(());
        }
        let ranges = lookup::all(server, "", "limitranges", attributes.namespace).await?;
        let judged = match attributes.resource.kind.as_str() {
            "Pod" => check_pod(&ranges, object),
            _ => check_claim(&ranges, object),
        };
        judged.map_err(|why| attributes.refuse(object, &why))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(resources: Value) -> Value {
        json!({"spec": {"containers": [{"name": "c", "resources": resources}]}})
    }

    fn range(item: Value) -> Vec<Value> {
        vec![json!({"spec": {"limits": [item]}})]
    }

    #[test]
    fn defaults_fill_what_is_left_out() {
        let ranges = range(json!({"type": "Container", "default": {"cpu": "1", "memory": "1Gi"},
            "defaultRequest": {"cpu": "100m"}}));
        let mut pod = pod(json!({"limits": {"memory": "2Gi"}}));
        apply_defaults(&ranges, &mut pod);
        let resources = &pod["spec"]["containers"][0]["resources"];
        let limits = json!({"cpu": "1", "memory": "2Gi"});
        assert_eq!(resources, &json!({"limits": limits, "requests": {"cpu": "100m"}}));
        assert_eq!(
            pod["metadata"]["annotations"][ANNOTATION],
            "LimitRanger plugin set: cpu request for container c; cpu limit for container c"
        );
    }

    #[test]
    fn bounds_are_refused_in_the_words_users_know() {
        let item = json!({"type": "Container", "max": {"cpu": "500m"}, "min": {"cpu": "100m"}});
        let cases = [
            (
                json!({"limits": {"cpu": "600m"}, "requests": {"cpu": "200m"}}),
                Err("maximum cpu usage per Container is 500m, but limit is 600m"),
            ),
            (
                json!({"limits": {"cpu": "200m"}, "requests": {"cpu": "50m"}}),
                Err("minimum cpu usage per Container is 100m, but request is 50m"),
            ),
            (
                json!({}),
                Err("[minimum cpu usage per Container is 100m.  No request is specified, \
                     maximum cpu usage per Container is 500m.  No limit is specified]"),
            ),
            (json!({"limits": {"cpu": "200m"}, "requests": {"cpu": "200m"}}), Ok(())),
        ];
        for (resources, expected) in cases {
            let found = check_pod(&range(item.clone()), &pod(resources));
            assert_eq!(found, expected.map_err(str::to_owned));
        }
    }

    #[test]
    fn ratios_and_sums_are_checked() {
        let item = json!({"type": "Container", "maxLimitRequestRatio": {"cpu": "2"}});
        let resources = json!({"limits": {"cpu": "3"}, "requests": {"cpu": "1"}});
        assert_eq!(
            check_pod(&range(item), &pod(resources.clone())),
            Err(
                "cpu max limit to request ratio per Container is 2, but provided ratio is 3.000000"
                    .to_owned()
            )
        );
        let item = json!({"type": "Pod", "max": {"cpu": "2"}});
        assert_eq!(
            check_pod(&range(item), &pod(resources)),
            Err("maximum cpu usage per Pod is 2, but limit is 3".to_owned())
        );
    }

    #[test]
    fn claims_stay_within_their_range() {
        let item = json!({"type": "PersistentVolumeClaim", "min": {"storage": "1Gi"},
            "max": {"storage": "2Gi"}});
        let claim = |size: &str| json!({"spec": {"resources": {"requests": {"storage": size}}}});
        let check = |size: &str| check_claim(&range(item.clone()), &claim(size));
        assert_eq!(check("1Gi"), Ok(()));
        assert_eq!(
            check("3Gi"),
            Err("maximum storage usage per PersistentVolumeClaim is 2Gi, but request is 3Gi"
                .to_owned())
        );
        assert_eq!(
            check("1Mi"),
            Err("minimum storage usage per PersistentVolumeClaim is 1Gi, but request is 1Mi"
                .to_owned())
        );
    }
}
