//! What is remembered of nodes between reconciles: when each was last heard of, how many of each
//! zone are well, and whose turn it is to be emptied. After a start everything begins anew.
//!
//! Times are of the monotonic clock: somebody who sets the wall clock loses no node.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use reconcile::{Cache, Change, Name, Object, conditions};
use tokio::time::Instant;

use super::observe::Eviction;
use super::zones::{self, Count, Disruption};

#[derive(Default)]
pub struct Memory {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    is_seeded: bool,
    nodes: BTreeMap<Name, Known>,
    zones: BTreeMap<String, Zone>,
}

struct Known {
    heard: Instant,
    lease: String,
    heartbeat: String,
    zone: Option<String>,
    is_ready: bool,
    /// It is this node's turn to be emptied.
    may_go: bool,
}

#[derive(Default)]
struct Zone {
    count: Count,
    /// When the next node may be emptied.
    next: Option<Instant>,
}

impl Memory {
    /// A node came, changed or went; returns the nodes for which something else holds now.
    pub fn node_changed(&self, change: &Change, now: Instant) -> Vec<Name> {
        let mut state = self.lock();
        if !state.is_seeded {
            return Vec::new();
        }
        let before = state.disruptions();
        match &change.new {
            Some(node) => state.saw(node, now),
            None => {
                state.forget(&change.object().name);
            }
        }
        if before == state.disruptions() {
            return Vec::new();
        }
        let lost = state.nodes.iter().filter(|(_, known)| !known.is_ready);
        lost.map(|(name, _)| name.clone()).collect()
    }

    /// A lease was renewed, if it says another time.
    pub fn lease_changed(&self, lease: &Object, now: Instant) {
        let mut state = self.lock();
        let Some(known) = state.nodes.get_mut(&Name::new("", &*lease.name.name)) else { return };
        let renewed = lease.value["spec"]["renewTime"].as_str().unwrap_or_default();
        if known.lease != renewed {
            renewed.clone_into(&mut known.lease);
            known.heard = now;
        }
    }

    /// Reads all nodes there are, once.
    pub fn seed(&self, nodes: &Cache, now: Instant) {
        let mut state = self.lock();
        if !state.is_seeded {
            state.is_seeded = true;
            nodes.all().iter().for_each(|node| state.saw(node, now));
        }
    }

    /// When a node was last heard of.
    pub fn heard(&self, node: &Arc<Object>, now: Instant) -> Instant {
        let mut state = self.lock();
        if !state.nodes.contains_key(&node.name) {
            state.saw(node, now);
        }
        state.nodes.get(&node.name).map_or(now, |known| known.heard)
    }

    /// Whether a lost node may be emptied; if so, the next of its zone has to wait.
    pub fn ask(&self, node: &Object, now: Instant) -> Eviction {
        let mut state = self.lock();
        let state = &mut *state;
        if state.is_all_lost() {
            return Eviction::Suspended;
        }
        let Some(known) = state.nodes.get_mut(&node.name) else { return Eviction::Held };
        if known.may_go {
            return Eviction::Now;
        }
        let zone = state.zones.entry(known.zone.clone().unwrap_or_default()).or_default();
        let Some(interval) = zone.count.interval() else { return Eviction::Held };
        match zone.next {
            Some(next) if next > now => Eviction::After(next - now),
            _ => {
                zone.next = Some(now + interval);
                known.may_go = true;
                Eviction::Now
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn saw(&mut self, node: &Object, now: Instant) {
        let ready = conditions::find(&node.value["status"], "Ready");
        let is_ready = ready.is_some_and(|ready| ready["status"] == "True");
        // What was written for a silent node is no sign of life.
        let spoken = ready.filter(|ready| ready["status"] != "Unknown");
        let heartbeat = spoken.and_then(|ready| ready["lastHeartbeatTime"].as_str());
        let zone = zones::zone(node);
        let old = self.forget(&node.name);
        let (heard, lease, last, may_go) = match old {
            Some(old) => (old.heard, old.lease, old.heartbeat, old.may_go),
            None => (now, String::new(), String::new(), false),
        };
        let is_heard = heartbeat.is_some_and(|heartbeat| heartbeat != last);
        let known = Known {
            heard: if is_heard { now } else { heard },
            lease,
            heartbeat: heartbeat.map_or(last, str::to_owned),
            zone: zone.clone(),
            is_ready,
            may_go: may_go && !is_ready,
        };
        self.nodes.insert(node.name.clone(), known);
        if let Some(zone) = zone {
            let count = &mut self.zones.entry(zone).or_default().count;
            *(if is_ready { &mut count.ready } else { &mut count.lost }) += 1;
        }
    }

    fn forget(&mut self, name: &Name) -> Option<Known> {
        let old = self.nodes.remove(name)?;
        if let Some(zone) = old.zone.as_ref().and_then(|zone| self.zones.get_mut(zone)) {
            let count = &mut zone.count;
            *(if old.is_ready { &mut count.ready } else { &mut count.lost }) -= 1;
        }
        Some(old)
    }

    fn disruptions(&self) -> Vec<(String, Disruption)> {
        let zones = self.zones.iter().filter(|(_, zone)| zone.count != Count::default());
        zones.map(|(name, zone)| (name.clone(), zone.count.disruption())).collect()
    }

    /// When no node at all is heard of, it is more likely that we are cut off.
    fn is_all_lost(&self) -> bool {
        let mut all = self.zones.values().filter(|zone| zone.count != Count::default()).peekable();
        all.peek().is_some() && all.all(|zone| zone.count.disruption() == Disruption::Full)
    }
}
