//! What an item of a list is called in a path.

use serde_json::Value;

use crate::{
    element::Element,
    shape::{Keys, List, Shape},
};

/// The element of an item, or why it has none.
pub fn element_of<S: Shape>(
    list: List<'_>,
    items: Option<S>,
    index: usize,
    item: &Value,
) -> Result<Element, String> {
    match list {
        List::Atomic => Ok(by_index(index)),
        List::Set => by_value(item),
        List::Keyed(keys) => by_keys(keys, items, item),
    }
}

/// As [`element_of`]; an item that has no element goes by its index.
pub fn element_or_index<S: Shape>(
    list: List<'_>,
    items: Option<S>,
    index: usize,
    item: &Value,
) -> Element {
    element_of(list, items, index, item).unwrap_or_else(|_| by_index(index))
}

fn by_index(index: usize) -> Element {
    Element::Index(i64::try_from(index).unwrap_or(i64::MAX))
}

fn by_value(item: &Value) -> Result<Element, String> {
    let reason = match item {
        Value::Object(_) => "associative list without keys has an element that's a map type",
        Value::Array(_) => "not supported: associative list with lists as elements",
        Value::Null => "associative list without keys has an element that's an explicit null",
        scalar => return Ok(Element::value(scalar)),
    };
    Err(reason.to_owned())
}

fn by_keys<S: Shape>(keys: Keys<'_>, items: Option<S>, item: &Value) -> Result<Element, String> {
    let fields = match item {
        Value::Object(fields) => fields,
        Value::Null => {
            return Err("associative list with keys may not have a null element".to_owned());
        }
        _ => return Err("associative list with keys may not have non-map elements".to_owned()),
    };
    let mut found = Vec::with_capacity(keys.len());
    for key in keys.iter() {
        let value = match fields.get(key) {
            Some(value) => Some(value.clone()),
            None => items.and_then(|shape| shape.field_default(key)),
        };
        found.extend(value.map(|value| (key.into(), value)));
    }
    if found.is_empty() {
        let quoted: Vec<String> = keys.iter().map(|key| format!("{key:?}")).collect();
        return Err(format!(
            "associative list with keys has an element that omits all key fields [{}] \
             (and doesn't have default values for any key fields)",
            quoted.join(" ")
        ));
    }
    Ok(Element::key(found))
}

/// The elements of a list's items, and which of them occur more than once.
pub struct Index<'v> {
    /// In the order of the list.
    pub items: Vec<(Element, &'v Value)>,
    /// Places of `items`, sorted by element; equal elements stay in the order of the list.
    sorted: Vec<usize>,
}

impl<'v> Index<'v> {
    pub fn new<S: Shape>(list: List<'_>, shape: Option<S>, values: &'v [Value]) -> Index<'v> {
        let items: Vec<(Element, &Value)> = values
            .iter()
            .enumerate()
            .map(|(at, item)| (element_or_index(list, shape, at, item), item))
            .collect();
        let mut sorted: Vec<usize> = (0..items.len()).collect();
        sorted.sort_by(|left, right| items[*left].0.cmp(&items[*right].0));
        Index { items, sorted }
    }

    /// Where in the list the items of an element are.
    pub fn places(&self, element: &Element) -> &[usize] {
        let first = self.sorted.partition_point(|at| self.items[*at].0 < *element);
        let past = self.sorted.partition_point(|at| self.items[*at].0 <= *element);
        &self.sorted[first..past]
    }

    pub fn has(&self, element: &Element) -> bool {
        !self.places(element).is_empty()
    }

    /// Every element once, in order, with its items.
    pub fn groups(&self) -> impl Iterator<Item = (&Element, Vec<&'v Value>)> {
        self.sorted.chunk_by(|left, right| self.items[*left].0 == self.items[*right].0).map(
            |places| {
                let values = places.iter().map(|at| self.items[*at].1).collect();
                (&self.items[places[0]].0, values)
            },
        )
    }
}
