//! StorageObjectInUseProtection: volumes and claims are not removed while somebody uses them.
//!
//! Upstream: plugin/pkg/admission/storage/storageobjectinuseprotection/admission.go

use async_trait::async_trait;
use serde_json::{Value, json};

use super::{Attributes, Plugin};
use crate::registry::edit::{object, set_default};
use crate::server::Server;
use crate::status::Error;

const CLAIM: &str = "kubernetes.io/pvc-protection";
const VOLUME: &str = "kubernetes.io/pv-protection";

/// For a new object of that kind.
pub fn apply(kind: &str, created: &mut Value) {
    let finalizer = match kind {
        "PersistentVolumeClaim" => CLAIM,
        "PersistentVolume" => VOLUME,
        _ => return,
    };
    let Some(metadata) = object(created, "metadata") else { return };
    set_default(metadata, "finalizers", json!([]));
    if let Some(all) = metadata.get_mut("finalizers").and_then(Value::as_array_mut)
        && !all.iter().any(|it| it == finalizer)
    {
        all.push(json!(finalizer));
    }
}

pub struct StorageInUseProtection;

#[async_trait]
impl Plugin for StorageInUseProtection {
    fn handles(&self, attributes: &Attributes<'_>) -> bool {
        attributes.creates("", "persistentvolumeclaims")
            || attributes.creates("", "persistentvolumes")
    }

    async fn mutate(
        &self,
        _server: &Server,
        attributes: &Attributes<'_>,
        object: &mut Value,
    ) -> Result<(), Error> {
        apply(&attributes.resource.kind, object);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn storage_gets_its_finalizer_once() {
        for (kind, expected) in [
            ("PersistentVolumeClaim", json!([CLAIM])),
            ("PersistentVolume", json!([VOLUME])),
            ("Pod", Value::Null),
        ] {
            let mut object = json!({"metadata": {}});
            apply(kind, &mut object);
            apply(kind, &mut object);
            assert_eq!(object["metadata"]["finalizers"], expected);
        }
    }
}
