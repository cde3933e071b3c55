//! What every pod has, whether it is written as a pod or as the template of a workload.
//!
//! Upstream: pkg/apis/core/v1/defaults.go, pkg/apis/core/validation/validation.go

use serde_json::Value;

use crate::registry::checks::{self, Errors};
use crate::registry::field::Field;
use crate::registry::metadata;

pub mod defaults;

mod containers;
mod env;
mod mounts;
mod ports;
mod probes;
pub mod resources;
pub mod scheduling;
mod security;
mod spec;
mod volumes;
pub mod warnings;

pub use ports::PROTOCOLS;
pub use spec::validate;

/// A pod is held to more than the template of one.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Within {
    Pod,
    Template,
}

/// Defaults of a `PodTemplateSpec`.
pub fn default_template(template: &mut Value) {
    if let Some(spec) = crate::registry::edit::object(template, "spec") {
        defaults::default_spec(spec);
    }
}

/// A `PodTemplateSpec`: labels, annotations and a pod's specification.
pub fn validate_template(template: &Field<'_>, errors: &mut Errors) {
    let metadata = template.at("metadata");
    checks::labels(&metadata.at("labels"), errors);
    metadata::validate_annotations(&metadata.at("annotations"), errors);
    let spec = template.at("spec");
    validate(&spec, metadata.value, Within::Template, errors);
    if spec.count("ephemeralContainers") > 0 {
        let field = spec.at("ephemeralContainers");
        errors.push(field.forbidden("ephemeral containers not allowed in pod template"));
    }
}
