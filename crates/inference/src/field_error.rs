//! What is wrong with a field, in the words that clients of Kubernetes know.

use std::fmt;

use serde_json::Value;

#[derive(Clone, Debug, PartialEq)]
pub struct FieldError {
    pub field: String,
    pub problem: Problem,
    pub detail: String,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Problem {
    Invalid(Value),
    Forbidden,
    Required,
    Duplicate(Value),
}

impl FieldError {
    pub fn invalid(
        field: impl Into<String>,
        value: impl Into<Value>,
        detail: impl Into<String>,
    ) -> FieldError {
        let problem = Problem::Invalid(value.into());
        FieldError { field: field.into(), problem, detail: detail.into() }
    }

    pub fn required(field: impl Into<String>, detail: impl Into<String>) -> FieldError {
        FieldError { field: field.into(), problem: Problem::Required, detail: detail.into() }
    }

    pub fn forbidden(field: impl Into<String>, detail: impl Into<String>) -> FieldError {
        FieldError { field: field.into(), problem: Problem::Forbidden, detail: detail.into() }
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let FieldError { field, problem, detail } = self;
        match problem {
            Problem::Invalid(value) => write!(f, "{field}: Invalid value: {value}: {detail}"),
            Problem::Forbidden => write!(f, "{field}: Forbidden: {detail}"),
            Problem::Required => write!(f, "{field}: Required value: {detail}"),
            Problem::Duplicate(value) => write!(f, "{field}: Duplicate value: {value}"),
        }
    }
}

/// Several as one text.
pub fn together(errors: &[FieldError]) -> String {
    match errors {
        [one] => one.to_string(),
        errors => {
            let texts: Vec<String> = errors.iter().map(FieldError::to_string).collect();
            format!("[{}]", texts.join(", "))
        }
    }
}
