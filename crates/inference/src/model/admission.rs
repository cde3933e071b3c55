//! DynamoModels before they are written: what cannot work is refused.

use serde_json::Value;

use crate::field_error::{FieldError, Problem};
use crate::review::{Answer, Question};
use crate::value::text;

/// Where adapters may come from.
const SCHEMES: [&str; 3] = ["s3://", "hf://", "file:///"];

pub fn validate(question: &Question<'_>) -> Answer {
    if !question.new["metadata"]["deletionTimestamp"].is_null() {
        return Answer::default();
    }
    let mut errors = Vec::new();
    let (spec, old) = (&question.new["spec"], &question.old["spec"]);
    for field in ["modelName", "baseModelName"] {
        if text(&spec[field]).trim().is_empty() {
            errors.push(required(field, "must not be empty"));
        }
    }
    if spec["modelType"] == "lora" {
        source(&mut errors, spec);
    }
    for field in ["baseModelName", "modelType"] {
        if old.is_object() && old[field] != spec[field] {
            let detail = "is immutable and cannot be changed after creation";
            let value = spec[field].clone();
            errors.push(FieldError::invalid(format!("spec.{field}"), value, detail));
        }
    }
    Answer::judge(&errors)
}

fn source(errors: &mut Vec<FieldError>, spec: &Value) {
    let uri = text(&spec["source"]["uri"]);
    if uri.is_empty() {
        errors.push(required("source.uri", "must be specified when spec.modelType is \"lora\""));
        return;
    }
    let is_known = SCHEMES.iter().any(|scheme| uri.starts_with(scheme) && uri.len() > scheme.len());
    if !is_known {
        let detail = "must begin with s3://, hf:// or file:///";
        errors.push(FieldError::invalid("spec.source.uri", uri, detail));
    }
}

fn required(field: &str, detail: &str) -> FieldError {
    let field = format!("spec.{field}");
    FieldError { field, problem: Problem::Required, detail: detail.to_owned() }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn said(spec: Value, old: Value) -> String {
        let (new, old) = (json!({"spec": spec}), json!({"spec": old}));
        let answer = validate(&Question { request: &Value::Null, new: &new, old: &old });
        answer.refusal.map(|refusal| refusal.message).unwrap_or_default()
    }

    #[test]
    fn an_adapter_says_where_it_is_and_a_model_stays_what_it_is() {
        let base = json!({"modelName": "m", "baseModelName": "b", "modelType": "base"});
        assert_eq!(said(base.clone(), Value::Null), "");
        let lora = |uri: &str| {
            json!({"modelName": "m", "baseModelName": "b", "modelType": "lora",
            "source": {"uri": uri}})
        };
        assert_eq!(said(lora("hf://a/b"), Value::Null), "");
        assert_eq!(
            said(lora(""), Value::Null),
            "spec.source.uri: Required value: must be \
            specified when spec.modelType is \"lora\""
        );
        assert!(said(lora("ftp://x"), Value::Null).contains("must begin with"));
        assert!(
            said(json!({"modelName": " ", "baseModelName": "b"}), Value::Null)
                .contains("must not be empty")
        );
        assert!(said(lora("hf://a/b"), base).contains("is immutable and cannot be changed"));
    }
}
