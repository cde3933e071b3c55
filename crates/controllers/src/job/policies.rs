//! What a Job's own rules say: which failures matter (`podFailurePolicy`) and when enough has
//! succeeded (`successPolicy`).

use reconcile::Object;
use reconcile::value::list;
use serde_json::Value;

use super::indexes::Indexes;

/// What a failed pod means.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// It counts, as always.
    Count,
    /// As if it had not been.
    Ignore,
    /// Its index has failed for good.
    FailIndex,
    /// The whole job has, for this reason.
    FailJob(String),
}

/// Asks the rules in order; the first that matches decides.
pub fn failure(policy: &Value, pod: &Object) -> Failure {
    for (number, rule) in list(&policy["rules"]).iter().enumerate() {
        let Some(matched) = matches(rule, pod) else { continue };
        return match rule["action"].as_str().unwrap_or_default() {
            "Ignore" => Failure::Ignore,
            "FailIndex" => Failure::FailIndex,
            "FailJob" => {
                let rule = format!("matching FailJob rule at index {number}");
                Failure::FailJob(format!("{matched} {rule}"))
            }
            _ => Failure::Count,
        };
    }
    Failure::Count
}

/// What of the pod a rule matches, in words.
fn matches(rule: &Value, pod: &Object) -> Option<String> {
    let (namespace, name) = (&pod.name.namespace, &pod.name.name);
    if !rule["onExitCodes"].is_null() {
        let (container, code) = matching_exit(&rule["onExitCodes"], pod)?;
        let pod = format!("{namespace}/{name}");
        return Some(format!("Container {container} for pod {pod} failed with exit code {code}"));
    }
    let conditions = list(&pod.value["status"]["conditions"]);
    let has = |pattern: &Value| {
        conditions.iter().find(|one| {
            one["type"] == pattern["type"]
                && one["status"] == pattern["status"].as_str().unwrap_or("True")
        })
    };
    let found = list(&rule["onPodConditions"]).iter().find_map(has)?;
    let kind = found["type"].as_str().unwrap_or_default();
    Some(format!("Pod {namespace}/{name} has condition {kind}"))
}

fn matching_exit<'a>(rule: &'a Value, pod: &'a Object) -> Option<(&'a str, i64)> {
    let status = &pod.value["status"];
    let all = list(&status["containerStatuses"]).iter();
    let all = all.chain(list(&status["initContainerStatuses"]));
    for container in all {
        let name = container["name"].as_str().unwrap_or_default();
        let Some(code) = container["state"]["terminated"]["exitCode"].as_i64() else { continue };
        let is_meant = rule["containerName"].as_str().is_none_or(|wanted| wanted == name);
        let is_listed = list(&rule["values"]).iter().any(|one| one.as_i64() == Some(code));
        let is_wanted = match rule["operator"].as_str().unwrap_or_default() {
            "In" => is_listed,
            "NotIn" => !is_listed,
            _ => false,
        };
        if code != 0 && is_meant && is_wanted {
            return Some((name, code));
        }
    }
    None
}

/// Whether enough indexes have succeeded, and by which rule.
pub fn success(policy: &Value, count: u32, succeeded: &Indexes) -> Option<String> {
    if succeeded.is_empty() {
        return None;
    }
    let is_met = |rule: &Value| {
        let enough = rule["succeededCount"].as_u64().and_then(|it| usize::try_from(it).ok());
        match rule["succeededIndexes"].as_str() {
            Some(text) => {
                let wanted = Indexes::read(text, count);
                let met = wanted.iter().filter(|index| succeeded.has(*index)).count();
                met >= enough.unwrap_or(wanted.len())
            }
            None => enough.is_some_and(|enough| succeeded.len() >= enough),
        }
    };
    let rule = list(&policy["rules"]).iter().position(is_met)?;
    Some(format!("Matched rules at index {rule}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(code: i64) -> Object {
        Object::new(json!({"metadata": {"namespace": "a", "name": "p"}, "status": {
            "phase": "Failed", "conditions": [{"type": "DisruptionTarget", "status": "True"}],
            "containerStatuses": [{"name": "main", "state": {"terminated": {"exitCode": code}}}]}}))
    }

    #[test]
    fn the_first_rule_that_matches_decides() {
        let codes = |operator: &str, values: Value, action: &str| {
            let rule = json!({"operator": operator, "values": values});
            json!({"action": action, "onExitCodes": rule})
        };
        let disrupted = json!({"action": "Ignore", "onPodConditions": [
            {"type": "DisruptionTarget", "status": "True"}]});
        let fail = codes("In", json!([42]), "FailJob");
        let message = "Container main for pod a/p failed with exit code 42 matching FailJob rule \
                       at index 1";
        let cases = [
            (vec![], 42, Failure::Count),
            (vec![disrupted.clone()], 42, Failure::Ignore),
            (
                vec![codes("NotIn", json!([42]), "Ignore"), fail.clone()],
                42,
                Failure::FailJob(message.to_owned()),
            ),
            (vec![fail.clone(), disrupted], 1, Failure::Ignore),
            (vec![codes("In", json!([1]), "FailIndex")], 1, Failure::FailIndex),
            (vec![codes("In", json!([1]), "Count"), fail], 1, Failure::Count),
        ];
        for (rules, code, expected) in cases {
            assert_eq!(failure(&json!({"rules": rules}), &pod(code)), expected);
        }
    }

    #[test]
    fn success_is_what_a_rule_says() {
        let cases = [
            (json!([{"succeededCount": 2}]), "0,3", Some(0)),
            (json!([{"succeededCount": 3}]), "0,3", None),
            (json!([{"succeededIndexes": "0-2"}, {"succeededIndexes": "3"}]), "0,3", Some(1)),
            (json!([{"succeededIndexes": "0-3", "succeededCount": 2}]), "0,3", Some(0)),
            (json!([{"succeededCount": 1}]), "", None),
        ];
        for (rules, done, expected) in cases {
            let done = Indexes::read(done, 5);
            let expected = expected.map(|rule: i32| format!("Matched rules at index {rule}"));
            assert_eq!(success(&json!({"rules": rules}), 5, &done), expected, "{rules}");
        }
    }
}
