//! The rules of containers, init containers and ephemeral containers.
//!
//! Upstream: pkg/apis/core/validation/validation.go (validateContainers and its kin)

use serde_json::Value;

use super::volumes::Volumes;
use super::{env, mounts, ports, probes, resources, security};
use crate::registry::checks::{self, Errors};
use crate::registry::field::Field;
use crate::registry::names;

const RUNNING_ONLY: [&str; 4] = ["lifecycle", "livenessProbe", "readinessProbe", "startupProbe"];
const NOT_EPHEMERAL: [&str; 7] = [
    "ports",
    "resources",
    "livenessProbe",
    "readinessProbe",
    "startupProbe",
    "lifecycle",
    "resizePolicy",
];

pub fn validate(spec: &Field<'_>, volumes: &Volumes<'_>, errors: &mut Errors) {
    if spec.count("containers") == 0 {
        errors.push(spec.at("containers").required(""));
    }
    let mut names = Vec::new();
    for container in spec.items("containers") {
        validate_any(&container, spec, volumes, errors);
        validate_unique(&container, &mut names, errors);
        probes::validate(&container, spec, errors);
        validate_restart_policy(&container, errors);
    }
    ports::validate_host_ports(spec, "containers", errors);
    for container in spec.items("initContainers") {
        validate_any(&container, spec, volumes, errors);
        validate_init(&container, spec, errors);
        validate_unique(&container, &mut names, errors);
    }
    for container in spec.items("ephemeralContainers") {
        validate_any(&container, spec, volumes, errors);
        validate_ephemeral(&container, spec, errors);
        validate_unique(&container, &mut names, errors);
    }
}

fn validate_unique<'a>(container: &Field<'a>, seen: &mut Vec<&'a str>, errors: &mut Errors) {
    let name = container.text("name");
    if seen.contains(&name) && !name.is_empty() {
        errors.push(container.at("name").duplicate());
    }
    seen.push(name);
}

fn validate_any(
    container: &Field<'_>,
    spec: &Field<'_>,
    volumes: &Volumes<'_>,
    errors: &mut Errors,
) {
    checks::named(&container.at("name"), names::label, errors);
    checks::present(&container.at("image"), errors);
    let policy = container.at("terminationMessagePolicy");
    checks::one_of(&policy, &["File", "FallbackToLogsOnError"], errors);
    ports::validate(container, errors);
    env::validate(container, errors);
    mounts::validate(container, volumes, errors);
    let pull = container.at("imagePullPolicy");
    checks::one_of(&pull, &["Always", "IfNotPresent", "Never"], errors);
    resources::validate(container, spec, errors);
    resources::validate_resize_policy(container, spec, errors);
    security::validate_container(container, spec, errors);
}

fn validate_restart_policy(container: &Field<'_>, errors: &mut Errors) {
    let policy = container.at("restartPolicy");
    checks::absent_or_one_of(&policy, &["Always", "OnFailure", "Never"], errors);
    if container.count("restartPolicyRules") > 0 && !policy.is_set() {
        errors.push(policy.required("must specify restartPolicy when restart rules are used"));
    }
}

fn validate_init(container: &Field<'_>, spec: &Field<'_>, errors: &mut Errors) {
    let policy = container.at("restartPolicy");
    checks::absent_or_one_of(&policy, &["Always", "OnFailure", "Never"], errors);
    if policy.as_text() == "Always" {
        return probes::validate(container, spec, errors);
    }
    for name in RUNNING_ONLY {
        let field = container.at(name);
        if field.is_set() {
            let detail = "may not be set for init containers without restartPolicy=Always";
            errors.push(field.forbidden(detail));
        }
    }
}

fn validate_ephemeral(container: &Field<'_>, spec: &Field<'_>, errors: &mut Errors) {
    let target = container.at("targetContainerName");
    let named = |it: &Value| it.get("name") == Some(target.value);
    let others = || spec.list("containers").iter().chain(spec.list("initContainers"));
    if !target.as_text().is_empty() && !others().any(named) {
        errors.push(target.not_found());
    }
    let detail = "cannot be set for an Ephemeral Container";
    for name in NOT_EPHEMERAL {
        let field = container.at(name);
        if !crate::registry::edit::is_empty(field.value) {
            errors.push(field.forbidden(detail));
        }
    }
    for mount in container.items("volumeMounts") {
        for name in ["subPath", "subPathExpr"] {
            if !mount.text(name).is_empty() {
                errors.push(mount.at(name).forbidden(detail));
            }
        }
    }
}
