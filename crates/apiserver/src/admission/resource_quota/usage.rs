//! ResourceQuota: whether a namespace may use so much as an object wants.
//!
//! Upstream: pkg/quota/v1/evaluator/core, staging/apiserver/pkg/admission/plugin/resourcequota

use serde_json::{Value, json};

use amounts::Quantity;
use amounts::pod::{self as pod_amounts, Amounts};

use super::super::Refusal;
use crate::registry::edit::{self, text};

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
    use amounts::quota::{Counted, usage};

    use super::*;

    const PODS: Counted<'_> = Counted { group: "", resource: "pods" };

    fn pod() -> Value {
        let resources = json!({"requests": {"cpu": "500m"}, "limits": {"cpu": "1"}});
        json!({"spec": {"containers": [{"name": "c", "resources": resources}]}})
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
    fn a_quota_on_limits_wants_limits() {
        let quota = json!({"metadata": {"name": "q"},
            "spec": {"hard": {"limits.memory": "1Gi", "pods": "3"}}});
        assert_eq!(
            check_constraints(&quota, &pod()),
            Err("failed quota: q: must specify limits.memory for: c".to_owned())
        );
    }
}
