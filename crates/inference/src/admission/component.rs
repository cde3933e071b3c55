//! Components of their own.

use serde_json::json;

use super::shared::{self, Within};
use crate::field_error::FieldError;
use crate::review::{Answer, Question};
use crate::settings::Settings;
use crate::value::text;

/// A component is called as its object is.
pub fn default(question: &Question<'_>) -> Answer {
    let mut object = question.new.clone();
    if text(&object["spec"]["name"]).is_empty() {
        object["spec"]["name"] = json!(text(&object["metadata"]["name"]));
    }
    Answer::instead(object, question.new)
}

pub fn validate(settings: &Settings, question: &Question<'_>) -> Answer {
    let (new, old) = (&question.new["spec"], &question.old["spec"]);
    let mut errors = Vec::new();
    shared::judge(&mut errors, settings, "spec", new, Within::Nothing);
    shared::judge_failover(&mut errors, "spec", new, question.new);
    if old.is_object() {
        if old["backendFramework"] != new["backendFramework"] {
            let value = new["backendFramework"].clone();
            let detail = "is immutable and cannot be changed after creation";
            errors.push(FieldError::invalid("spec.backendFramework", value, detail));
        }
        shared::judge_update(&mut errors, "spec", new, old);
    }
    Answer::judge(&errors)
}
