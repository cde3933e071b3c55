//! The rules of custom objects: those of their schema, and what upstream does to all of them.
//!
//! Upstream: apiextensions-apiserver/pkg/registry/customresource/{strategy,status_strategy}.go

use schema::Violation;
use serde_json::{Map, Value};

use super::Version;
use crate::field_error::{FieldError, Problem};
use crate::registry::checks::Errors;
use crate::registry::edit;
use crate::registry::metadata;
use crate::registry::strategy::{Context, Properties, Strategy};

impl Strategy for Version {
    fn properties(&self) -> Properties {
        Properties {
            has_status: self.has_status,
            // Taken away below: nothing is better than an empty one.
            keeps_status_on_create: true,
            has_generation: true,
            allows_unconditional_update: false,
            allows_bare_finalizers: true,
            ..Properties::DEFAULT
        }
    }

    fn default(&self, object: &mut Value) {
        // Admission may have added what the schema does not know.
        schema::prune(object, self.schema());
        schema::default(object, self.schema());
    }

    fn prepare_create(&self, object: &mut Value, _context: &Context<'_>) {
        if self.has_status {
            edit::remove(object, "status");
        }
    }

    fn prepare_update(&self, object: &mut Value, old: &Value, context: &Context<'_>) {
        if context.subresource != "status" {
            return;
        }
        // All of the metadata is that of the old object, but for who owns the status.
        let mut metadata = old["metadata"].clone();
        for name in ["managedFields", "resourceVersion"] {
            edit::copy_field(&mut metadata, &object["metadata"], name);
        }
        edit::set(object, "metadata", metadata);
    }

    fn validate(&self, object: &Value) -> Errors {
        self.check(object, None).0
    }

    fn validate_update(&self, object: &Value, old: &Value, _subresource: &str) -> Errors {
        self.check(object, Some(old)).0
    }

    fn warnings(&self, object: &Value, old: Option<&Value>) -> Vec<String> {
        metadata::finalizer_warnings(object, old)
    }

    /// The rules are run once: what they find is an error, or where nothing changed a warning.
    fn judge_update(
        &self,
        object: &Value,
        old: &Value,
        _subresource: &str,
    ) -> (Errors, Vec<String>) {
        let (errors, mut warnings) = self.check(object, Some(old));
        warnings.extend(self.warnings(object, Some(old)));
        (errors, warnings)
    }

    /// Without a subresource the status is a part of the object like any other.
    fn changes_generation(&self, object: &Value, old: &Value) -> bool {
        let is_content = |name: &String| {
            !(["apiVersion", "kind", "metadata"].contains(&name.as_str())
                || self.has_status && name == "status")
        };
        let all = [object, old].into_iter().filter_map(Value::as_object).flat_map(|map| map.keys());
        all.filter(|name| is_content(name)).any(|name| object.get(name) != old.get(name))
    }
}

impl Version {
    /// What is wrong with an object, and what is only worth a warning.
    fn check(&self, object: &Value, old: Option<&Value>) -> (Errors, Vec<String>) {
        let options = schema::Options { rules: self.rules(), metadata: Some(&embedded) };
        let outcome = schema::validate(object, old, self.schema(), &options);
        (outcome.violations.into_iter().map(FieldError::from).collect(), outcome.warnings)
    }
}

/// The metadata of a resource inside an object is held to the rules of all metadata.
pub fn embedded(path: &str, metadata: &Map<String, Value>) -> Vec<Violation> {
    metadata::validate_embedded(path, metadata).into_iter().map(Violation::from).collect()
}

impl From<FieldError> for Violation {
    fn from(error: FieldError) -> Violation {
        use schema::Problem as To;
        let problem = match error.problem {
            Problem::Required => To::Required,
            Problem::NotSupported => To::NotSupported,
            Problem::Duplicate => To::Duplicate,
            Problem::Forbidden => To::Forbidden,
            Problem::TooLong => To::TooLong,
            Problem::TooMany => To::TooMany,
            Problem::TypeInvalid => To::TypeInvalid,
            Problem::Internal => To::Internal,
            Problem::Invalid | Problem::TooFew | Problem::TooShort | Problem::NotFound => {
                To::Invalid
            }
        };
        Violation { problem, path: error.path, value: error.value, detail: error.detail }
    }
}
