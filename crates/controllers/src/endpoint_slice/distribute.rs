//! Which endpoint is in which slice: as it is, as far as it goes, so that few slices are written
//! when few pods change.

use std::collections::BTreeMap;
use std::sync::Arc;

use reconcile::Object;
use serde_json::{Value, json};

use super::plan::{Group, port_key};

/// More make a slice that is costly to send for one change.
pub const ENDPOINTS_MAX: usize = 100;

/// A slice as it is to be.
pub struct Filled<'a> {
    /// The slice that is rewritten; `None` for one that is to be made.
    pub slice: Option<&'a Arc<Object>>,
    /// `None` for a slice that is to go.
    pub ports: Option<Value>,
    pub endpoints: Vec<Value>,
}

impl Filled<'_> {
    fn room(&self) -> usize {
        ENDPOINTS_MAX.saturating_sub(self.endpoints.len())
    }
}

/// Puts the endpoints of every set of ports into slices. There is always one, so that readers can
/// tell a service without pods from one that nobody has looked at.
pub fn distribute<'a>(
    existing: Vec<&'a Arc<Object>>,
    mut wanted: BTreeMap<String, Group>,
) -> Vec<Filled<'a>> {
    let mut by_ports: BTreeMap<String, Vec<&Arc<Object>>> = BTreeMap::new();
    for slice in existing {
        let ports = slice.value["ports"].as_array().cloned().unwrap_or_default();
        by_ports.entry(port_key(ports)).or_default().push(slice);
    }
    for ports in by_ports.keys() {
        wanted.entry(ports.clone()).or_default();
    }
    let mut all = Vec::new();
    for (ports, group) in wanted {
        let slices = by_ports.remove(&ports).unwrap_or_default();
        all.extend(fill_group(slices, &ports, group));
    }
    reuse(all)
}

fn fill_group<'a>(slices: Vec<&'a Arc<Object>>, ports: &str, group: Group) -> Vec<Filled<'a>> {
    let ports: Value = serde_json::from_str(ports).unwrap_or(json!([]));
    let mut missing = group;
    let mut filled = Vec::new();
    let mut is_written = Vec::new();
    for slice in slices {
        let (endpoints, is_changed) = keep(slice, &mut missing);
        is_written.push(is_changed);
        filled.push(Filled { slice: Some(slice), ports: Some(ports.clone()), endpoints });
    }
    // A slice that is written anyway costs nothing more.
    for (slice, _) in filled.iter_mut().zip(&is_written).filter(|(_, is_written)| **is_written) {
        while slice.room() > 0
            && let Some((_, endpoint)) = missing.pop_first()
        {
            slice.endpoints.push(endpoint);
        }
    }
    while !missing.is_empty() {
        let number = missing.len();
        let fullest = filled
            .iter_mut()
            .filter(|slice| !slice.endpoints.is_empty() && slice.room() >= number)
            .min_by_key(|slice| slice.room());
        let slice = match fullest {
            Some(slice) => slice,
            None => {
                filled.push(Filled { slice: None, ports: Some(ports.clone()), endpoints: vec![] });
                filled.last_mut().expect("one must have been added")
            }
        };
        while slice.room() > 0
            && let Some((_, endpoint)) = missing.pop_first()
        {
            slice.endpoints.push(endpoint);
        }
    }
    filled
}

/// The endpoints of a slice that stay, as they are to be, and whether that differs.
fn keep(slice: &Object, missing: &mut Group) -> (Vec<Value>, bool) {
    let mut kept = Vec::new();
    let mut is_changed = false;
    for old in slice.value["endpoints"].as_array().into_iter().flatten() {
        let text = |field: &str| old["targetRef"][field].as_str().unwrap_or_default().to_owned();
        match missing.remove(&(text("name"), text("uid"))) {
            Some(endpoint) if kept.len() == ENDPOINTS_MAX => {
                missing.insert((text("name"), text("uid")), endpoint);
                is_changed = true;
            }
            Some(endpoint) => {
                is_changed |= endpoint != *old;
                kept.push(endpoint);
            }
            None => is_changed = true,
        }
    }
    (kept, is_changed)
}

/// Slices that became empty are rewritten before others are made; the rest of them goes.
fn reuse(all: Vec<Filled<'_>>) -> Vec<Filled<'_>> {
    let (mut full, empty): (Vec<_>, Vec<_>) =
        all.into_iter().partition(|slice| !slice.endpoints.is_empty());
    if full.is_empty() {
        full.push(Filled { slice: None, ports: Some(json!([])), endpoints: Vec::new() });
    }
    let mut empty = empty.into_iter().filter_map(|slice| slice.slice);
    for slice in full.iter_mut().filter(|slice| slice.slice.is_none()) {
        slice.slice = empty.next();
    }
    let gone = empty.map(|slice| Filled { slice: Some(slice), ports: None, endpoints: vec![] });
    full.extend(gone);
    full
}
