//! Objects by what they select: those whose `spec.selector` is a plain map of labels, as Services
//! have it. Each is kept under one of its labels only, the one under which the fewest are: who asks
//! for some labels looks at few objects, however many select something that all have.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::name_set::NameSet;
use crate::object::{Name, Object};

/// A namespace, a label and its value.
type Place = (Arc<str>, String, String);

#[derive(Default)]
pub struct Selecting {
    places: BTreeMap<Place, NameSet>,
    /// Where each is kept.
    of: BTreeMap<Name, Place>,
}

impl Selecting {
    pub fn of(objects: impl Iterator<Item = Arc<Object>>) -> Selecting {
        let mut selecting = Selecting::default();
        for object in objects {
            selecting.follow(None, Some(&object));
        }
        selecting
    }

    pub fn follow(&mut self, old: Option<&Object>, new: Option<&Object>) {
        if old.and_then(selector) == new.and_then(selector) {
            return;
        }
        if let Some(old) = old {
            self.forget(&old.name);
        }
        let Some(new) = new else { return };
        let places = selector(new).into_iter().flatten().map(|(label, value)| {
            let value = value.as_str().unwrap_or_default().to_owned();
            (new.name.namespace.clone(), label.clone(), value)
        });
        let fewest = places.min_by_key(|place| self.places.get(place).map_or(0, NameSet::len));
        if let Some(place) = fewest {
            self.of.insert(new.name.clone(), place.clone());
            self.places.entry(place).or_default().insert(new.name.clone());
        }
    }

    fn forget(&mut self, name: &Name) {
        let Some(place) = self.of.remove(name) else { return };
        if let Some(names) = self.places.get_mut(&place) {
            names.remove(name);
            if names.is_empty() {
                self.places.remove(&place);
            }
        }
    }

    /// Whoever may select something of a namespace with these labels, each once, in no order.
    pub fn candidates(&self, namespace: &str, labels: &Value) -> Vec<Name> {
        let labels = labels.as_object().into_iter().flatten();
        let places = labels.filter_map(|(label, value)| {
            let place = (Arc::from(namespace), label.clone(), value.as_str()?.to_owned());
            self.places.get(&place)
        });
        places.flat_map(NameSet::iter).cloned().collect()
    }
}

fn selector(object: &Object) -> Option<&Map<String, Value>> {
    object.value["spec"]["selector"].as_object()
}

/// Whether an object selects what has these labels. One that names none selects nothing.
pub fn selects(object: &Object, labels: &Value) -> bool {
    selector(object).is_some_and(|wanted| {
        !wanted.is_empty() && wanted.iter().all(|(label, value)| labels.get(label) == Some(value))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn service(name: &str, selector: Value) -> Object {
        Object::new(json!({"metadata": {"namespace": "a", "name": name},
            "spec": {"selector": selector}}))
    }

    fn found(selecting: &Selecting, labels: Value) -> Vec<String> {
        let found = selecting.candidates("a", &labels);
        found.iter().map(|name| name.name.to_string()).collect()
    }

    #[test]
    fn who_selects_what_all_have_is_kept_under_what_few_have() {
        let mut selecting = Selecting::default();
        let one = |number: u32| {
            let number = number.to_string();
            service(&number, json!({"app": "all", "number": number}))
        };
        (0..100).for_each(|number| selecting.follow(None, Some(&one(number))));
        let labels = json!({"app": "all", "number": "70", "other": "x"});
        let candidates = found(&selecting, labels.clone());
        assert!(candidates.len() <= 2 && candidates.contains(&"70".to_owned()), "{candidates:?}");
        assert!(selects(&one(70), &labels) && !selects(&one(71), &labels));
        assert!(selecting.candidates("b", &labels).is_empty());
    }

    #[test]
    fn selectors_that_change_go_or_name_nothing_are_followed() {
        let [before, after] = ["x", "y"].map(|app| service("one", json!({"app": app})));
        let mut selecting = Selecting::of(std::iter::once(Arc::new(service("one", json!({})))));
        assert!(selecting.places.is_empty() && !selects(&service("one", json!({})), &json!({})));
        selecting.follow(None, Some(&before));
        assert_eq!(found(&selecting, json!({"app": "x"})), ["one"]);
        selecting.follow(Some(&before), Some(&after));
        assert!(found(&selecting, json!({"app": "x"})).is_empty());
        assert_eq!(found(&selecting, json!({"app": "y"})), ["one"]);
        selecting.follow(Some(&after), None);
        assert!(selecting.places.is_empty() && selecting.of.is_empty());
    }
}
