//! PersistentVolumeClaimResize: a claim grows only where its class allows it.
//!
//! Upstream: plugin/pkg/admission/storage/persistentvolume/resize/admission.go

use serde_json::{Value, json};

use super::Refusal;
use crate::registry::{amount, edit};

/// `class` is the one the claim names, if it exists.
pub fn check(claim: &Value, old: &Value, class: Option<&Value>) -> Result<(), Refusal> {
    let size =
        |it: &Value| amount::read(edit::at(it, &["spec", "resources", "requests", "storage"]));
    let (Some(new), Some(was)) = (size(claim), size(old)) else { return Ok(()) };
    if new <= was {
        return Ok(());
    }
    if edit::text(old, &["status", "phase"]) != "Bound" {
        return Err("Only bound persistent volume claims can be expanded".to_owned());
    }
    let allowed = class.is_some_and(|it| it.get("allowVolumeExpansion") == Some(&json!(true)));
    if allowed {
        return Ok(());
    }
    let text = "only dynamically provisioned pvc can be resized and the storageclass that \
                provisions the pvc must support resize";
    Err(text.to_owned())
}
