//! How lists merge: elements are the same when their merge key is, scalars when they are equal.
//!
//! What the patch names comes in the patch's order. What only the object has keeps its order, and
//! comes before an element of the patch only if it did so in the object.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use super::directives::{self, Marked, SET_ORDER};
use super::{Member, Schema, Strategy, merge_maps};
use crate::patch::Error;

/// Merges a list whose strategy is to merge.
pub fn merge(original: &mut Vec<Value>, patch: Vec<Value>, member: Member) -> Result<(), Error> {
    if original.is_empty() && patch.is_empty() {
        return Ok(());
    }
    let key = member.merge_key;
    let (merged, patch_order, server_order) = match elements_of(original, &patch)? {
        Elements::Scalars => {
            let patch_order = Positions::of(&patch, "");
            let server_order = Positions::of(original, "");
            let mut seen = BTreeSet::new();
            let mut merged: Vec<Value> = std::mem::take(original);
            merged.extend(patch);
            merged.retain(|element| seen.insert(element.to_string()));
            (merged, patch_order, server_order)
        }
        Elements::Maps if key.is_empty() => {
            return Err(refused("cannot merge lists without merge key"));
        }
        Elements::Maps => {
            let patch = obey_elements(original, patch, key)?;
            let patch_order = Positions::of(&patch, key);
            let server_order = Positions::of(original, key);
            merge_elements(original, patch, member)?;
            (std::mem::take(original), patch_order, server_order)
        }
    };
    let key = if is_maps(&merged) { key } else { "" };
    *original = order(merged, &patch_order, &server_order, key);
    Ok(())
}

/// Takes scalars out of a list.
pub fn delete_scalars(list: &mut Vec<Value>, unwanted: &[Value]) -> Result<(), Error> {
    if !list.is_empty() || !unwanted.is_empty() {
        elements_of(list, unwanted)?;
    }
    let unwanted: BTreeSet<String> = unwanted.iter().map(Value::to_string).collect();
    list.retain(|element| !unwanted.contains(&element.to_string()));
    Ok(())
}

/// Merges the lists for which the patch has a `$setElementOrder/f`, and takes them out of it.
pub fn merge_ordered(
    original: &mut Map<String, Value>,
    patch: &mut Map<String, Value>,
    schema: Schema,
) -> Result<(), Error> {
    let directives: Vec<String> =
        patch.keys().filter(|key| key.starts_with(SET_ORDER)).cloned().collect();
    for directive in directives {
        let bad = || Error::Malformed("invalid patch format of setElementOrder list".to_owned());
        let field = directive[SET_ORDER.len()..].strip_prefix('/').ok_or_else(bad)?.to_owned();
        let Some(Value::Array(wanted)) = patch.remove(&directive) else { return Err(bad()) };
        let said = match patch.remove(&field) {
            None => None,
            Some(Value::Array(said)) => Some(said),
            // The list goes, or becomes something else: no order to keep.
            Some(other) => {
                patch.insert(field, other);
                continue;
            }
        };
        let member = schema.member(&field);
        check_order(said.as_deref().unwrap_or_default(), &wanted, member.merge_key)?;
        let existing = original.remove(&field);
        let (server_order, merged) = match (existing, said) {
            (None, None) => continue,
            (Some(Value::Array(list)), said) => {
                let server_order = Positions::of(&list, member.merge_key);
                (server_order, merge_by_strategy(list, said, member)?)
            }
            (_, Some(said)) => {
                let added = directives::strip(Value::Array(said), Marked::Dropped);
                let Some(Value::Array(added)) = added else { continue };
                (Positions::default(), added)
            }
            (Some(other), None) => {
                original.insert(field, other);
                continue;
            }
        };
        let wanted = Positions::of(&wanted, member.merge_key);
        let ordered = order(merged, &wanted, &server_order, member.merge_key);
        original.insert(field, Value::Array(ordered));
    }
    Ok(())
}

fn merge_by_strategy(
    mut list: Vec<Value>,
    said: Option<Vec<Value>>,
    member: Member,
) -> Result<Vec<Value>, Error> {
    match said {
        None => Ok(list),
        Some(said) if member.strategy == Strategy::Merge => {
            merge(&mut list, said, member)?;
            Ok(list)
        }
        Some(said) => match directives::strip(Value::Array(said), Marked::Dropped) {
            Some(Value::Array(said)) => Ok(said),
            _ => Ok(Vec::new()),
        },
    }
}

/// What the patch adds must be in its own order, in the same order.
fn check_order(patch: &[Value], wanted: &[Value], key: &str) -> Result<(), Error> {
    let is_deleted = |element: &Value| element.get(directives::PATCH).is_some();
    let mut wanted_left = wanted.iter();
    for element in patch.iter().filter(|element| !is_deleted(element)) {
        let identity = identity(element, key);
        if wanted.is_empty() || wanted_left.any(|one| self::identity(one, key) == identity) {
            continue;
        }
        let (patch, wanted) = (Value::from(patch.to_vec()), Value::from(wanted.to_vec()));
        return Err(Error::Malformed(format!(
            "The order in patch list:\n{patch}\n doesn't match {SET_ORDER} list:\n{wanted}\n"
        )));
    }
    Ok(())
}

/// Obeys the `$patch` of elements: `delete` takes the element out of the original, `replace`
/// empties it. What is left of the patch is to be merged.
fn obey_elements(
    original: &mut Vec<Value>,
    patch: Vec<Value>,
    key: &str,
) -> Result<Vec<Value>, Error> {
    let mut rest = Vec::new();
    let mut deleted = BTreeSet::new();
    let mut is_replaced = false;
    for element in patch {
        let Some(directive) = element.get(directives::PATCH) else {
            rest.push(element);
            continue;
        };
        match directive.as_str() {
            Some("delete") => {
                deleted.insert(identity_in_patch(&element, key)?);
            }
            Some("replace") => is_replaced = true,
            Some("merge") => {
                return Err(refused("merging lists cannot yet be specified in the patch"));
            }
            _ => {
                let map = element.as_object().cloned().unwrap_or_default();
                return Err(directives::unknown(directive, &map));
            }
        }
    }
    match is_replaced {
        true => original.clear(),
        false => original.retain(|element| !deleted.contains(&identity(element, key))),
    }
    Ok(rest)
}

fn merge_elements(
    original: &mut Vec<Value>,
    patch: Vec<Value>,
    member: Member,
) -> Result<(), Error> {
    let mut places = Positions::of(original, member.merge_key);
    for element in patch {
        let identity = identity_in_patch(&element, member.merge_key)?;
        match (places.0.get(&identity), element) {
            (Some(place), Value::Object(patch)) => {
                if let Value::Object(map) = &mut original[*place] {
                    merge_maps(map, patch, member.schema)?;
                }
            }
            (_, element) => {
                if let Some(element) = directives::strip(element, Marked::Kept) {
                    places.0.insert(identity, original.len());
                    original.push(element);
                }
            }
        }
    }
    Ok(())
}

/// Splits a list in what the patch names and what it does not, puts each in its order, and zips
/// them by the order they had in the object.
fn order(merged: Vec<Value>, patch: &Positions, server: &Positions, key: &str) -> Vec<Value> {
    let mut named: Vec<(Option<usize>, usize, Value)> = Vec::new();
    let mut others: Vec<(Option<usize>, Value)> = Vec::new();
    for element in merged {
        let identity = identity(&element, key);
        let in_server = server.0.get(&identity).copied();
        match patch.0.get(&identity) {
            Some(place) => named.push((in_server, *place, element)),
            None => others.push((in_server, element)),
        }
    }
    named.sort_by_key(|(_, place, _)| *place);
    others.sort_by_key(|(place, _)| *place);
    let mut ordered = Vec::with_capacity(named.len() + others.len());
    let mut others = others.into_iter().peekable();
    for (in_server, _, element) in named {
        // Only elements that the object had both of have an order between them.
        while let Some(place) = in_server
            && let Some((_, other)) =
                others.next_if(|(other, _)| other.is_some_and(|other| other <= place))
        {
            ordered.push(other);
        }
        ordered.push(element);
    }
    ordered.extend(others.map(|(_, other)| other));
    ordered
}

/// Where the elements of a list are, by identity; the first of equals counts.
#[derive(Default)]
struct Positions(BTreeMap<String, usize>);

impl Positions {
    fn of(list: &[Value], key: &str) -> Positions {
        let mut positions = BTreeMap::new();
        for (place, element) in list.iter().enumerate() {
            positions.entry(identity(element, key)).or_insert(place);
        }
        Positions(positions)
    }
}

/// What makes an element the same as another: the value of its merge key, or all of it.
fn identity(element: &Value, key: &str) -> String {
    match key {
        "" => element.to_string(),
        key => element.get(key).unwrap_or(&Value::Null).to_string(),
    }
}

fn identity_in_patch(element: &Value, key: &str) -> Result<String, Error> {
    match element.get(key) {
        Some(value) => Ok(value.to_string()),
        None => refuse(format!("map: {element} does not contain declared merge key: {key}")),
    }
}

enum Elements {
    Maps,
    Scalars,
}

fn is_maps(list: &[Value]) -> bool {
    list.first().is_some_and(Value::is_object)
}

/// What both lists are of; an error if they are not of one type.
fn elements_of(original: &[Value], patch: &[Value]) -> Result<Elements, Error> {
    let mut all = original.iter().chain(patch);
    let first = all.next().map(std::mem::discriminant);
    if original.iter().chain(patch).any(Value::is_array) {
        return refuse("lists of lists are not supported".to_owned());
    }
    if !all.all(|element| Some(std::mem::discriminant(element)) == first) {
        return refuse("list element types are not identical".to_owned());
    }
    match is_maps(original) || is_maps(patch) {
        true => Ok(Elements::Maps),
        false => Ok(Elements::Scalars),
    }
}

fn refused(what: &str) -> Error {
    Error::DoesNotApply(what.to_owned())
}

fn refuse<T>(what: String) -> Result<T, Error> {
    Err(Error::DoesNotApply(what))
}
