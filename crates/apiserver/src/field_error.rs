//! What is wrong with a field, in the words Kubernetes clients know.
//!
//! Upstream: apimachinery/pkg/util/validation/field/errors.go

use std::fmt;

use serde_json::Value;

/// The kind of error; its name is the `reason` of a cause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Problem {
    Required,
    Invalid,
    NotSupported,
    Duplicate,
    Forbidden,
    TooLong,
    TooMany,
    TooFew,
    TooShort,
    NotFound,
    TypeInvalid,
    Internal,
}

/// An error at a field.
#[derive(Clone, Debug, PartialEq)]
pub struct FieldError {
    pub problem: Problem,
    /// As users write it: `spec.containers[0].image`.
    pub path: String,
    /// What was found there; not printed for required, forbidden and size errors.
    pub value: Value,
    pub detail: String,
}

impl Problem {
    /// The `reason` of the cause in a Status.
    pub fn reason(self) -> &'static str {
        match self {
            Problem::Required => "FieldValueRequired",
            Problem::Invalid => "FieldValueInvalid",
            Problem::NotSupported => "FieldValueNotSupported",
            Problem::Duplicate => "FieldValueDuplicate",
            Problem::Forbidden => "FieldValueForbidden",
            Problem::TooLong => "FieldValueTooLong",
            Problem::TooMany => "FieldValueTooMany",
            Problem::TooFew => "FieldValueTooFew",
            Problem::TooShort => "FieldValueTooShort",
            Problem::NotFound => "FieldValueNotFound",
            Problem::TypeInvalid => "FieldValueTypeInvalid",
            Problem::Internal => "InternalError",
        }
    }

    fn text(self) -> &'static str {
        match self {
            Problem::Required => "Required value",
            Problem::Invalid | Problem::TypeInvalid => "Invalid value",
            Problem::NotSupported => "Unsupported value",
            Problem::Duplicate => "Duplicate value",
            Problem::Forbidden => "Forbidden",
            Problem::TooLong => "Too long",
            Problem::TooMany => "Too many",
            Problem::TooFew => "Too few",
            Problem::TooShort => "Too short",
            Problem::NotFound => "Not found",
            Problem::Internal => "Internal error",
        }
    }

    fn shows_value(self) -> bool {
        !matches!(
            self,
            Problem::Required
                | Problem::Forbidden
                | Problem::TooLong
                | Problem::TooMany
                | Problem::TooFew
                | Problem::TooShort
                | Problem::Internal
        )
    }
}

impl FieldError {
    pub fn required(path: impl Into<String>, detail: impl Into<String>) -> FieldError {
        FieldError::new(Problem::Required, path, Value::Null, detail)
    }

    pub fn invalid(
        path: impl Into<String>,
        value: impl Into<Value>,
        detail: impl Into<String>,
    ) -> FieldError {
        FieldError::new(Problem::Invalid, path, value, detail)
    }

    pub fn duplicate(path: impl Into<String>, value: impl Into<Value>) -> FieldError {
        FieldError::new(Problem::Duplicate, path, value, "")
    }

    pub fn forbidden(path: impl Into<String>, detail: impl Into<String>) -> FieldError {
        FieldError::new(Problem::Forbidden, path, Value::Null, detail)
    }

    pub fn not_found(path: impl Into<String>, value: impl Into<Value>) -> FieldError {
        FieldError::new(Problem::NotFound, path, value, "")
    }

    pub fn not_supported(
        path: impl Into<String>,
        value: impl Into<Value>,
        supported: &[&str],
    ) -> FieldError {
        let mut supported: Vec<_> = supported.iter().map(|one| format!("{one:?}")).collect();
        supported.sort();
        let detail = format!("supported values: {}", supported.join(", "));
        FieldError::new(Problem::NotSupported, path, value, detail)
    }

    pub fn too_long(path: impl Into<String>, bytes_max: usize) -> FieldError {
        let detail = format!("may not be more than {bytes_max} bytes");
        FieldError::new(Problem::TooLong, path, Value::Null, detail)
    }

    pub fn new(
        problem: Problem,
        path: impl Into<String>,
        value: impl Into<Value>,
        detail: impl Into<String>,
    ) -> FieldError {
        FieldError { problem, path: path.into(), value: value.into(), detail: detail.into() }
    }

    /// The text without the path: the `message` of a cause.
    pub fn message(&self) -> String {
        let mut text = self.problem.text().to_owned();
        if self.problem.shows_value() {
            // Strings quoted, numbers plain, objects as JSON: what JSON prints is all of these.
            text = format!("{text}: {}", self.value);
        }
        if !self.detail.is_empty() {
            text = format!("{text}: {}", self.detail);
        }
        text
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.path, self.message())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_those_clients_know() {
        let cases = [
            (FieldError::required("spec.foo", ""), "spec.foo: Required value"),
            (
                FieldError::invalid("spec.replicas", -1, "must be greater than or equal to 0"),
                "spec.replicas: Invalid value: -1: must be greater than or equal to 0",
            ),
            (
                FieldError::not_supported("spec.type", "x", &["b", "a"]),
                "spec.type: Unsupported value: \"x\": supported values: \"a\", \"b\"",
            ),
            (FieldError::duplicate("a[1].name", "c"), "a[1].name: Duplicate value: \"c\""),
            (FieldError::forbidden("spec", "no"), "spec: Forbidden: no"),
            (
                FieldError::too_long("metadata.name", 63),
                "metadata.name: Too long: may not be more than 63 bytes",
            ),
        ];
        for (error, text) in cases {
            assert_eq!(error.to_string(), text);
        }
    }
}
