//! Names of objects by the value of a label, for those labels that somebody selects by. A label is
//! read from all objects when it is first asked for, and followed from then on.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::name_set::NameSet;
use crate::object::Object;

/// Of how many labels names are kept; who selects by others looks at everything.
const LABELS_MAX: usize = 32;

#[derive(Default)]
pub struct Labelled {
    labels: BTreeMap<String, BTreeMap<Box<str>, NameSet>>,
}

impl Labelled {
    /// Whether asking for the label is worth it: it is kept, or there is room for it.
    pub fn may_know(&self, label: &str) -> bool {
        self.knows(label) || self.labels.len() < LABELS_MAX
    }

    pub fn knows(&self, label: &str) -> bool {
        self.labels.contains_key(label)
    }

    pub fn learn(&mut self, label: &str, objects: impl Iterator<Item = Arc<Object>>) {
        let values = self.labels.entry(label.to_owned()).or_default();
        for object in objects {
            if let Some(value) = value_of(&object, label) {
                values.entry(value.into()).or_default().insert(object.name.clone());
            }
        }
    }

    pub fn follow(&mut self, old: Option<&Object>, new: Option<&Object>) {
        for (label, values) in &mut self.labels {
            let before = old.and_then(|old| Some((value_of(old, label)?, old)));
            let after = new.and_then(|new| Some((value_of(new, label)?, new)));
            if before.map(|(value, _)| value) == after.map(|(value, _)| value) {
                continue;
            }
            if let Some((value, old)) = before
                && let Some(names) = values.get_mut(value)
            {
                names.remove(&old.name);
                if names.is_empty() {
                    values.remove(value);
                }
            }
            if let Some((value, new)) = after {
                values.entry(value.into()).or_default().insert(new.name.clone());
            }
        }
    }

    /// Who has the label with the value; `None` if the label is not kept.
    pub fn names(&self, label: &str, value: &str) -> Option<&NameSet> {
        static NOBODY: NameSet = NameSet::None;
        Some(self.labels.get(label)?.get(value).unwrap_or(&NOBODY))
    }
}

fn value_of<'a>(object: &'a Object, label: &str) -> Option<&'a str> {
    object.value["metadata"]["labels"].get(label)?.as_str()
}
