//! A schema as it is kept: every keyword of JSONSchemaProps, compiled once and shared.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use crate::pattern::Pattern;

/// A whole schema. Cloning shares it.
#[derive(Clone, Debug)]
pub struct Schema {
    pub root: Arc<Node>,
    /// How many nodes it has, junctors included.
    pub nodes: usize,
}

/// The `type` of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    /// No type is said.
    #[default]
    Unset,
    Object,
    Array,
    String,
    Integer,
    Number,
    Boolean,
    /// Not a type: `null` or something else, kept for the error that names it.
    Unsupported(Box<str>),
}

/// One schema of the tree.
#[derive(Debug, Default)]
pub struct Node {
    pub kind: Kind,
    pub format: Option<Box<str>>,
    pub title: Option<Box<str>>,
    pub description: Option<Box<str>>,
    pub default: Option<Box<Value>>,
    pub nullable: bool,
    pub bounds: Option<Box<Bounds>>,
    pub required: Vec<Box<str>>,
    pub enumeration: Vec<Value>,
    pub properties: BTreeMap<Box<str>, Arc<Node>>,
    pub additional: Option<Additional>,
    pub items: Option<Arc<Node>>,
    pub all_of: Vec<Arc<Node>>,
    pub any_of: Vec<Arc<Node>>,
    pub one_of: Vec<Arc<Node>>,
    pub not: Option<Arc<Node>>,
    pub preserve_unknown: Option<bool>,
    pub embedded_resource: bool,
    pub int_or_string: bool,
    pub list_type: Option<Box<str>>,
    pub list_map_keys: Vec<Box<str>>,
    pub map_type: Option<Box<str>>,
    pub rules: Vec<Rule>,
    pub external_docs: Option<Box<Value>>,
    pub example: Option<Box<Value>>,
    /// Keywords a custom resource may not use, in the order in which they are refused.
    pub refused: Vec<Refused>,
}

/// Limits on values.
#[derive(Debug, Default)]
pub struct Bounds {
    pub maximum: Option<f64>,
    pub exclusive_maximum: bool,
    pub minimum: Option<f64>,
    pub exclusive_minimum: bool,
    pub multiple_of: Option<f64>,
    pub max_length: Option<i64>,
    pub min_length: Option<i64>,
    pub pattern: Option<Arc<Pattern>>,
    pub max_items: Option<i64>,
    pub min_items: Option<i64>,
    pub unique_items: bool,
    pub max_properties: Option<i64>,
    pub min_properties: Option<i64>,
}

/// `additionalProperties`.
#[derive(Clone, Debug)]
pub enum Additional {
    Allowed(bool),
    Schema(Arc<Node>),
}

/// A keyword that is known and not allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Refused {
    Id,
    AdditionalItems,
    PatternProperties,
    Definitions,
    Dependencies,
    Reference,
    /// `items` is a list of schemas.
    ItemsList,
}

/// One entry of `x-kubernetes-validations`.
#[derive(Clone, Debug, Default)]
pub struct Rule {
    pub rule: Box<str>,
    pub message: Box<str>,
    pub message_expression: Box<str>,
    /// As written; see [`Rule::reason`].
    pub reason_text: Option<Box<str>>,
    pub field_path: Box<str>,
    pub optional_old_self: Option<bool>,
}

/// The kind of error a failed rule is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reason {
    #[default]
    Invalid,
    Forbidden,
    Required,
    Duplicate,
}

impl Kind {
    pub fn name(&self) -> &str {
        match self {
            Kind::Unset => "",
            Kind::Object => "object",
            Kind::Array => "array",
            Kind::String => "string",
            Kind::Integer => "integer",
            Kind::Number => "number",
            Kind::Boolean => "boolean",
            Kind::Unsupported(name) => name,
        }
    }

    pub fn is_set(&self) -> bool {
        *self != Kind::Unset
    }
}

impl Node {
    pub fn preserves_unknown(&self) -> bool {
        self.preserve_unknown == Some(true)
    }

    /// The schema of all properties that are not named.
    pub fn additional_schema(&self) -> Option<&Arc<Node>> {
        match &self.additional {
            Some(Additional::Schema(node)) => Some(node),
            _ => None,
        }
    }

    /// The schema of a property, named or not.
    pub fn child(&self, name: &str) -> Option<&Arc<Node>> {
        self.properties.get(name).or_else(|| self.additional_schema())
    }

    pub fn is_list_type(&self, list_type: &str) -> bool {
        self.list_type.as_deref() == Some(list_type)
    }

    pub fn pattern(&self) -> Option<&Pattern> {
        self.bounds.as_ref()?.pattern.as_deref()
    }

    /// Whether values of a map are found again by key: all but atomic maps.
    pub(crate) fn map_correlates(&self) -> bool {
        self.map_type.as_deref().is_none_or(|map_type| map_type == "granular")
    }
}

impl Rule {
    pub const REASONS: [&'static str; 4] =
        ["FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"];

    pub fn reason(&self) -> Reason {
        match self.reason_text.as_deref() {
            Some("FieldValueForbidden") => Reason::Forbidden,
            Some("FieldValueRequired") => Reason::Required,
            Some("FieldValueDuplicate") => Reason::Duplicate,
            _ => Reason::Invalid,
        }
    }

    /// What stands for the rule in errors: its message or else itself.
    pub fn name(&self) -> &str {
        match self.message.is_empty() {
            true => self.rule.trim(),
            false => self.message.trim(),
        }
    }

    /// As the value of an error.
    pub fn to_json(&self) -> Value {
        let mut map = serde_json::Map::new();
        map.insert("rule".to_owned(), Value::from(&*self.rule));
        for (name, text) in [
            ("message", &self.message),
            ("messageExpression", &self.message_expression),
            ("fieldPath", &self.field_path),
        ] {
            if !text.is_empty() {
                map.insert(name.to_owned(), Value::from(&**text));
            }
        }
        if let Some(reason) = &self.reason_text {
            map.insert("reason".to_owned(), Value::from(&**reason));
        }
        if let Some(optional) = self.optional_old_self {
            map.insert("optionalOldSelf".to_owned(), Value::from(optional));
        }
        Value::Object(map)
    }
}
