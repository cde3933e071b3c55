//! Devices that pods claim: accelerators and the like.
//!
//! Upstream: pkg/printers/internalversion/printers.go

use serde_json::Value;

use super::super::read::{age, at, is_deleted, list, name, text};
use super::super::{Column, Printer, cells};

const GROUP: &str = "resource.k8s.io";

pub static PRINTERS: &[Printer] = &[
    Printer::new(GROUP, "DeviceClass", &[Column::NAME, Column::AGE], name_and_age),
    Printer::new(GROUP, "ResourceClaim", CLAIM, |object, now| {
        cells![name(object), state(object), age(object, now)]
    }),
    Printer::new(GROUP, "ResourceClaimTemplate", &[Column::NAME, Column::AGE], name_and_age),
    Printer::new(GROUP, "ResourceSlice", SLICE, slice),
];

const CLAIM: &[Column] =
    &[Column::NAME, Column::text("State", "What has become of the claim."), Column::AGE];

const SLICE: &[Column] = &[
    Column::NAME,
    Column::text("Node", "The node that has the devices."),
    Column::text("Driver", "The driver of the devices."),
    Column::text("Pool", "The pool the devices belong to."),
    Column::AGE,
];

fn name_and_age(object: &Value, now: i64) -> Vec<Value> {
    cells![name(object), age(object, now)]
}

fn state(claim: &Value) -> String {
    let is_allocated = !at(claim, &["status", "allocation"]).is_null();
    let is_reserved = is_allocated && !list(claim, &["status", "reservedFor"]).is_empty();
    let is_deleted = is_deleted(claim);
    let states = [
        (is_deleted, "deleted"),
        (!is_allocated && !is_deleted, "pending"),
        (is_allocated, "allocated"),
        (is_reserved, "reserved"),
    ];
    let holding: Vec<&str> = states.iter().filter(|(holds, _)| *holds).map(|one| one.1).collect();
    holding.join(",")
}

fn slice(object: &Value, now: i64) -> Vec<Value> {
    cells![
        name(object),
        text(object, &["spec", "nodeName"]),
        text(object, &["spec", "driver"]),
        text(object, &["spec", "pool", "name"]),
        age(object, now),
    ]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::super::tests::{ago, check};
    use super::GROUP;

    #[test]
    fn claims_say_how_far_they_are() {
        let cases = [
            (json!({}), json!({}), "pending"),
            (json!({}), json!({"allocation": {}}), "allocated"),
            (json!({}), json!({"allocation": {}, "reservedFor": [{}]}), "allocated,reserved"),
            (json!({"deletionTimestamp": ago(1)}), json!({}), "deleted"),
            (json!({"deletionTimestamp": ago(1)}), json!({"allocation": {}}), "deleted,allocated"),
        ];
        for (metadata, status, state) in cases {
            check(
                GROUP,
                "ResourceClaim",
                json!({"metadata": metadata, "status": status}),
                json!(["x", state, "5m"]),
            );
        }
    }

    #[test]
    fn slices_classes_and_templates() {
        check(
            GROUP,
            "ResourceSlice",
            json!({"spec": {"nodeName": "n", "driver": "gpu.io", "pool": {"name": "p"}}}),
            json!(["x", "n", "gpu.io", "p", "5m"]),
        );
        check(GROUP, "DeviceClass", json!({}), json!(["x", "5m"]));
        check(GROUP, "ResourceClaimTemplate", json!({}), json!(["x", "5m"]));
    }
}
