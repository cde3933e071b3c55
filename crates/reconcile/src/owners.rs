//! Owner references.

use serde_json::{Value, json};

use crate::kind::Kind;
use crate::object::{Name, Object};

/// A reference to the owner that controls an object.
pub fn controller_reference(kind: Kind, owner: &Object) -> Value {
    json!({
        "apiVersion": kind.api_version(),
        "kind": kind.kind,
        "name": &*owner.name.name,
        "uid": owner.uid,
        "controller": true,
        "blockOwnerDeletion": true,
    })
}

/// A child as its owner wants it: named, owned, of its kind.
pub fn child(kind: Kind, name: &str, owner_kind: Kind, owner: &Object) -> Value {
    json!({
        "apiVersion": kind.api_version(),
        "kind": kind.kind,
        "metadata": {
            "namespace": &*owner.name.namespace,
            "name": name,
            "ownerReferences": [controller_reference(owner_kind, owner)],
        },
    })
}

/// The group of the owner that controls an object.
pub fn controller_group(object: &Object) -> Option<&str> {
    controller(object).map(|(_, group)| group)
}

/// The reference to the owner that controls an object, and the owner's group.
fn controller(object: &Object) -> Option<(&Value, &str)> {
    let owners = object.value["metadata"]["ownerReferences"].as_array()?;
    let reference = owners.iter().find(|reference| reference["controller"] == json!(true))?;
    let group = reference["apiVersion"].as_str()?.rsplit_once('/').map_or("", |(group, _)| group);
    Some((reference, group))
}

/// The name of the owner that controls an object, if it is of this kind.
pub fn controller_name(object: &Object, owner: Kind) -> Option<Name> {
    let (reference, group) = controller(object)?;
    if reference["kind"] != owner.kind || group != owner.group {
        return None;
    }
    let namespace = if owner.namespaced { object.name.namespace.clone() } else { "".into() };
    Some(Name { namespace, name: reference["name"].as_str()?.into() })
}
