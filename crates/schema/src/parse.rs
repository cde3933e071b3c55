//! From the JSON of a JSONSchemaProps to a tree of nodes.
//!
//! Keywords that are refused are remembered, not followed: a `$ref` can make no cycle.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::limits::{DEPTH_MAX, NODES_MAX};
use crate::node::{Additional, Bounds, Kind, Node, Refused, Rule, Schema};
use crate::path::Path;
use crate::pattern::Pattern;
use crate::violation::Violation;

type Parsed<T> = Result<T, Box<Violation>>;

impl Schema {
    /// Reads a schema; `path` is where it stands in its definition.
    ///
    /// # Errors
    /// The first keyword whose value has the wrong JSON type, or a schema past a limit.
    pub fn parse(value: &Value, path: &Path<'_>) -> Result<Schema, Box<Violation>> {
        let mut parser = Parser { nodes: 0, patterns: BTreeMap::new() };
        let root = parser.node(value, path, 0)?;
        Ok(Schema { root, nodes: parser.nodes })
    }
}

struct Parser {
    nodes: usize,
    /// Large schemas say the same few patterns again and again: each is compiled once.
    patterns: BTreeMap<Box<str>, Arc<Pattern>>,
}

impl Parser {
    fn node(&mut self, value: &Value, path: &Path<'_>, depth: usize) -> Parsed<Arc<Node>> {
        let map = object(value, path)?;
        self.nodes += 1;
        if depth > DEPTH_MAX {
            let detail = format!("must not be nested deeper than {DEPTH_MAX} levels");
            return Err(Box::new(Violation::forbidden(path, detail)));
        }
        if self.nodes > NODES_MAX {
            let detail = format!("must not have more than {NODES_MAX} schemas");
            return Err(Box::new(Violation::forbidden(path, detail)));
        }
        let mut node = Node::default();
        let mut bounds = Bounds::default();
        let mut bounded = false;
        for (name, value) in map {
            // A null says nothing, as in Go; only a default may be null, and that too says nothing.
            if value.is_null() {
                continue;
            }
            let at = path.field(name);
            bounded |= match name.as_str() {
                "pattern" => self.pattern(&mut bounds, text(value, &at)?),
                name => bound(&mut bounds, name, value, &at)?,
            };
            scalar(&mut node, name, value, &at)?;
            extension(&mut node, name, value, &at)?;
            self.children(&mut node, name, value, (&at, depth + 1))?;
            refuse(&mut node, name, value);
        }
        node.refused.sort_unstable();
        if bounded {
            node.bounds = Some(Box::new(bounds));
        }
        Ok(Arc::new(node))
    }

    fn children(
        &mut self,
        node: &mut Node,
        name: &str,
        value: &Value,
        (path, depth): (&Path<'_>, usize),
    ) -> Parsed<()> {
        match name {
            "properties" => {
                let mut properties = BTreeMap::new();
                for (name, value) in object(value, path)? {
                    let child = self.node(value, &path.key(name), depth)?;
                    properties.insert(name.as_str().into(), child);
                }
                node.properties = properties;
            }
            "additionalProperties" => {
                node.additional = Some(match value {
                    Value::Bool(allowed) => Additional::Allowed(*allowed),
                    schema => Additional::Schema(self.node(schema, path, depth)?),
                });
            }
            "items" if !value.is_array() => node.items = Some(self.node(value, path, depth)?),
            "allOf" => node.all_of = self.list(value, path, depth)?,
            "anyOf" => node.any_of = self.list(value, path, depth)?,
            "oneOf" => node.one_of = self.list(value, path, depth)?,
            "not" => node.not = Some(self.node(value, path, depth)?),
            _ => {}
        }
        Ok(())
    }

    fn pattern(&mut self, bounds: &mut Bounds, text: &str) -> bool {
        if text.is_empty() {
            return false;
        }
        if !self.patterns.contains_key(text) {
            self.patterns.insert(text.into(), Arc::new(Pattern::new(text)));
        }
        bounds.pattern = self.patterns.get(text).cloned();
        true
    }

    fn list(&mut self, value: &Value, path: &Path<'_>, depth: usize) -> Parsed<Vec<Arc<Node>>> {
        let mut nodes = Vec::new();
        for (index, one) in array(value, path)?.iter().enumerate() {
            nodes.push(self.node(one, &path.index(index), depth)?);
        }
        Ok(nodes)
    }
}

fn bound(bounds: &mut Bounds, name: &str, value: &Value, path: &Path<'_>) -> Parsed<bool> {
    match name {
        "maximum" => bounds.maximum = Some(number(value, path)?),
        "minimum" => bounds.minimum = Some(number(value, path)?),
        "multipleOf" => bounds.multiple_of = Some(number(value, path)?),
        "exclusiveMaximum" => bounds.exclusive_maximum = boolean(value, path)?,
        "exclusiveMinimum" => bounds.exclusive_minimum = boolean(value, path)?,
        "maxLength" => bounds.max_length = Some(integer(value, path)?),
        "minLength" => bounds.min_length = Some(integer(value, path)?),
        "maxItems" => bounds.max_items = Some(integer(value, path)?),
        "minItems" => bounds.min_items = Some(integer(value, path)?),
        "maxProperties" => bounds.max_properties = Some(integer(value, path)?),
        "minProperties" => bounds.min_properties = Some(integer(value, path)?),
        "uniqueItems" => bounds.unique_items = boolean(value, path)?,
        _ => return Ok(false),
    }
    Ok(true)
}

fn scalar(node: &mut Node, name: &str, value: &Value, path: &Path<'_>) -> Parsed<()> {
    match name {
        "type" => node.kind = kind(text(value, path)?),
        "format" => node.format = filled(value, path)?,
        "title" => node.title = filled(value, path)?,
        "description" => node.description = filled(value, path)?,
        "nullable" => node.nullable = boolean(value, path)?,
        "default" => node.default = Some(Box::new(value.clone())),
        "example" => node.example = Some(Box::new(value.clone())),
        "externalDocs" => node.external_docs = Some(Box::new(value.clone())),
        "enum" => node.enumeration = array(value, path)?.clone(),
        "required" => node.required = texts(value, path)?,
        _ => {}
    }
    Ok(())
}

fn extension(node: &mut Node, name: &str, value: &Value, path: &Path<'_>) -> Parsed<()> {
    match name {
        "x-kubernetes-preserve-unknown-fields" => {
            node.preserve_unknown = Some(boolean(value, path)?);
        }
        "x-kubernetes-embedded-resource" => node.embedded_resource = boolean(value, path)?,
        "x-kubernetes-int-or-string" => node.int_or_string = boolean(value, path)?,
        "x-kubernetes-list-type" => node.list_type = Some(text(value, path)?.into()),
        "x-kubernetes-list-map-keys" => node.list_map_keys = texts(value, path)?,
        "x-kubernetes-map-type" => node.map_type = Some(text(value, path)?.into()),
        "x-kubernetes-validations" => {
            for (index, one) in array(value, path)?.iter().enumerate() {
                node.rules.push(rule(one, &path.index(index))?);
            }
        }
        _ => {}
    }
    Ok(())
}

fn rule(value: &Value, path: &Path<'_>) -> Parsed<Rule> {
    let mut rule = Rule::default();
    for (name, value) in object(value, path)? {
        let at = path.field(name);
        match name.as_str() {
            _ if value.is_null() => {}
            "rule" => rule.rule = text(value, &at)?.into(),
            "message" => rule.message = text(value, &at)?.into(),
            "messageExpression" => rule.message_expression = text(value, &at)?.into(),
            "reason" => rule.reason_text = Some(text(value, &at)?.into()),
            "fieldPath" => rule.field_path = text(value, &at)?.into(),
            "optionalOldSelf" => rule.optional_old_self = Some(boolean(value, &at)?),
            _ => {}
        }
    }
    Ok(rule)
}

fn refuse(node: &mut Node, name: &str, value: &Value) {
    let filled = value.as_object().is_some_and(|map| !map.is_empty());
    let refused = match name {
        "id" if value != "" => Refused::Id,
        "additionalItems" => Refused::AdditionalItems,
        "patternProperties" if filled => Refused::PatternProperties,
        "definitions" if filled => Refused::Definitions,
        "dependencies" => Refused::Dependencies,
        "$ref" => Refused::Reference,
        "items" if value.as_array().is_some_and(|list| !list.is_empty()) => Refused::ItemsList,
        _ => return,
    };
    node.refused.push(refused);
}

fn kind(name: &str) -> Kind {
    match name {
        "" => Kind::Unset,
        "object" => Kind::Object,
        "array" => Kind::Array,
        "string" => Kind::String,
        "integer" => Kind::Integer,
        "number" => Kind::Number,
        "boolean" => Kind::Boolean,
        other => Kind::Unsupported(other.into()),
    }
}

fn wrong(value: &Value, path: &Path<'_>, wanted: &str) -> Box<Violation> {
    Box::new(Violation::invalid(path, value.clone(), format!("must be {wanted}")))
}

fn object<'v>(value: &'v Value, path: &Path<'_>) -> Parsed<&'v Map<String, Value>> {
    value.as_object().ok_or_else(|| wrong(value, path, "an object"))
}

fn array<'v>(value: &'v Value, path: &Path<'_>) -> Parsed<&'v Vec<Value>> {
    value.as_array().ok_or_else(|| wrong(value, path, "an array"))
}

fn text<'v>(value: &'v Value, path: &Path<'_>) -> Parsed<&'v str> {
    value.as_str().ok_or_else(|| wrong(value, path, "a string"))
}

fn filled(value: &Value, path: &Path<'_>) -> Parsed<Option<Box<str>>> {
    let text = text(value, path)?;
    Ok(if text.is_empty() { None } else { Some(text.into()) })
}

fn texts(value: &Value, path: &Path<'_>) -> Parsed<Vec<Box<str>>> {
    let list = array(value, path)?.iter().enumerate();
    list.map(|(index, one)| Ok(text(one, &path.index(index))?.into())).collect()
}

fn boolean(value: &Value, path: &Path<'_>) -> Parsed<bool> {
    value.as_bool().ok_or_else(|| wrong(value, path, "a boolean"))
}

fn number(value: &Value, path: &Path<'_>) -> Parsed<f64> {
    value.as_f64().ok_or_else(|| wrong(value, path, "a number"))
}

fn integer(value: &Value, path: &Path<'_>) -> Parsed<i64> {
    value.as_i64().ok_or_else(|| wrong(value, path, "an integer"))
}
