//! Removes what a manager applied before and applies no more, unless someone else owns it.

use std::{borrow::Cow, collections::BTreeMap};

use serde_json::Value;

use crate::{
    apply::Last,
    error::Error,
    managed::Managed,
    resource::{Request, Resource},
    set::Set,
    walk::{fields_of::fields_of, named::with_named_fields, remove::remove},
};

/// What pruning has to know beside the object and its owners.
pub struct Pruning<'a, R> {
    pub resource: &'a R,
    pub request: &'a Request<'a>,
    pub last: &'a Last,
}

/// The merged object without what its applier has dropped. `managed` holds the applier's fields
/// as they are from this apply on.
pub fn prune<R: Resource>(
    pruning: Pruning<'_, R>,
    merged: Value,
    managed: &Managed,
) -> Result<Value, Error> {
    let Pruning { resource, request, last } = pruning;
    let last_version = last.api_version.as_str();
    let Some(shape) = resource.shape(last_version) else { return Ok(merged) };
    let owned = owned_by_version(managed)?;
    if owned.get(last_version).is_some_and(|owned| last.set.is_within(owned)) {
        // All that was applied before still has an owner.
        return Ok(merged);
    }
    let at_last = convert(resource, &merged, last_version)?.into_owned();
    let last_named = with_named_fields(Some(shape), last.set.clone());
    let pruned = remove(shape, at_last.clone(), &last_named);
    let pruned = with_owned(resource, &at_last, pruned, (last_version, &owned))?;

    // What nobody owns was not the applier's to remove.
    let pruned = convert(resource, &pruned, last_version)?;
    let gone = fields_of(shape, &at_last).difference(&fields_of(shape, &pruned));
    let result = remove(shape, at_last, &gone.intersection(&last.set));
    Ok(convert(resource, &result, request.api_version)?.into_owned())
}

fn owned_by_version(managed: &Managed) -> Result<BTreeMap<&str, Set>, Error> {
    let mut owned: BTreeMap<&str, Set> = BTreeMap::new();
    for entry in &managed.entries {
        let at = owned.entry(&entry.identity.api_version).or_default();
        *at = std::mem::take(at).union(&entry.fields.set()?);
    }
    Ok(owned)
}

/// Puts back what someone owns. The version that was pruned comes first: another may not be able
/// to see the object at all without what is put back.
fn with_owned<R: Resource>(
    resource: &R,
    merged: &Value,
    mut pruned: Value,
    (pruned_version, owned): (&str, &BTreeMap<&str, Set>),
) -> Result<Value, Error> {
    let first = owned.get_key_value(pruned_version);
    let others = owned.iter().filter(|(version, _)| **version != pruned_version);
    for (version, owned) in first.into_iter().chain(others) {
        let Some(shape) = resource.shape(version) else { continue };
        let merged = convert(resource, merged, version)?.into_owned();
        let left = convert(resource, &pruned, version)?;
        let kept = named_fields(shape, &left).union(&with_named_fields(Some(shape), owned.clone()));
        let gone = named_fields(shape, &merged).difference(&kept);
        pruned = remove(shape, merged, &gone);
    }
    Ok(pruned)
}

fn named_fields<S: crate::shape::Shape>(shape: S, object: &Value) -> Set {
    with_named_fields(Some(shape), fields_of(shape, object))
}

fn convert<'v, R: Resource>(
    resource: &R,
    object: &'v Value,
    api_version: &str,
) -> Result<Cow<'v, Value>, Error> {
    if object["apiVersion"].as_str() == Some(api_version) {
        return Ok(Cow::Borrowed(object));
    }
    resource
        .convert(object, api_version)
        .map_err(|reason| Error::Convert { api_version: api_version.to_owned(), reason })
}
