//! Where what was frozen is kept: a claim of the same name in every namespace that has checkpoints.
//! It is nobody's, so that what is in it outlives the graph that asked for it.
//!
//! Upstream: ai-dynamo/dynamo, deploy/operator/internal/checkpoint/storage.go

use amounts::Quantity;
use reconcile::Object;
use serde_json::{Value, json};

use super::{ID, OWNER};
use crate::value::{find_mut, text, upsert};

/// The volume by which pods have it.
const VOLUME: &str = "checkpoint-storage";
const CLEANUP_DEADLINE_SECONDS: i64 = 300;
const CLEANUP_KEPT_SECONDS: i64 = 300;
/// On the Job that removes: the UID of the checkpoint that it is for.
const FOR: &str = "inference.setpoint.dev/checkpoint-uid";
/// Removes the directory of one checkpoint, and nothing beside it.
const CLEANUP: &str = r#"set -eu
case "$CHECKPOINT_ID" in ''|.*|*/*) echo "bad id: $CHECKPOINT_ID" >&2; exit 1;; esac
rm -rf -- "${CHECKPOINT_BASE_PATH%/}/$CHECKPOINT_ID""#;

/// A claim, and where pods have it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Storage {
    pub claim: String,
    pub base_path: String,
    /// How it is made where it is missing; else it is an error that it is.
    pub made: Option<Made>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Made {
    pub size: String,
    pub class: String,
    pub access_mode: String,
}

impl Storage {
    /// Reads `checkpoint.storage` of the operator's file; nothing where others keep it. Stores of
    /// objects and registries are such: files name them still, and who freezes pods is told of them
    /// elsewhere.
    pub fn read(said: &Value) -> Result<Option<Storage>, String> {
        const FIELD: &str = "checkpoint.storage";
        let pvc = &said["pvc"];
        let field = |name: &str| text(&pvc[name]).trim().to_owned();
        // Files that were made of a template say all fields, empty ones too.
        let is_meant = |value: &Value| *value == true || !text(value).trim().is_empty();
        let is_said = pvc.as_object().is_some_and(|fields| fields.values().any(is_meant));
        match text(&said["type"]).trim() {
            "" | "s3" | "oci" if !is_said => return Ok(None),
            "" | "pvc" => {}
            other => {
                return Err(format!("{FIELD}.type {other:?} is not supported: it must be pvc"));
            }
        }
        let (claim, base_path) = (field("pvcName"), field("basePath"));
        if claim.is_empty() || base_path.is_empty() {
            return Err(format!("{FIELD}.pvc.pvcName and {FIELD}.pvc.basePath are required"));
        }
        let is_clean = base_path.starts_with('/') && !base_path.split('/').any(|part| part == "..");
        let base_path = base_path.trim_end_matches('/').to_owned();
        if !is_clean || base_path.is_empty() {
            return Err(format!("{FIELD}.pvc.basePath must be an absolute path below /"));
        }
        let made = match pvc["create"] == true {
            false => None,
            true => {
                let (size, class) = (field("size"), field("storageClassName"));
                if Quantity::read(&json!(size)).is_none() {
                    return Err(format!("{FIELD}.pvc.size must be an amount such as 100Gi"));
                }
                let access_mode = match field("accessMode").as_str() {
                    "" => "ReadWriteMany".to_owned(),
                    mode @ ("ReadWriteMany" | "ReadWriteOnce") => mode.to_owned(),
                    _ => {
                        let why = "must be ReadWriteMany or ReadWriteOnce";
                        return Err(format!("{FIELD}.pvc.accessMode {why}"));
                    }
                };
                Some(Made { size, class, access_mode })
            }
        };
        Ok(Some(Storage { claim, base_path, made }))
    }

    /// The claim of a namespace that lacks it, or why there is none.
    pub fn claim(&self, namespace: &str) -> Result<Value, String> {
        let Some(made) = &self.made else {
            return Err(format!(
                "checkpoint storage PVC {namespace}/{} does not exist and \
                 checkpoint.storage.pvc.create is false",
                self.claim
            ));
        };
        let mut spec = json!({"accessModes": [made.access_mode], "volumeMode": "Filesystem",
            "resources": {"requests": {"storage": made.size}}});
        if !made.class.is_empty() {
            spec["storageClassName"] = json!(made.class);
        }
        Ok(json!({
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"namespace": namespace, "name": self.claim, "labels": {
                "app.kubernetes.io/name": "dynamo",
                "app.kubernetes.io/component": "checkpoint-storage",
                "app.kubernetes.io/managed-by": "dynamo-operator",
            }},
            "spec": spec,
        }))
    }

    /// Gives it to a container of a pod.
    pub fn mount(&self, pod: &mut Value, container: &str) {
        let Some(container) = find_mut(&mut pod["containers"], "name", container) else { return };
        upsert(&mut container["volumeMounts"], "name", self.mounted());
        upsert(&mut pod["volumes"], "name", self.volume());
    }

    fn mounted(&self) -> Value {
        json!({"name": VOLUME, "mountPath": self.base_path})
    }

    fn volume(&self) -> Value {
        json!({"name": VOLUME, "persistentVolumeClaim": {"claimName": self.claim}})
    }

    /// The Job that removes what a checkpoint has left. Nobody controls it: whoever is deleted
    /// with all that it has would take it along before it is done.
    pub fn cleanup(&self, image: &str, checkpoint: &Object, id: &str) -> Value {
        let labels = json!({ID: id, OWNER: &*checkpoint.name.name});
        let container = json!({
            "name": "cleanup",
            "image": image,
            "command": ["/bin/sh", "-c"],
            "args": [CLEANUP],
            "env": [{"name": "CHECKPOINT_BASE_PATH", "value": self.base_path},
                {"name": "CHECKPOINT_ID", "value": id}],
            "volumeMounts": [self.mounted()],
        });
        json!({
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {"namespace": &*checkpoint.name.namespace, "name": cleanup_name(id),
                "labels": labels, "annotations": {FOR: checkpoint.uid}},
            "spec": {
                "backoffLimit": 0,
                "activeDeadlineSeconds": CLEANUP_DEADLINE_SECONDS,
                "ttlSecondsAfterFinished": CLEANUP_KEPT_SECONDS,
                "template": {"metadata": {"labels": {ID: id}}, "spec": {
                    "restartPolicy": "Never", "containers": [container],
                    "volumes": [self.volume()]}},
            },
        })
    }
}

/// Whether a Job removes for this checkpoint, and not for one before it of the same identity.
pub fn is_for(job: &Object, checkpoint: &Object) -> bool {
    job.annotation(FOR) == Some(checkpoint.uid.as_str())
}

pub fn cleanup_name(id: &str) -> String {
    format!("checkpoint-cleanup-{id}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_file_says_of_it_is_read_or_refused() {
        assert_eq!(Storage::read(&json!(null)), Ok(None));
        assert_eq!(Storage::read(&json!({"type": "oci"})), Ok(None));
        let bucket = json!({"type": "s3", "s3": {"uri": "s3://bucket/kept",
            "credentialsSecretRef": "keys"}, "pvc": {"pvcName": "", "create": false}});
        assert_eq!(Storage::read(&bucket), Ok(None));
        let there = json!({"type": "pvc", "pvc": {"pvcName": "c", "basePath": "/kept/"}});
        let read = Storage::read(&there).expect("good").expect("one");
        assert_eq!((read.base_path.as_str(), read.made.is_none()), ("/kept", true));
        assert!(read.claim("n").is_err_and(|why| why.contains("PVC n/c does not exist")));
        let made = json!({"pvc": {"pvcName": "c", "basePath": "/kept", "create": true,
            "size": "1Gi", "storageClassName": "fast"}});
        let claim = Storage::read(&made).expect("good").expect("one").claim("n").expect("made");
        assert_eq!(claim["spec"]["accessModes"], json!(["ReadWriteMany"]));
        assert_eq!(claim["spec"]["storageClassName"], "fast");
        for (said, why) in [
            (json!({"type": "tape"}), "is not supported"),
            (json!({"type": "s3", "pvc": {"pvcName": "c"}}), "is not supported"),
            (json!({"type": "pvc"}), "are required"),
            (json!({"pvc": {"pvcName": "c", "basePath": "kept"}}), "absolute"),
            (json!({"pvc": {"pvcName": "c", "basePath": "/a/../b"}}), "absolute"),
            (json!({"pvc": {"pvcName": "c", "basePath": "/a", "create": true}}), "size"),
        ] {
            let refused = Storage::read(&said).expect_err("bad");
            assert!(refused.contains(why), "{refused}");
        }
    }
}
