//! What rules may cost: one evaluation, times how often its place can occur in an object.
//!
//! Upstream: apiextensions-apiserver/pkg/apis/apiextensions/validation/cel_validation.go

use crate::limits::{EXPENSIVE_RULES_MAX, REQUEST_BYTES_MAX, SCHEMA_COST_MAX};
use crate::node::{Kind, Node};
use crate::path::Path;
use crate::violation::Violation;

/// How often a place of a schema can occur in an object.
#[derive(Clone, Copy)]
pub(super) enum Cardinality {
    AtMost(u64),
    /// As often as fits into a request.
    Unbounded,
}

impl Cardinality {
    pub(super) fn one() -> Cardinality {
        Cardinality::AtMost(1)
    }

    /// How often the children of a node can occur.
    pub(super) fn below(self, node: &Node) -> Cardinality {
        let bounds = node.bounds.as_deref();
        let elements = match node.kind {
            Kind::Object if node.additional.is_some() => {
                bounds.and_then(|bounds| bounds.max_properties)
            }
            Kind::Array => bounds.and_then(|bounds| bounds.max_items),
            _ => return self,
        };
        match (self, elements) {
            (Cardinality::AtMost(count), Some(elements)) => {
                let elements = u64::try_from(elements).unwrap_or_default();
                Cardinality::AtMost(count.saturating_mul(elements))
            }
            _ => Cardinality::Unbounded,
        }
    }

    pub(super) fn times(self, cost: u64, node: &Node) -> u64 {
        let count = match self {
            Cardinality::AtMost(count) => count,
            Cardinality::Unbounded => REQUEST_BYTES_MAX / (bytes_min(node) + 1),
        };
        cost.saturating_mul(count)
    }
}

/// The fewest bytes a value of a node takes in JSON.
fn bytes_min(node: &Node) -> u64 {
    match (&node.kind, node.format.as_deref()) {
        _ if node.int_or_string => 1,
        (Kind::Boolean, _) => 4,
        (Kind::Integer | Kind::Number, _) => 1,
        (Kind::String, Some("date")) => 12,
        (Kind::String, Some("date-time")) => 21,
        (Kind::String, Some("duration")) => 3,
        (Kind::Object, _) => {
            let sum = |sum, name: &str| match node.properties.get(name) {
                Some(child) if child.default.is_none() => {
                    sum + name.len() as u64 + bytes_min(child) + 4
                }
                _ => sum,
            };
            node.required.iter().fold(2, |bytes, name| sum(bytes, name))
        }
        (Kind::String | Kind::Array, _) => 2,
        _ => 1,
    }
}

/// The costs of all rules of a schema.
#[derive(Default)]
pub(super) struct Costs {
    total: u64,
    /// The most expensive first.
    expensive: Vec<(u64, String)>,
}

impl Costs {
    pub(super) fn add(&mut self, path: &Path<'_>, cost: u64) {
        self.total = self.total.saturating_add(cost);
        if cost < SCHEMA_COST_MAX / 100 {
            return;
        }
        self.expensive.push((cost, path.text()));
        self.expensive.sort_by_key(|(cost, _)| std::cmp::Reverse(*cost));
        self.expensive.truncate(EXPENSIVE_RULES_MAX);
    }

    pub(super) fn exceeded(&self, path: &Path<'_>) -> Vec<Violation> {
        if self.total <= SCHEMA_COST_MAX {
            return Vec::new();
        }
        let detail = "contributed to estimated rule cost total exceeding cost limit for entire \
                      OpenAPIv3 schema";
        let mut out: Vec<_> = self
            .expensive
            .iter()
            .map(|(_, path)| Violation::forbidden(&Path::new(path), detail))
            .collect();
        let name = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema";
        out.push(Violation::forbidden(path, exceeds(name, self.total, SCHEMA_COST_MAX)));
        out
    }
}

pub(super) fn exceeds(name: &str, cost: u64, cost_max: u64) -> String {
    let factor = cost as f64 / cost_max as f64;
    let factor = match factor {
        _ if factor > 100.0 => "more than 100x".to_owned(),
        _ if factor < 1.5 => format!("{factor:.6}x"),
        _ => format!("{factor:.1}x"),
    };
    format!(
        "{name} exceeds budget by factor of {factor} (try simplifying the rule, or adding \
         maxItems, maxProperties, and maxLength where arrays, maps, and strings are declared)"
    )
}
