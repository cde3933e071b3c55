//! What differs between two objects: fields removed, modified, added.

use serde_json::Value;

use crate::{
    element::Element,
    order,
    set::{Node, Set},
    shape::{Form, List, Map, Shape},
    walk::items::Index,
};

/// The fields in which the second object differs from the first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Comparison {
    pub removed: Set,
    pub modified: Set,
    pub added: Set,
}

impl Comparison {
    pub fn is_empty(&self) -> bool {
        self.removed.is_empty() && self.modified.is_empty() && self.added.is_empty()
    }

    /// What was modified or added.
    pub fn changed(&self) -> Set {
        self.added.clone().union(&self.modified)
    }

    /// Without some fields and what is below them.
    pub fn without(self, fields: &Set) -> Comparison {
        Comparison {
            removed: self.removed.recursive_difference(fields),
            modified: self.modified.recursive_difference(fields),
            added: self.added.recursive_difference(fields),
        }
    }

    /// Without exactly some fields.
    pub fn less(self, fields: &Set) -> Comparison {
        Comparison {
            removed: self.removed.difference(fields),
            modified: self.modified.difference(fields),
            added: self.added.difference(fields),
        }
    }
}

/// Compares two objects.
pub fn compare<S: Shape>(shape: S, left: &Value, right: &Value) -> Comparison {
    let mut found = Comparison::default();
    both(shape, left, right, &mut Found::Below(&mut found));
    found
}

/// Every field of a value, itself not included: what is removed or added with it.
pub fn whole<S: Shape>(shape: S, value: &Value) -> Set {
    let mut set = Set::default();
    match (shape.atom().form(value), value) {
        (Some(Form::List(list @ (List::Set | List::Keyed(_)))), Value::Array(values)) => {
            let item_shape = shape.items();
            for (element, group) in Index::new(list, item_shape, values).groups() {
                let below = match (group.as_slice(), item_shape) {
                    ([item], Some(shape)) => whole(shape, item),
                    _ => Set::EMPTY,
                };
                set.put(Node { element: element.clone(), member: true, below });
            }
        }
        (Some(Form::Map(Map::Granular)), Value::Object(fields)) => {
            for (name, value) in fields {
                let below = shape.member(name).map_or(Set::EMPTY, |shape| whole(shape, value));
                set.put(Node { element: Element::field(name), member: true, below });
            }
        }
        _ => {}
    }
    set
}

/// Where the findings at a value go: below it, or, where the value is one leaf, to itself.
enum Found<'f> {
    /// The root, which nobody owns.
    Below(&'f mut Comparison),
    Child(&'f mut Child),
}

#[derive(Default)]
struct Child {
    below: Comparison,
    modified: bool,
}

impl Found<'_> {
    fn leaf_modified(&mut self) {
        if let Found::Child(child) = self {
            child.modified = true;
        }
    }

    fn below(&mut self) -> &mut Comparison {
        match self {
            Found::Below(comparison) => comparison,
            Found::Child(child) => &mut child.below,
        }
    }
}

fn both<S: Shape>(shape: S, left: &Value, right: &Value, found: &mut Found<'_>) {
    let atom = shape.atom();
    match (atom.form(left), atom.form(right)) {
        (Some(Form::Map(Map::Granular)), Some(Form::Map(Map::Granular)))
            if !is_bare(left) || !is_bare(right) =>
        {
            maps(shape, left, right, found.below());
        }
        (Some(Form::List(list)), Some(Form::List(List::Set | List::Keyed(_))))
            if !is_bare(left) || !is_bare(right) =>
        {
            lists(shape, list, [left, right], found.below());
        }
        (Some(left_form), Some(right_form)) if !same_kind(&left_form, &right_form) => {
            // The value turned from one kind into another.
            other_kind(shape, left, right, found);
        }
        _ => {
            if !order::equal(left, right) {
                found.leaf_modified();
            }
        }
    }
}

fn same_kind(left: &Form<'_>, right: &Form<'_>) -> bool {
    std::mem::discriminant(left) == std::mem::discriminant(right)
}

/// Everything below the one is gone, everything below the other came, and the value itself, if
/// it is a leaf on either side, was modified.
fn other_kind<S: Shape>(shape: S, left: &Value, right: &Value, found: &mut Found<'_>) {
    let removed = whole(shape, left);
    let added = whole(shape, right);
    if removed.is_empty() || added.is_empty() {
        found.leaf_modified();
    }
    let below = found.below();
    below.removed = std::mem::take(&mut below.removed).union(&removed);
    below.added = std::mem::take(&mut below.added).union(&added);
}

/// Null, or an empty container: one leaf if the other side is so too, which keeps null and
/// empty apart.
fn is_bare(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    }
}

fn maps<S: Shape>(shape: S, left: &Value, right: &Value, found: &mut Comparison) {
    let nothing = serde_json::Map::new();
    let left = left.as_object().unwrap_or(&nothing);
    let right = right.as_object().unwrap_or(&nothing);
    for (name, left_value) in left {
        match right.get(name) {
            None => found.removed.put(alone(shape.member(name), Element::field(name), left_value)),
            // Most fields stay as they are.
            Some(right_value) if left_value == right_value => {}
            Some(right_value) => {
                let child = pair(shape.member(name), left_value, right_value);
                put(found, || Element::field(name), child);
            }
        }
    }
    for (name, value) in right.iter().filter(|(name, _)| !left.contains_key(*name)) {
        found.added.put(alone(shape.member(name), Element::field(name), value));
    }
}

fn pair<S: Shape>(shape: Option<S>, left: &Value, right: &Value) -> Child {
    let mut child = Child::default();
    match shape {
        Some(shape) => both(shape, left, right, &mut Found::Child(&mut child)),
        None => child.modified = !order::equal(left, right),
    }
    child
}

fn put(found: &mut Comparison, element: impl Fn() -> Element, child: Child) {
    let Child { below, modified } = child;
    for (set, below, member) in [
        (&mut found.removed, below.removed, false),
        (&mut found.modified, below.modified, modified),
        (&mut found.added, below.added, false),
    ] {
        if member || !below.is_empty() {
            set.put(Node { element: element(), member, below });
        }
    }
}

fn alone<S: Shape>(shape: Option<S>, element: Element, value: &Value) -> Node {
    let below = shape.map_or(Set::EMPTY, |shape| whole(shape, value));
    Node { element, member: true, below }
}

fn lists<S: Shape>(shape: S, list: List<'_>, sides: [&Value; 2], found: &mut Comparison) {
    let item_shape = shape.items();
    let [left, right] = sides.map(|side| side.as_array().map(Vec::as_slice).unwrap_or_default());
    let [left, right] = [left, right].map(|items| Index::new(list, item_shape, items));
    for (element, before) in left.groups() {
        let places = right.places(element);
        let after: Vec<&Value> = places.iter().map(|at| right.items[*at].1).collect();
        group(item_shape, element, [&before, &after], found);
    }
    for (element, after) in right.groups().filter(|(element, _)| !left.has(element)) {
        group(item_shape, element, [&[], &after], found);
    }
}

/// Compares the items of one element. Items that cannot be told apart are one bundle.
fn group<S: Shape>(
    shape: Option<S>,
    element: &Element,
    sides: [&[&Value]; 2],
    found: &mut Comparison,
) {
    let bundle = || Node { element: element.clone(), member: true, below: Set::EMPTY };
    match sides {
        [[], []] => {}
        [[left], [right]] => put(found, || element.clone(), pair(shape, left, right)),
        [[left], []] => found.removed.put(alone(shape, element.clone(), left)),
        [[], [right]] => found.added.put(alone(shape, element.clone(), right)),
        [[_, _, ..], right @ ([] | [_])] => {
            found.removed.put(bundle());
            if let [right] = right {
                found.added.put(alone(shape, element.clone(), right));
            }
        }
        [left @ ([] | [_]), [_, _, ..]] => {
            if let [left] = left {
                found.removed.put(alone(shape, element.clone(), left));
            }
            found.added.put(bundle());
        }
        [left, right] => {
            let same = left.len() == right.len()
                && left.iter().zip(right).all(|(left, right)| order::equal(left, right));
            if !same {
                found.modified.put(bundle());
            }
        }
    }
}
