//! DefaultStorageClass and DefaultIngressClass: who names no class gets the newest default.
//!
//! Upstream: plugin/pkg/admission/storage/storageclass/setdefault, .../network/defaultingressclass

use async_trait::async_trait;
use serde_json::Value;

use super::{Attributes, Plugin, lookup};
use crate::registry::edit::{self, object, text};
use crate::server::Server;
use crate::status::Error;

const STORAGE: &str = "storageclass.kubernetes.io/is-default-class";
const STORAGE_BETA: &str = "storageclass.beta.kubernetes.io/is-default-class";
const INGRESS: &str = "ingressclass.kubernetes.io/is-default-class";
const INGRESS_OLD: &str = "kubernetes.io/ingress.class";

/// The newest of the marked; of equally old ones the first by name.
fn newest<'a>(classes: &'a [Value], marks: &[&str]) -> Option<&'a str> {
    let marked = |it: &&Value| {
        marks.iter().any(|mark| text(it, &["metadata", "annotations", mark]) == "true")
    };
    let created = |it: &Value| text(it, &["metadata", "creationTimestamp"]).to_owned();
    let name = |it: &'a Value| text(it, &["metadata", "name"]);
    let mut marked: Vec<&Value> = classes.iter().filter(marked).collect();
    marked.sort_by(|one, other| {
        created(other).cmp(&created(one)).then_with(|| name(one).cmp(name(other)))
    });
    marked.first().map(|it| name(it))
}

pub fn apply_to_claim(claim: &mut Value, storage_classes: &[Value]) {
    if edit::has(claim, &["spec", "storageClassName"]) {
        return;
    }
    let Some(name) = newest(storage_classes, &[STORAGE, STORAGE_BETA]) else { return };
    if let Some(spec) = object(claim, "spec") {
        edit::set(spec, "storageClassName", name);
    }
}

pub fn apply_to_ingress(ingress: &mut Value, ingress_classes: &[Value]) {
    if edit::has(ingress, &["spec", "ingressClassName"])
        || edit::has(ingress, &["metadata", "annotations", INGRESS_OLD])
    {
        return;
    }
    let Some(name) = newest(ingress_classes, &[INGRESS]) else { return };
    if let Some(spec) = object(ingress, "spec") {
        edit::set(spec, "ingressClassName", name);
    }
}

pub struct DefaultClass;

#[async_trait]
impl Plugin for DefaultClass {
    fn handles(&self, attributes: &Attributes<'_>) -> bool {
        attributes.creates("", "persistentvolumeclaims")
            || attributes.creates("networking.k8s.io", "ingresses")
    }

    async fn mutate(
        &self,
        server: &Server,
        attributes: &Attributes<'_>,
        object: &mut Value,
    ) -> Result<(), Error> {
        if attributes.resource.kind == "Ingress" {
            let classes = lookup::all(server, "networking.k8s.io", "ingressclasses", "").await?;
            apply_to_ingress(object, &classes);
        } else {
            let classes = lookup::all(server, "storage.k8s.io", "storageclasses", "").await?;
            apply_to_claim(object, &classes);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_claim_without_class_gets_the_newest_default() {
        let class = |name: &str, created: &str| {
            json!({"metadata": {"name": name, "creationTimestamp": created,
                "annotations": {STORAGE: "true"}}})
        };
        let classes = [class("old", "2026-01-01T00:00:00Z"), class("new", "2026-02-01T00:00:00Z")];
        let mut claim = json!({"spec": {}});
        apply_to_claim(&mut claim, &classes);
        assert_eq!(claim["spec"]["storageClassName"], "new");
        let mut claim = json!({"spec": {"storageClassName": ""}});
        apply_to_claim(&mut claim, &classes);
        assert_eq!(claim["spec"]["storageClassName"], "");
    }
}
