//! The JSONPath dialect of Kubernetes, for printer columns, scale and selectable fields.
//!
//! Fields, keys in brackets, indices and ranges, wildcards, unions, filters and recursive descent;
//! no templates (`range`, `end`). A missing field is no error: nothing is found.
//!
//! Upstream: client-go/util/jsonpath

mod evaluate;
mod parse;

use std::borrow::Cow;

use serde_json::Value;

pub use evaluate::print;

/// The longest path that is read.
pub const LENGTH_MAX: usize = 4096;

/// A path that was read.
#[derive(Clone, Debug, PartialEq)]
pub struct JsonPath {
    steps: Vec<Step>,
}

#[derive(Clone, Debug, PartialEq)]
enum Step {
    /// An empty name is the value itself.
    Field(String),
    Wildcard,
    Recursive,
    Slice {
        start: Option<i64>,
        end: End,
        stride: Option<i64>,
    },
    Filter {
        left: Vec<Step>,
        comparison: Option<(Comparison, Vec<Step>)>,
    },
    Union(Vec<Vec<Step>>),
    Literal(Value),
}

/// Where a range ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// With the list.
    Open,
    Before(i64),
    /// It is one index.
    Single,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
}

impl JsonPath {
    /// Reads a path, `.spec.foo` or `{.spec.foo}`.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str) -> Result<JsonPath, String> {
        if text.len() > LENGTH_MAX {
            return Err(format!("must not be longer than {LENGTH_MAX} bytes"));
        }
        let inside = text.strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
        Ok(JsonPath { steps: parse::steps(inside.unwrap_or(text), 0)? })
    }

    /// All values the path leads to.
    ///
    /// # Errors
    /// An index out of bounds, an index into what is no list, or a comparison without meaning.
    pub fn find<'v>(&self, value: &'v Value) -> Result<Vec<Cow<'v, Value>>, String> {
        evaluate::steps(vec![Cow::Borrowed(value)], &self.steps)
    }

    /// The first value, which is what a printer column shows. An error finds nothing.
    pub fn first<'v>(&self, value: &'v Value) -> Option<Cow<'v, Value>> {
        self.find(value).ok()?.into_iter().next()
    }
}

/// Whether a text has the form of a path in dots, which is all that is checked of printer columns
/// and of the paths of scale.
///
/// # Errors
/// What is wrong with it, as the end of a sentence.
pub fn simple(text: &str) -> Result<(), &'static str> {
    match text.chars().next() {
        None => Err("must not be empty"),
        Some('.') => Ok(()),
        Some(_) => Err("must be a simple json path starting with ."),
    }
}
