//! What is wrong with a field, in the words Kubernetes clients know.
//!
//! Upstream: apimachinery/pkg/util/validation/field/errors.go

use std::fmt;

use serde_json::Value;

use crate::number::json_text;
use crate::path::Path;

/// The kind of a violation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Problem {
    Required,
    Invalid,
    NotSupported,
    Duplicate,
    Forbidden,
    TooLong,
    TooMany,
    TypeInvalid,
    Internal,
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq)]
pub struct Violation {
    pub problem: Problem,
    /// As users write it: `spec.containers[0].image`; `<nil>` for the object itself.
    pub path: String,
    /// What was found; not printed for required, forbidden, too long and internal errors.
    pub value: Value,
    pub detail: String,
}

impl Problem {
    fn text(self) -> &'static str {
        match self {
            Problem::Required => "Required value",
            Problem::Invalid | Problem::TypeInvalid => "Invalid value",
            Problem::NotSupported => "Unsupported value",
            Problem::Duplicate => "Duplicate value",
            Problem::Forbidden => "Forbidden",
            Problem::TooLong => "Too long",
            Problem::TooMany => "Too many",
            Problem::Internal => "Internal error",
        }
    }

    fn shows_value(self) -> bool {
        !matches!(
            self,
            Problem::Required | Problem::Forbidden | Problem::TooLong | Problem::Internal
        )
    }
}

impl Violation {
    pub fn required(path: &Path<'_>, detail: impl Into<String>) -> Violation {
        Violation::new(Problem::Required, path, Value::Null, detail)
    }

    pub fn invalid(
        path: &Path<'_>,
        value: impl Into<Value>,
        detail: impl Into<String>,
    ) -> Violation {
        Violation::new(Problem::Invalid, path, value, detail)
    }

    pub fn forbidden(path: &Path<'_>, detail: impl Into<String>) -> Violation {
        Violation::new(Problem::Forbidden, path, Value::Null, detail)
    }

    pub fn duplicate(path: &Path<'_>, value: impl Into<Value>) -> Violation {
        Violation::new(Problem::Duplicate, path, value, "")
    }

    pub fn internal(path: &Path<'_>, detail: impl Into<String>) -> Violation {
        Violation::new(Problem::Internal, path, Value::Null, detail)
    }

    /// The supported values are named in the order given.
    pub fn not_supported<'s>(
        path: &Path<'_>,
        value: impl Into<Value>,
        supported: impl IntoIterator<Item = &'s str>,
    ) -> Violation {
        let quoted: Vec<_> = supported.into_iter().map(|one| format!("{one:?}")).collect();
        let detail = match quoted.is_empty() {
            true => String::new(),
            false => format!("supported values: {}", quoted.join(", ")),
        };
        Violation::new(Problem::NotSupported, path, value, detail)
    }

    pub fn too_long(path: &Path<'_>, bytes_max: i64) -> Violation {
        let detail = format!("may not be more than {bytes_max} bytes");
        Violation::new(Problem::TooLong, path, Value::Null, detail)
    }

    pub fn too_many(path: &Path<'_>, found: usize, items_max: i64) -> Violation {
        let noun = if items_max == 1 { "item" } else { "items" };
        let detail = format!("must have at most {items_max} {noun}");
        Violation::new(Problem::TooMany, path, found, detail)
    }

    pub fn new(
        problem: Problem,
        path: &Path<'_>,
        value: impl Into<Value>,
        detail: impl Into<String>,
    ) -> Violation {
        Violation { problem, path: path.text(), value: value.into(), detail: detail.into() }
    }

    /// The text without the path: the `message` of a cause.
    pub fn message(&self) -> String {
        let mut text = self.problem.text().to_owned();
        if self.problem.shows_value() {
            text.push_str(": ");
            text.push_str(&match &self.value {
                Value::Null => "\"null\"".to_owned(),
                value => json_text(value),
            });
        }
        if !self.detail.is_empty() {
            text.push_str(": ");
            text.push_str(&self.detail);
        }
        text
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.path, self.message())
    }
}
