//! The rules of volume mounts and devices.

use super::volumes::Volumes;
use crate::registry::checks::{self, Errors};
use crate::registry::edit;
use crate::registry::field::Field;
use crate::registry::names;

pub fn validate(container: &Field<'_>, volumes: &Volumes<'_>, errors: &mut Errors) {
    let mut seen: Vec<&str> = Vec::new();
    for mount in container.items("volumeMounts") {
        validate_mount(container, &mount, volumes, errors);
        let path = mount.at("mountPath");
        if seen.contains(&path.as_text()) {
            errors.push(path.invalid("must be unique"));
        }
        seen.push(mount.text("mountPath"));
        validate_against_devices(container, &mount, errors);
    }
    let (mut names, mut paths): (Vec<&str>, Vec<&str>) = (Vec::new(), Vec::new());
    for device in container.items("volumeDevices") {
        validate_device(container, &device, volumes, errors);
        for (field, seen) in [("name", &mut names), ("devicePath", &mut paths)] {
            let text = device.text(field);
            if seen.contains(&text) && !text.is_empty() {
                errors.push(device.at(field).invalid("must be unique"));
            }
            seen.push(text);
        }
    }
}

fn validate_mount(
    container: &Field<'_>,
    mount: &Field<'_>,
    volumes: &Volumes<'_>,
    errors: &mut Errors,
) {
    let name = mount.at("name");
    checks::present(&name, errors);
    match volumes.get(name.as_text()) {
        None => errors.push(name.not_found()),
        Some(volume) if edit::has(volume, &["image"]) && !mount.text("subPathExpr").is_empty() => {
            let field = mount.at("subPathExpr");
            errors.push(field.invalid("not allowed in image volume sources"));
        }
        Some(_) => {}
    }
    checks::present(&mount.at("mountPath"), errors);
    // Upstream names these without the index of the mount.
    let mounts = container.at("volumeMounts");
    for field in ["subPath", "subPathExpr"] {
        let text = mount.text(field);
        if let Some(fault) = names::descending_path(text) {
            errors.push(mounts.at(field).invalid_value(text, fault));
        }
    }
    if !mount.text("subPath").is_empty() && !mount.text("subPathExpr").is_empty() {
        let detail = "subPathExpr and subPath are mutually exclusive";
        errors.push(mount.at("subPathExpr").invalid(detail));
    }
    validate_propagation(container, mount, errors);
}

fn validate_propagation(container: &Field<'_>, mount: &Field<'_>, errors: &mut Errors) {
    let mounts = container.at("volumeMounts");
    let propagation = mounts.at("mountPropagation");
    let supported = ["Bidirectional", "HostToContainer", "None"];
    match mount.raw("mountPropagation").as_str() {
        None | Some("HostToContainer" | "None") => {}
        Some("Bidirectional") => {
            if !container.at("securityContext").flag("privileged") {
                let detail = "Bidirectional mount propagation is available only to privileged \
                              containers";
                errors.push(propagation.forbidden(detail));
            }
        }
        Some(_) => errors.push(mount.at("mountPropagation").not_supported(&supported)),
    }
    let recursive = mount.at("recursiveReadOnly");
    let supported = ["Disabled", "Enabled", "IfPossible"];
    checks::absent_or_one_of(&recursive, &supported, errors);
    let enabled = ["Enabled", "IfPossible"].contains(&recursive.as_text());
    if enabled && !mount.flag("readOnly") {
        let detail = "may only be specified when readOnly is true";
        errors.push(mounts.at("recursiveReadOnly").forbidden(detail));
    }
}

fn validate_against_devices(container: &Field<'_>, mount: &Field<'_>, errors: &mut Errors) {
    let devices = container.list("volumeDevices");
    let name = mount.at("name");
    if devices.iter().any(|it| it.get("name") == Some(name.value)) {
        errors.push(name.invalid("must not already exist in volumeDevices"));
    }
    let path = mount.at("mountPath");
    if devices.iter().any(|it| it.get("devicePath") == Some(path.value)) {
        errors.push(path.invalid("must not already exist as a path in volumeDevices"));
    }
}

fn validate_device(
    container: &Field<'_>,
    device: &Field<'_>,
    volumes: &Volumes<'_>,
    errors: &mut Errors,
) {
    let name = device.at("name");
    checks::present(&name, errors);
    match volumes.get(name.as_text()) {
        None => errors.push(name.not_found()),
        Some(volume) => {
            let claim =
                edit::has(volume, &["persistentVolumeClaim"]) || edit::has(volume, &["ephemeral"]);
            if !claim {
                errors.push(name.invalid(
                    "can only use volume source type of PersistentVolumeClaim or Ephemeral for \
                     block mode",
                ));
            }
        }
    }
    let path = device.at("devicePath");
    checks::present(&path, errors);
    if names::no_backsteps(path.as_text()).is_some() {
        errors.push(path.invalid("can not contain backsteps ('..')"));
    }
    let mounts = container.list("volumeMounts");
    if mounts.iter().any(|it| it.get("name") == Some(name.value)) {
        errors.push(name.invalid("must not already exist in volumeMounts"));
    }
    if mounts.iter().any(|it| it.get("mountPath") == Some(path.value)) {
        errors.push(path.invalid("must not already exist as a path in volumeMounts"));
    }
}
