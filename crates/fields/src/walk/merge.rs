//! An object with a configuration laid over it.
//!
//! Scalars and what is atomic are taken from the configuration; objects are joined key by key;
//! items of lists are matched by their element. A null replaces a scalar, an atomic value or an
//! empty container, but does not empty a container that is merged: who stops wanting fields
//! leaves them out.

use serde_json::{Map as Fields, Value};

use crate::{
    element::Element,
    shape::{Form, List, Map, Shape},
    walk::items::Index,
};

/// Merges a configuration into an object. The configuration has no items twice.
pub fn merge<S: Shape>(shape: S, live: &mut Value, config: &Value) {
    let atom = shape.atom();
    match (atom.form(live), atom.form(config)) {
        (_, Some(Form::Map(Map::Granular))) if is_container(live) || is_container(config) => {
            match (live, config) {
                (Value::Object(live), Value::Object(config)) => maps(shape, live, config),
                // Null wants nothing of the container, and empty nothing more.
                (Value::Object(live), _) if !live.is_empty() => {}
                (live, config) => *live = config.clone(),
            }
        }
        (_, Some(Form::List(list @ (List::Set | List::Keyed(_))))) => match (live, config) {
            (Value::Array(live), config) if !live.is_empty() => {
                let config = config.as_array().map(Vec::as_slice).unwrap_or_default();
                lists(shape, list, live, config);
            }
            (live, config) => *live = config.clone(),
        },
        _ => *live = config.clone(),
    }
}

fn is_container(value: &Value) -> bool {
    value.is_object() || value.is_array()
}

fn maps<S: Shape>(shape: S, live: &mut Fields<String, Value>, config: &Fields<String, Value>) {
    for (name, wanted) in config {
        match (live.get_mut(name), shape.member(name)) {
            (Some(there), Some(shape)) => merge(shape, there, wanted),
            _ => {
                live.insert(name.clone(), wanted.clone());
            }
        }
    }
}

/// The items of both. The live order stays, except that items in both come in the order of the
/// configuration; an item that is only in the configuration follows its predecessor there.
fn lists<S: Shape>(shape: S, list: List<'_>, live: &mut Vec<Value>, config: &[Value]) {
    if config.is_empty() {
        return;
    }
    let item_shape = shape.items();
    let merged = {
        let before = Index::new(list, item_shape, live);
        let wanted = Index::new(list, item_shape, config);
        Join { before: &before, wanted: &wanted, shape: item_shape }.items()
    };
    *live = merged;
}

struct Join<'a, 'v, S> {
    before: &'a Index<'v>,
    wanted: &'a Index<'v>,
    shape: Option<S>,
}

impl<S: Shape> Join<'_, '_, S> {
    fn items(&self) -> Vec<Value> {
        let (before, wanted) = (&self.before.items, &self.wanted.items);
        let mut items = Vec::with_capacity(before.len().max(wanted.len()));
        // How many of the wanted items are placed; and the wanted items that are live, in turn.
        let mut placed = 0;
        let mut turns =
            wanted.iter().map(|(element, _)| element).filter(|one| self.before.has(one)).peekable();
        let mut at = 0;
        while at < before.len() || placed < wanted.len() {
            let next = wanted.get(placed);
            if let Some((element, value)) = before.get(at) {
                let Some(place) = self.wanted.places(element).first() else {
                    // Only live: it stays where it is.
                    items.push((*value).clone());
                    at += 1;
                    continue;
                };
                let meets_next = next.is_some_and(|(wanted, _)| wanted == element);
                let later = turns.peek().is_some_and(|turn| *turn != element);
                if next.is_some() && later && !meets_next {
                    // It is another's turn; this one comes when the configuration has it.
                    at += 1;
                    continue;
                }
                if meets_next || *place < placed {
                    at += 1;
                }
            }
            if let Some((element, value)) = next {
                items.push(self.joined(element, value));
                turns.next_if(|turn| *turn == element);
                placed += 1;
            }
        }
        items
    }

    /// A wanted item over its live one. Live items that cannot be told apart give way to it.
    fn joined(&self, element: &Element, value: &Value) -> Value {
        match (self.before.places(element), self.shape) {
            ([place], Some(shape)) => {
                let mut item = self.before.items[*place].1.clone();
                merge(shape, &mut item, value);
                item
            }
            _ => value.clone(),
        }
    }
}
