//! Requests before they are written: what they lack, and what cannot work.

use serde_json::{Value, json};

use super::hardware;
use crate::field_error::{FieldError, Problem};
use crate::review::{Answer, Question};
use crate::settings::Settings;
use crate::value::text;

/// Where the profiler is, unless a request says otherwise.
const IMAGE: &str = "nvcr.io/nvidia/ai-dynamo/dynamo-planner";
/// The phases in which a request cannot be changed.
const FIXED: [&str; 4] = ["Profiling", "Deploying", "Ready", "Deployed"];

pub fn default(settings: &Settings, question: &Question<'_>) -> Answer {
    let mut request = question.new.clone();
    if text(&request["spec"]["image"]).is_empty() {
        request["spec"]["image"] = json!(format!("{IMAGE}:{}", settings.version));
    }
    Answer::instead(request, question.new)
}

/// Whether GPUs are looked for on nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Discovery {
    On,
    Off,
}

pub fn validate(question: &Question<'_>, discovery: Discovery) -> Answer {
    if !question.new["metadata"]["deletionTimestamp"].is_null() {
        return Answer::default();
    }
    let mut errors = Vec::new();
    let (spec, old) = (&question.new["spec"], &question.old["spec"]);
    let phase = text(&question.old["status"]["phase"]);
    if old.is_object() && old != spec && FIXED.contains(&phase) && !may_change(old, spec, phase) {
        let detail = format!(
            "updates are forbidden while the resource is in phase \"{phase}\"; delete and recreate \
             the resource to change its spec"
        );
        errors.push(FieldError::forbidden("spec", detail));
        return Answer::judge(&errors);
    }
    if discovery == Discovery::Off && !hardware::is_said(spec) {
        let detail = "gpuSku, vramMb and numGpusPerNode are required when GPU discovery is off";
        errors.push(required("spec.hardware", detail));
    }
    if spec["searchStrategy"] == "thorough" && spec["backend"] == "auto" {
        let detail = "searchStrategy \"thorough\" needs a backend other than \"auto\"";
        errors.push(FieldError::invalid("spec.searchStrategy", "thorough", detail));
    }
    let image = text(&spec["image"]);
    let is_new = old["image"] != spec["image"]
        || old["runtimeVersionOverride"] != spec["runtimeVersionOverride"];
    if is_new && !image.is_empty() && !has_version(image) {
        let version = text(&spec["runtimeVersionOverride"]);
        if version.is_empty() {
            let detail = "is required when the image tag is not a semantic version";
            errors.push(required("spec.runtimeVersionOverride", detail));
        }
    }
    Answer::judge(&errors)
}

/// A request that is only looked at may name another version; one that is ready may be applied.
fn may_change(old: &Value, new: &Value, phase: &str) -> bool {
    let without = |spec: &Value, field: &str| {
        let mut spec = spec.clone();
        if let Some(fields) = spec.as_object_mut() {
            fields.remove(field);
        }
        spec
    };
    let differs_by = |field: &str| without(old, field) == without(new, field);
    let is_held = old["autoApply"] == false && new["autoApply"] == false;
    match phase {
        "Profiling" => is_held && differs_by("runtimeVersionOverride"),
        "Ready" => (is_held && differs_by("runtimeVersionOverride")) || differs_by("autoApply"),
        _ => false,
    }
}

fn has_version(image: &str) -> bool {
    let last = image.rsplit('/').next().unwrap_or_default();
    let Some((_, tag)) = last.split_once(':') else { return false };
    let tag = tag.split('@').next().unwrap_or_default().trim_start_matches('v');
    let core = tag.split(['-', '+']).next().unwrap_or_default();
    let parts: Vec<&str> = core.split('.').collect();
    parts.len() == 3 && parts.iter().all(|part| part.parse::<u32>().is_ok())
}

fn required(field: &str, detail: &str) -> FieldError {
    let field = field.to_owned();
    FieldError { field, problem: Problem::Required, detail: detail.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(new: Value, old: Value) -> String {
        let question = Question { request: &Value::Null, new: &new, old: &old };
        let answer = validate(&question, Discovery::On);
        answer.refusal.map(|refusal| refusal.message).unwrap_or_default()
    }

    fn request(spec: Value, phase: &str) -> Value {
        let mut whole = json!({"model": "m", "image": "x/y:1.2.3", "backend": "vllm"});
        reconcile::plan::merge(&mut whole, &spec);
        json!({"spec": whole, "status": {"phase": phase}})
    }

    #[test]
    fn a_request_says_which_version_it_is_about() {
        assert_eq!(said(request(json!({}), ""), Value::Null), "");
        let odd = request(json!({"image": "x/y:main"}), "");
        assert!(said(odd, Value::Null).starts_with("spec.runtimeVersionOverride: Required value"));
        let named = json!({"image": "x/y:main", "runtimeVersionOverride": "1.5.0"});
        assert_eq!(said(request(named, ""), Value::Null), "");
        let thorough = json!({"searchStrategy": "thorough", "backend": "auto"});
        assert!(said(request(thorough, ""), Value::Null).contains("thorough"));
        let bare = json!({"spec": {"model": "m"}});
        let question = Question { request: &Value::Null, new: &bare, old: &Value::Null };
        let whole = default(&Settings::default(), &question).object.expect("an image");
        let image = text(&whole["spec"]["image"]);
        assert!(image.starts_with(IMAGE) && has_version(image), "{image}");
    }

    #[test]
    fn a_request_that_is_measured_for_stays_what_it_is() {
        let changed = || json!({"model": "other"});
        let why = said(request(changed(), "Profiling"), request(json!({}), "Profiling"));
        let expected = "spec: Forbidden: updates are forbidden while the resource is in phase \
                        \"Profiling\"; delete and recreate the resource to change its spec";
        assert_eq!(why, expected);
        assert_eq!(said(request(changed(), "Failed"), request(json!({}), "Failed")), "");
        let held = |apply: bool| request(json!({"autoApply": apply}), "Ready");
        assert_eq!(said(held(true), held(false)), "");
    }
}
