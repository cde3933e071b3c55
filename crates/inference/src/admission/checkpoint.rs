//! Checkpoints: what cannot be frozen.

use crate::field_error::FieldError;
use crate::review::{Answer, Question};
use crate::value::{find, list, text};

pub fn validate(question: &Question<'_>) -> Answer {
    let spec = &question.new["spec"];
    let mut errors = Vec::new();
    for field in ["model", "backendFramework"] {
        if text(&spec["identity"][field]).is_empty() {
            let field = format!("spec.identity.{field}");
            errors.push(FieldError::required(field, "must not be empty"));
        }
    }
    let containers = &spec["job"]["podTemplateSpec"]["spec"]["containers"];
    let target = spec["job"]["targetContainerName"].as_str().unwrap_or("main");
    if list(containers).is_empty() {
        let field = "spec.job.podTemplateSpec.spec.containers";
        errors.push(FieldError::required(field, "must have at least one container"));
    } else if find(containers, "name", target).is_none() {
        let detail = "must match a container of the pod template";
        errors.push(FieldError::invalid("spec.job.targetContainerName", target, detail));
    }
    Answer::judge(&errors)
}
