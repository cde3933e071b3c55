//! The kinds of storage drivers: CSIDriver, CSINode, CSIStorageCapacity, VolumeAttachment and
//! VolumeAttributesClass.
//!
//! Upstream: pkg/registry/storage, pkg/apis/storage/validation/validation.go

use serde_json::{Value, json};

use crate::registry::amount;
use crate::registry::checks::{self, Errors};
use crate::registry::edit::{self, object, set_default};
use crate::registry::field::Field;
use crate::registry::names;
use crate::registry::strategy::{Properties, Strategy};

const CONDITIONAL: Properties =
    Properties { allows_unconditional_update: false, ..Properties::DEFAULT };

pub struct CsiDriver;

impl Strategy for CsiDriver {
    fn properties(&self) -> Properties {
        Properties { has_generation: true, returns_deleted_object: true, ..CONDITIONAL }
    }

    fn default(&self, driver: &mut Value) {
        let Some(spec) = object(driver, "spec") else { return };
        set_default(spec, "attachRequired", true);
        set_default(spec, "podInfoOnMount", false);
        set_default(spec, "storageCapacity", false);
        set_default(spec, "fsGroupPolicy", "ReadWriteOnceWithFSType");
        set_default(spec, "requiresRepublish", false);
        set_default(spec, "seLinuxMount", false);
        if edit::is_empty(edit::at(spec, &["volumeLifecycleModes"])) {
            edit::set(spec, "volumeLifecycleModes", json!(["Persistent"]));
        }
    }

    fn validate(&self, driver: &Value) -> Errors {
        let mut errors = Errors::new();
        let root = Field::root(driver);
        let spec = root.at("spec");
        let policy = spec.at("fsGroupPolicy");
        let known = ["File", "None", "ReadWriteOnceWithFSType"];
        checks::absent_or_one_of(&policy, &known, &mut errors);
        for mode in spec.items("volumeLifecycleModes") {
            checks::one_of(&mode, &["Ephemeral", "Persistent"], &mut errors);
        }
        errors
    }

    fn validate_update(&self, driver: &Value, old: &Value, _subresource: &str) -> Errors {
        let mut errors = self.validate(driver);
        let root = Field::root(driver);
        let spec = root.at("spec");
        for name in ["attachRequired", "volumeLifecycleModes"] {
            checks::immutable(&spec.at(name), edit::at(old, &["spec", name]), &mut errors);
        }
        errors
    }
}

pub struct CsiNode;

impl Strategy for CsiNode {
    fn properties(&self) -> Properties {
        Properties { returns_deleted_object: true, ..CONDITIONAL }
    }

    fn validate(&self, node: &Value) -> Errors {
        let mut errors = Errors::new();
        let root = Field::root(node);
        let spec = root.at("spec");
        let mut seen: Vec<&str> = Vec::new();
        for driver in spec.items("drivers") {
            let name = driver.at("name");
            checks::named(&name, names::subdomain, &mut errors);
            if seen.contains(&name.as_text()) {
                errors.push(name.duplicate());
            }
            seen.push(driver.text("name"));
            checks::present(&driver.at("nodeID"), &mut errors);
            let allocatable = driver.at("allocatable");
            checks::non_negative(&allocatable.at("count"), &mut errors);
        }
        errors
    }
}

pub struct CsiStorageCapacity;

impl Strategy for CsiStorageCapacity {
    fn properties(&self) -> Properties {
        CONDITIONAL
    }

    fn validate(&self, capacity: &Value) -> Errors {
        let mut errors = Errors::new();
        let root = Field::root(capacity);
        let class = root.at("storageClassName");
        checks::faults(&class, names::subdomain(class.as_text()), &mut errors);
        for name in ["capacity", "maximumVolumeSize"] {
            amount::non_negative(&root.at(name), &mut errors);
        }
        errors
    }

    fn validate_update(&self, capacity: &Value, old: &Value, _subresource: &str) -> Errors {
        let mut errors = self.validate(capacity);
        let root = Field::root(capacity);
        for name in ["nodeTopology", "storageClassName"] {
            checks::immutable(&root.at(name), edit::at(old, &[name]), &mut errors);
        }
        errors
    }
}

pub struct VolumeAttachment;

impl Strategy for VolumeAttachment {
    fn properties(&self) -> Properties {
        Properties { has_status: true, returns_deleted_object: true, ..CONDITIONAL }
    }

    fn empty_status(&self) -> Value {
        json!({"attached": false})
    }

    fn validate(&self, attachment: &Value) -> Errors {
        let mut errors = Errors::new();
        let root = Field::root(attachment);
        let spec = root.at("spec");
        checks::present(&spec.at("attacher"), &mut errors);
        let source = spec.at("source");
        match (source.has("persistentVolumeName"), source.has("inlineVolumeSpec")) {
            (true, true) => errors.push(source.forbidden(
                "must specify exactly one of inlineVolumeSpec and persistentVolumeName",
            )),
            (false, false) => {
                errors.push(source.required(
                    "must specify exactly one of inlineVolumeSpec and persistentVolumeName",
                ))
            }
            _ => {}
        }
        checks::named(&spec.at("nodeName"), names::subdomain, &mut errors);
        errors
    }

    fn validate_update(&self, attachment: &Value, old: &Value, subresource: &str) -> Errors {
        let root = Field::root(attachment);
        let mut errors = Errors::new();
        if subresource != "status" && root.raw("spec") != edit::at(old, &["spec"]) {
            errors.push(root.at("spec").invalid("field is immutable"));
        }
        errors
    }
}

pub struct VolumeAttributesClass;

impl Strategy for VolumeAttributesClass {
    fn properties(&self) -> Properties {
        Properties { returns_deleted_object: true, ..Properties::DEFAULT }
    }

    fn validate(&self, class: &Value) -> Errors {
        let mut errors = Errors::new();
        let root = Field::root(class);
        checks::present(&root.at("driverName"), &mut errors);
        if root.count("parameters") == 0 {
            let detail = "must contain at least one key/value pair";
            errors.push(root.at("parameters").required(detail));
        }
        errors
    }

    fn validate_update(&self, class: &Value, old: &Value, _subresource: &str) -> Errors {
        let mut errors = self.validate(class);
        let root = Field::root(class);
        for name in ["driverName", "parameters"] {
            if !edit::same(root.raw(name), edit::at(old, &[name])) {
                let detail = format!("updates to {name} are forbidden.");
                errors.push(root.at(name).forbidden(detail));
            }
        }
        errors
    }
}
