//! PersistentVolumeClaimResize: a claim grows only where its class allows it.
//!
//! Upstream: plugin/pkg/admission/storage/persistentvolume/resize/admission.go

use async_trait::async_trait;
use serde_json::{Value, json};

use super::{Attributes, Plugin, Refusal, lookup};
use crate::registry::{amount, edit};
use crate::server::Server;
use crate::status::Error;

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

pub struct VolumeClaimResize;

#[async_trait]
impl Plugin for VolumeClaimResize {
    fn handles(&self, attributes: &Attributes<'_>) -> bool {
        attributes.updates("", "persistentvolumeclaims")
    }

    async fn validate(
        &self,
        server: &Server,
        attributes: &Attributes<'_>,
        object: &Value,
    ) -> Result<(), Error> {
        let Some(old) = attributes.old else { return Ok(()) };
        let class = match edit::text(object, &["spec", "storageClassName"]) {
            "" => None,
            name => lookup::one(server, "storage.k8s.io", "storageclasses", ("", name)).await?,
        };
        check(object, old, class.as_ref()).map_err(|why| attributes.refuse(object, &why))
    }
}
