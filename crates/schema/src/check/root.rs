//! What may be said at the root where `status` is validated on its own.

use crate::node::{Kind, Node, Refused};
use crate::path::Path;
use crate::violation::Violation;

/// By the names of the fields in Go, as the error shows them.
const ALLOWED: &str = "[Description Type Format Title Maximum ExclusiveMaximum Minimum \
                       ExclusiveMinimum MaxLength MinLength Pattern MaxItems MinItems UniqueItems \
                       MultipleOf Required Items Properties ExternalDocs Example \
                       XPreserveUnknownFields XValidations]";

pub(super) fn check(root: &Node, path: &Path<'_>) -> Option<Violation> {
    if root.kind.is_set() && root.kind != Kind::Object {
        let detail = "only \"object\" is allowed as the type at the root of the schema if the \
                      status subresource is enabled";
        return Some(Violation::invalid(&path.field("type"), root.kind.name(), detail));
    }
    let keyword = refused_keyword(root)?;
    let detail = format!(
        "only {ALLOWED} fields are allowed at the root of the schema if the status subresource is \
         enabled"
    );
    Some(Violation::invalid(path, keyword, detail))
}

fn refused_keyword(root: &Node) -> Option<&'static str> {
    let bounds = root.bounds.as_deref();
    let found = [
        (root.refused.contains(&Refused::Id), "id"),
        (root.refused.contains(&Refused::Reference), "$ref"),
        (root.nullable, "nullable"),
        (root.default.is_some(), "default"),
        (bounds.is_some_and(|bounds| bounds.max_properties.is_some()), "maxProperties"),
        (bounds.is_some_and(|bounds| bounds.min_properties.is_some()), "minProperties"),
        (!root.enumeration.is_empty(), "enum"),
        (!root.all_of.is_empty(), "allOf"),
        (!root.one_of.is_empty(), "oneOf"),
        (!root.any_of.is_empty(), "anyOf"),
        (root.not.is_some(), "not"),
        (root.additional.is_some(), "additionalProperties"),
        (root.refused.contains(&Refused::PatternProperties), "patternProperties"),
        (root.refused.contains(&Refused::Dependencies), "dependencies"),
        (root.refused.contains(&Refused::AdditionalItems), "additionalItems"),
        (root.refused.contains(&Refused::Definitions), "definitions"),
        (root.embedded_resource, "x-kubernetes-embedded-resource"),
        (root.int_or_string, "x-kubernetes-int-or-string"),
        (!root.list_map_keys.is_empty(), "x-kubernetes-list-map-keys"),
        (root.list_type.is_some(), "x-kubernetes-list-type"),
        (root.map_type.is_some(), "x-kubernetes-map-type"),
    ];
    found.into_iter().find(|(found, _)| *found).map(|(_, keyword)| keyword)
}
