//! AdmissionReviews: what is asked before an object is written, and what is answered.
//!
//! One question is one review, whoever brings it: the server of this process, or any other over
//! HTTPS.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::field_error::{FieldError, together};

/// What is asked.
pub struct Question<'a> {
    pub request: &'a Value,
    /// The object as it is to be.
    pub new: &'a Value,
    /// As it was; null for one that is made.
    pub old: &'a Value,
}

/// What is answered.
#[derive(Debug, Default)]
pub struct Answer {
    pub refusal: Option<Refusal>,
    pub warnings: Vec<String>,
    /// The object as it is to be written instead.
    pub object: Option<Value>,
}

#[derive(Debug)]
pub struct Refusal {
    pub code: u16,
    pub message: String,
}

impl<'a> Question<'a> {
    pub fn of(review: &'a Value) -> Question<'a> {
        let request = &review["request"];
        Question { request, new: &request["object"], old: &request["oldObject"] }
    }
}

impl Answer {
    pub fn refuse(code: u16, message: impl Into<String>) -> Answer {
        let refusal = Some(Refusal { code, message: message.into() });
        Answer { refusal, ..Answer::default() }
    }

    /// Refuses for what is wrong, if anything is.
    pub fn judge(errors: &[FieldError]) -> Answer {
        Answer::judge_by(422, errors)
    }

    /// The same with a code that clients of a kind know.
    pub fn judge_by(code: u16, errors: &[FieldError]) -> Answer {
        match errors {
            [] => Answer::default(),
            errors => Answer::refuse(code, together(errors)),
        }
    }

    /// Has an object written that differs from what was asked, if it does.
    pub fn instead(object: Value, asked: &Value) -> Answer {
        Answer { object: (object != *asked).then_some(object), ..Answer::default() }
    }

    /// Has an object written with another specification.
    pub fn with_spec(spec: Value, asked: &Value) -> Answer {
        let mut object = asked.clone();
        object["spec"] = spec;
        Answer::instead(object, asked)
    }

    /// The review with its answer.
    pub fn written(&self, review: &Value) -> Value {
        let mut response =
            json!({"uid": review["request"]["uid"], "allowed": self.refusal.is_none()});
        if let Some(refusal) = &self.refusal {
            let reason = if refusal.code == 422 { "Invalid" } else { "Forbidden" };
            response["status"] = json!({"status": "Failure", "code": refusal.code,
                "reason": reason, "message": refusal.message});
        }
        if !self.warnings.is_empty() {
            response["warnings"] = json!(self.warnings);
        }
        if let Some(object) = &self.object {
            let patch = patch(&review["request"]["object"], object);
            response["patchType"] = json!("JSONPatch");
            response["patch"] = json!(STANDARD.encode(patch.to_string()));
        }
        json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
            "response": response})
    }
}

/// The JSON patch that makes one object of another, field by field of the first two levels: a
/// review of one thing leaves alone what others add elsewhere.
fn patch(old: &Value, new: &Value) -> Value {
    let mut operations = Vec::new();
    differ(&mut operations, "", (old, new), 2);
    Value::Array(operations)
}

fn differ(operations: &mut Vec<Value>, path: &str, (old, new): (&Value, &Value), levels: usize) {
    if old == new {
        return;
    }
    let (Some(was), Some(is), true) = (old.as_object(), new.as_object(), levels > 0) else {
        operations.push(json!({"op": "replace", "path": path, "value": new}));
        return;
    };
    for (name, value) in is {
        let path = format!("{path}/{}", name.replace('~', "~0").replace('/', "~1"));
        match was.get(name) {
            None => operations.push(json!({"op": "add", "path": path, "value": value})),
            Some(before) => differ(operations, &path, (before, value), levels - 1),
        }
    }
    for name in was.keys().filter(|name| !is.contains_key(*name)) {
        let path = format!("{path}/{}", name.replace('~', "~0").replace('/', "~1"));
        operations.push(json!({"op": "remove", "path": path}));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_patch_names_what_differs_and_no_more() {
        let old = json!({"metadata": {"name": "a", "labels": {"x": "1"}}, "spec": {"n": 1}});
        let new = json!({"metadata": {"name": "a", "labels": {"x/y": "2"}},
            "spec": {"n": 1, "m": {}}});
        let expected = json!([
            {"op": "replace", "path": "/metadata/labels", "value": {"x/y": "2"}},
            {"op": "add", "path": "/spec/m", "value": {}},
        ]);
        assert_eq!(patch(&old, &new), expected);
        assert_eq!(
            patch(&new, &json!({"metadata": new["metadata"]})),
            json!([{"op": "remove", "path": "/spec"}])
        );
    }

    #[test]
    fn an_answer_says_why_it_refuses() {
        let review = json!({"request": {"uid": "u", "object": {"spec": {}}}});
        let answer = Answer::judge(&[FieldError::invalid("spec.n", 0, "must be more")]);
        let written = answer.written(&review);
        let message = &written["response"]["status"]["message"];
        assert_eq!(message, "spec.n: Invalid value: 0: must be more");
        assert!(Answer::judge(&[]).refusal.is_none());
        assert!(Answer::instead(json!({}), &json!({})).object.is_none());
    }
}
