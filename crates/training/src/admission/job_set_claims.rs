//! Claims that are there before the JobSet that wants them: one that was kept is used again if it
//! is what the set would make, and only by a set that keeps it.

use amounts::quantity::Quantity;
use reconcile::requests::Requests;
use serde_json::Value;

use crate::field_error::FieldError;
use crate::kinds::PERSISTENT_VOLUME_CLAIM;
use crate::value::{list, says, text};

/// The claims of the names that a set wants. Who cannot be asked does not stand in the way: what is
/// wrong then is met when the claims are made.
pub async fn found(requests: &Requests, set: &Value) -> Vec<Value> {
    let collection = PERSISTENT_VOLUME_CLAIM.collection(text(&set["metadata"]["namespace"]));
    let mut all = Vec::new();
    for (_, template) in templates(set) {
        let name = name(set, template);
        let path = format!("{collection}?fieldSelector=metadata.name%3D{name}");
        let mut answer = requests.read(&path).await.unwrap_or_default();
        all.extend(answer["items"].as_array_mut().map(std::mem::take).unwrap_or_default());
    }
    all
}

pub fn judge(set: &Value, found: &[Value]) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (number, template) in templates(set) {
        let name = name(set, template);
        let is_it = |claim: &&Value| claim["metadata"]["name"] == name.as_str();
        let Some(claim) = found.iter().find(is_it) else { continue };
        let policy = &set["spec"]["volumeClaimPolicies"][number];
        let detail = if policy["retentionPolicy"]["whenDeleted"] != "Retain" {
            format!("the claim {name} exists; only a policy that says Retain takes it")
        } else if !is_same(&claim["spec"], &template["spec"]) {
            format!("the claim {name} exists and has another specification")
        } else {
            continue;
        };
        let field = format!("spec.volumeClaimPolicies[{number}].templates");
        let value = text(&template["metadata"]["name"]);
        errors.push(FieldError::invalid(field, value, detail));
    }
    errors
}

fn templates(set: &Value) -> impl Iterator<Item = (usize, &Value)> {
    let policies = list(&set["spec"]["volumeClaimPolicies"]).iter().enumerate();
    policies.flat_map(|(number, policy)| {
        list(&policy["templates"]).iter().map(move |template| (number, template))
    })
}

fn name(set: &Value, template: &Value) -> String {
    format!("{}-{}", text(&template["metadata"]["name"]), text(&set["metadata"]["name"]))
}

/// Whether a claim says what a template does; its volume and its class may have been added.
fn is_same(claim: &Value, template: &Value) -> bool {
    let storage = |spec: &Value| Quantity::read(&spec["resources"]["requests"]["storage"]);
    let without = |spec: &Value| {
        let mut spec = spec.clone();
        if let Some(requests) = spec.pointer_mut("/resources/requests") {
            requests["storage"] = Value::Null;
        }
        spec
    };
    storage(claim) == storage(template) && says(&without(claim), &without(template))
}
