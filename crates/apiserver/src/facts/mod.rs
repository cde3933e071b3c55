//! What the built-in kinds are: their names, verbs and types, as static tables.
//!
//! The tables are made by `cargo xtask codegen` and cost nothing at start. Nothing here knows a
//! kind by name: what is special about a kind is in its strategy, not in its facts.

#[rustfmt::skip]
mod generated;
mod table;

pub use table::{
    Field, Go, Kind, List, Patch, Rare, SchemaDefault, Shape, Subresource, Type, TypeId,
};

/// Every built-in kind that is served, by group, version and plural.
pub fn kinds() -> &'static [Kind] {
    generated::kinds::KINDS
}

/// A kind by what its path says: `kind("apps", "v1", "deployments")`.
pub fn kind(group: &str, version: &str, plural: &str) -> Option<&'static Kind> {
    let wanted = (group, version, plural);
    let kinds = kinds();
    let at = kinds.binary_search_by(|kind| (kind.group, kind.version, kind.plural).cmp(&wanted));
    at.ok().map(|at| &kinds[at])
}

/// A kind by what its objects say: `kind_of("apps", "v1", "Deployment")`.
pub fn kind_of(group: &str, version: &str, kind: &str) -> Option<&'static Kind> {
    kinds().iter().find(|one| (one.group, one.version, one.kind) == (group, version, kind))
}

/// Every type that a built-in kind uses, by name.
pub fn types() -> &'static [Type] {
    generated::types::TYPES
}

/// A type by its name in the published schema: `type_by_name("io.k8s.api.core.v1.Pod")`.
pub fn type_by_name(name: &str) -> Option<&'static Type> {
    let types = types();
    types.binary_search_by(|one| one.name.cmp(name)).ok().map(|at| &types[at])
}

pub fn type_id_by_name(name: &str) -> Option<TypeId> {
    let at = types().binary_search_by(|one| one.name.cmp(name)).ok()?;
    u16::try_from(at).ok().map(TypeId)
}

#[cfg(test)]
mod tests;
