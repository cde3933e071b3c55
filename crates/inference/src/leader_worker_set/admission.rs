//! LeaderWorkerSets before they are written: what they lack, and what cannot work.
//!
//! Upstream: kubernetes-sigs/lws, pkg/webhooks/leaderworkerset_webhook.go

use serde_json::{Value, json};

use super::{manifests, pod};
use crate::field_error::{FieldError, Problem};
use crate::review::{Answer, Question};
use crate::value::{object_mut, text};

const NAME_LENGTH_MAX: usize = 63;
const REPLICAS_MAX: i64 = 1_000_000;

/// Answers an AdmissionReview; `None` if nobody knows the path.
pub fn review(path: &str, review: &Value) -> Option<Value> {
    let question = Question::of(review);
    let answer = match path {
        manifests::DEFAULT => default(&question),
        manifests::VALIDATE => validate(&question),
        manifests::COMPLETE_POD => complete_pod(&question),
        _ => return None,
    };
    Some(answer.written(review))
}

fn complete_pod(question: &Question<'_>) -> Answer {
    let namespace = text(&question.request["namespace"]);
    match pod::complete(question.new, namespace) {
        Ok(pod) => Answer::instead(pod, question.new),
        Err(error) => Answer::judge(&[error]),
    }
}

fn default(question: &Question<'_>) -> Answer {
    let mut set = question.new.clone();
    let spec = object_mut(&mut set["spec"]);
    spec.entry("replicas").or_insert(json!(1));
    spec.entry("startupPolicy").or_insert(json!("LeaderCreated"));
    let network = spec.entry("networkConfig").or_insert(json!({}));
    object_mut(network).entry("subdomainPolicy").or_insert(json!("Shared"));
    let strategy = object_mut(spec.entry("rolloutStrategy").or_insert(json!({})));
    strategy.entry("type").or_insert(json!("RollingUpdate"));
    let rolling = strategy.entry("rollingUpdateConfiguration").or_insert(json!({}));
    let rolling = object_mut(rolling);
    for (field, value) in [("partition", 0), ("maxUnavailable", 1), ("maxSurge", 0)] {
        rolling.entry(field).or_insert(json!(value));
    }
    let template = object_mut(&mut set["spec"]["leaderWorkerTemplate"]);
    template.entry("size").or_insert(json!(1));
    let restart = template.entry("restartPolicy").or_insert(json!(""));
    match text(restart) {
        "" => *restart = json!("RecreateGroupOnPodRestart"),
        "Default" => *restart = json!("None"),
        _ => {}
    }
    Answer::instead(set, question.new)
}

fn validate(question: &Question<'_>) -> Answer {
    if !question.new["metadata"]["deletionTimestamp"].is_null() {
        return Answer::default();
    }
    let mut errors = Vec::new();
    let name = text(&question.new["metadata"]["name"]);
    if !is_label(name) {
        let detail = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', \
                      start with an alphabetic character, and end with an alphanumeric character";
        errors.push(FieldError::invalid("metadata.name", name, detail));
    }
    let spec = &question.new["spec"];
    count(&mut errors, spec);
    rollout(&mut errors, spec);
    subgroup(&mut errors, spec);
    if question.old.is_object() {
        keep_subgroup(&mut errors, &question.old["spec"], spec);
    }
    Answer::judge(&errors)
}

fn count(errors: &mut Vec<FieldError>, spec: &Value) {
    let replicas = spec["replicas"].as_i64().unwrap_or(1);
    let size = spec["leaderWorkerTemplate"]["size"].as_i64().unwrap_or(1);
    if !(0..=REPLICAS_MAX).contains(&replicas) {
        let detail = format!("must be between 0 and {REPLICAS_MAX}");
        errors.push(FieldError::invalid("spec.replicas", replicas, detail));
    }
    let field = "spec.leaderWorkerTemplate.size";
    if size < 1 {
        errors.push(FieldError::invalid(field, size, "must be greater than or equal to 1"));
    }
    if replicas.saturating_mul(size) > i64::from(i32::MAX) {
        let detail = format!("the product of replicas and size must not exceed {}", i32::MAX);
        errors.push(FieldError::invalid("spec.replicas", replicas, detail));
    }
}

fn rollout(errors: &mut Vec<FieldError>, spec: &Value) {
    let base = "spec.rolloutStrategy.rollingUpdateConfiguration";
    let rolling = &spec["rolloutStrategy"]["rollingUpdateConfiguration"];
    if let Some(partition) = rolling["partition"].as_i64().filter(|partition| *partition < 0) {
        let detail = "must be greater than or equal to 0";
        errors.push(FieldError::invalid(format!("{base}.partition"), partition, detail));
    }
    let mut amount = |name: &str, absent: i64| {
        let (field, value) = (format!("{base}.{name}"), &rolling[name]);
        let percent = text(value).strip_suffix('%').and_then(|text| text.parse::<i64>().ok());
        let detail = match (value.as_i64(), percent) {
            (None, None) if value.is_null() => return absent,
            (Some(number), _) if number >= 0 => return number,
            (None, Some(percent)) if (0..=100).contains(&percent) => return percent,
            (None, Some(percent)) if percent > 100 => "must not be greater than 100%",
            (None, None) => "must be an integer or percentage (e.g '5%')",
            _ => "must be greater than or equal to 0",
        };
        errors.push(FieldError::invalid(field, value.clone(), detail));
        // What is wrong already is not said to be wrong once more.
        1
    };
    let amounts = (amount("maxUnavailable", 1), amount("maxSurge", 0));
    if amounts == (0, 0) && spec["replicas"] != 0 {
        let value = rolling["maxUnavailable"].clone();
        let detail = "must not be 0 when `maxSurge` is 0";
        errors.push(FieldError::invalid(format!("{base}.maxUnavailable"), value, detail));
    }
}

const SUBGROUP: &str = "spec.leaderWorkerTemplate.subGroupPolicy";

fn subgroup(errors: &mut Vec<FieldError>, spec: &Value) {
    let template = &spec["leaderWorkerTemplate"];
    let policy = &template["subGroupPolicy"];
    if policy.is_null() {
        return;
    }
    let field = format!("{SUBGROUP}.subGroupSize");
    let size = template["size"].as_i64().unwrap_or(1);
    let Some(subgroup) = policy["subGroupSize"].as_i64() else {
        let (problem, detail) = (Problem::Required, "must say how many pods a subgroup has");
        errors.push(FieldError { field, problem, detail: detail.to_owned() });
        return;
    };
    let excludes_leader = policy["subGroupPolicyType"] == "LeaderExcluded";
    let detail = if subgroup < 1 {
        "must be greater than or equal to 1"
    } else if subgroup > size {
        "subGroupSize cannot be larger than size"
    } else if excludes_leader && (size - 1) % subgroup != 0 {
        "size-1 must be divisible by subGroupSize when the leader is excluded"
    } else if size % subgroup != 0 && (size - 1) % subgroup != 0 {
        "size or size-1 must be divisible by subGroupSize"
    } else {
        return;
    };
    errors.push(FieldError::invalid(field, subgroup, detail));
}

/// Pods know which subgroup they are of, and those that are there cannot be told otherwise.
fn keep_subgroup(errors: &mut Vec<FieldError>, old: &Value, new: &Value) {
    let of = |spec: &Value| spec["leaderWorkerTemplate"]["subGroupPolicy"].clone();
    let (old, new) = (of(old), of(new));
    let detail = match (old.is_null(), new.is_null()) {
        (true, false) => "cannot enable subGroupSize after a lws is already created",
        (false, true) => "cannot remove subGroupSize after enabled",
        (false, false) if old != new => "field is immutable",
        _ => return,
    };
    errors.push(FieldError::invalid(SUBGROUP, new, detail));
}

fn is_label(name: &str) -> bool {
    let is_inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    name.len() <= NAME_LENGTH_MAX
        && name.starts_with(|first: char| first.is_ascii_lowercase())
        && !name.ends_with('-')
        && name.bytes().all(is_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(name: &str, spec: Value) -> Value {
        let mut whole = json!({"leaderWorkerTemplate": {"size": 4}, "replicas": 2});
        reconcile::plan::merge(&mut whole, &spec);
        json!({"metadata": {"name": name}, "spec": whole})
    }

    fn said(new: &Value, old: &Value) -> String {
        let answer = validate(&Question { request: &Value::Null, new, old });
        answer.refusal.map(|refusal| refusal.message).unwrap_or_default()
    }

    #[test]
    fn a_set_gets_what_it_lacks() {
        let new = json!({"spec": {"leaderWorkerTemplate": {"restartPolicy": "Default"}}});
        let question = Question { request: &Value::Null, new: &new, old: &Value::Null };
        let whole = default(&question).object.expect("something was missing");
        let expected = json!({"replicas": 1, "startupPolicy": "LeaderCreated",
            "leaderWorkerTemplate": {"size": 1, "restartPolicy": "None"},
            "networkConfig": {"subdomainPolicy": "Shared"},
            "rolloutStrategy": {"type": "RollingUpdate", "rollingUpdateConfiguration":
                {"partition": 0, "maxUnavailable": 1, "maxSurge": 0}}});
        assert_eq!(whole["spec"], expected);
        let question = Question { request: &Value::Null, new: &whole, old: &Value::Null };
        assert!(default(&question).object.is_none());
    }

    #[test]
    fn a_set_that_cannot_work_is_refused() {
        let rolling = |value: Value| {
            set("s", json!({"rolloutStrategy": {"rollingUpdateConfiguration": value}}))
        };
        let subgroup =
            |value: Value| set("s", json!({"leaderWorkerTemplate": {"subGroupPolicy": value}}));
        let cases = [
            (set("1s", json!({})), "DNS-1035"),
            (set("s", json!({"replicas": -1})), "spec.replicas"),
            (set("s", json!({"replicas": 1_000_001})), "spec.replicas"),
            (set("s", json!({"leaderWorkerTemplate": {"size": 0}})), "greater than or equal to 1"),
            (
                set("s", json!({"replicas": 1_000_000, "leaderWorkerTemplate": {"size": 3_000}})),
                "must not exceed 2147483647",
            ),
            (rolling(json!({"partition": -1})), "partition"),
            (rolling(json!({"maxUnavailable": "101%"})), "100%"),
            (rolling(json!({"maxSurge": "many"})), "integer or percentage"),
            (
                rolling(json!({"maxUnavailable": 0, "maxSurge": 0})),
                "must not be 0 when `maxSurge` is 0",
            ),
            (subgroup(json!({"subGroupSize": 3})), ""),
            (subgroup(json!({"subGroupSize": 5})), "larger than size"),
            (subgroup(json!({"subGroupSize": 0})), "greater than or equal to 1"),
            (
                subgroup(json!({"subGroupSize": 2, "subGroupPolicyType": "LeaderExcluded"})),
                "leader is excluded",
            ),
        ];
        for (set, expected) in cases {
            let why = said(&set, &Value::Null);
            assert!(why.contains(expected), "{expected}: {why}");
            assert_eq!(why.is_empty(), expected.is_empty(), "{why}");
        }
        let nobody = json!({"replicas": 0, "rolloutStrategy": {"rollingUpdateConfiguration":
            {"maxUnavailable": 0, "maxSurge": 0}}});
        assert_eq!(said(&set("s", nobody), &Value::Null), "");
    }

    #[test]
    fn subgroups_are_decided_once() {
        let plain = set("s", json!({}));
        let of = |size: i64| {
            set("s", json!({"leaderWorkerTemplate": {"subGroupPolicy": {"subGroupSize": size}}}))
        };
        assert!(said(&of(2), &plain).contains("cannot enable subGroupSize"));
        assert!(said(&plain, &of(2)).contains("cannot remove subGroupSize"));
        assert!(said(&of(4), &of(2)).contains("immutable"));
        assert_eq!(said(&of(2), &of(2)), "");
    }
}
