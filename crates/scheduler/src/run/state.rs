//! Everything the scheduler keeps between two looks at the world, and how news change it.
//! No I/O, no waiting: the loop carries out what is asked for here.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use reconcile::plan::Notice;
use reconcile::{Name, Object};
use tokio::time::Instant;

use crate::classes::Classes;
use crate::events::Events;
use crate::gang::group::{Family, GroupKey};
use crate::kinds::{BUDGET, CLAIM, CLASS, GROUP, NAMESPACE, NODE, POD, VOLCANO_GROUP, VOLUME};
use crate::pod::PodInfo;
use crate::profile::Profile;
use crate::queue::Queue;
use crate::run::groups::{Groups, Members};
use crate::run::inbox::News;
use crate::run::reports::Reports;
use crate::run::reservation::Reservation;
use crate::snapshot::{Map, Snapshot};
use crate::verdict::{Diagnosis, Verdicts};

pub struct State {
    pub profiles: Arc<Vec<Profile>>,
    pub verdicts: Arc<Verdicts>,
    pub snapshot: Snapshot,
    pub classes: Classes,
    pub queue: Queue,
    pub groups: Groups,
    pub reservations: BTreeMap<u64, Reservation>,
    pub reservations_made: u64,
    /// Pods that were decided, until the server shows them on their nodes.
    pub assumed: Map<Arc<str>, Assumed>,
    /// Pods that others go for at this moment.
    pub preempting: BTreeSet<Arc<str>>,
    pub reports: Reports,
    pub reporting: BTreeSet<Arc<str>>,
    /// Pods that are not seen yet as they were last written.
    pub unseen: BTreeMap<Arc<str>, u64>,
    pub notices: VecDeque<(Arc<PodInfo>, Notice)>,
    /// Refusals of this round, with what came of looking for victims, by address.
    pub refusals: Map<usize, (Arc<Diagnosis>, Arc<Diagnosis>)>,
    uids: BTreeMap<Name, Arc<str>>,
    events: Events,
}

/// A pod that was decided.
#[derive(Clone, Copy, Debug)]
pub struct Assumed {
    pub since: Instant,
    /// Until when the room is kept although binding fails.
    pub keep_until: Option<Instant>,
}

impl State {
    pub fn new(profiles: Vec<Profile>, verdicts: Arc<Verdicts>) -> State {
        State {
            profiles: Arc::new(profiles),
            verdicts,
            snapshot: Snapshot::default(),
            classes: Classes::default(),
            queue: Queue::default(),
            groups: Groups::default(),
            reservations: BTreeMap::new(),
            reservations_made: 0,
            assumed: Map::default(),
            preempting: BTreeSet::new(),
            reports: Reports::default(),
            reporting: BTreeSet::new(),
            unseen: BTreeMap::new(),
            notices: VecDeque::new(),
            refusals: Map::default(),
            uids: BTreeMap::new(),
            events: Events::NONE,
        }
    }

    /// Takes in what changed, and wakes the pods that it can help.
    pub fn take_in(&mut self, news: Vec<News>, now: Instant) {
        for (kind, name, object) in news {
            let events = match kind {
                POD => self.put_pod(&name, object, now),
                NODE => self.put_node(&name, object.as_deref()),
                CLAIM => self.snapshot.put_claim(&name, object),
                VOLUME => self.put_volume(&name, object),
                CLASS => self.snapshot.put_class(&name, object),
                NAMESPACE => self.snapshot.put_namespace(&name, object.as_deref()),
                BUDGET => {
                    self.snapshot.put_budget(&name, object.as_deref());
                    Events::NONE
                }
                GROUP => self.put_group((Family::Coscheduling, name), object, now),
                VOLCANO_GROUP => self.put_group((Family::Volcano, name), object, now),
                _ => Events::NONE,
            };
            self.events |= events;
        }
        let events = std::mem::take(&mut self.events);
        self.queue.wake(events, now);
    }

    fn put_node(&mut self, name: &Name, object: Option<&Object>) -> Events {
        match object {
            Some(object) => self.snapshot.put_node(object),
            None => {
                self.snapshot.remove_node(&name.name);
                Events::POD_REMOVED
            }
        }
    }

    fn put_volume(&mut self, name: &Name, object: Option<Arc<Object>>) -> Events {
        let is_free = |volume: &Arc<Object>| volume.value["spec"]["claimRef"].is_null();
        if !object.as_ref().is_some_and(is_free) {
            self.snapshot.volumes_kept.remove(&name.name);
        }
        self.snapshot.put_volume(name, object)
    }

    fn put_group(
        &mut self,
        (family, name): (Family, Name),
        object: Option<Arc<Object>>,
        now: Instant,
    ) -> Events {
        self.groups.put_group(family, &name, object);
        self.wake_members(&GroupKey { family, name }, now);
        Events::NONE
    }

    /// Members of a gang are tried again when it or one of them changes.
    fn wake_members(&mut self, key: &GroupKey, now: Instant) {
        let Some(members) = self.groups.get(key) else { return };
        for uid in members.pods.keys() {
            self.queue.wake_one(uid, now);
        }
    }

    /// A pod came, changed or went.
    pub fn put_pod(&mut self, name: &Name, object: Option<Arc<Object>>, now: Instant) -> Events {
        let mut events = Events::NONE;
        let held = self.uids.get(name).cloned();
        let uid = object.as_ref().map(|object| Arc::<str>::from(object.uid.as_str()));
        if let Some(held) = held.filter(|held| Some(held) != uid.as_ref()) {
            events |= self.forget_pod(name, &held);
        }
        let (Some(object), Some(uid)) = (object, uid) else { return events };
        let known = self.queue.get(&uid).or(self.snapshot.place_of(&uid).map(|(_, pod)| pod));
        let pod = match known.cloned() {
            Some(known) if known.object.revision > object.revision => return events,
            Some(known) => self.snapshot.read_again(&known, object),
            None => self.snapshot.read_pod(object),
        };
        if self.unseen.get(&uid).is_some_and(|written| *written <= pod.object.revision) {
            self.unseen.remove(&uid);
        }
        self.uids.insert(name.clone(), uid);
        if let Some(key) = &pod.group {
            self.groups.put_pod(key, &pod);
        }
        events | self.sort_in(pod, now)
    }

    fn sort_in(&mut self, pod: Arc<PodInfo>, now: Instant) -> Events {
        if pod.is_placed() {
            self.queue.remove(&pod.uid);
            self.assumed.remove(&pod.uid);
            self.snapshot.nominate(&pod, "");
            return self.put_on_node(&pod);
        }
        if pod.is_finished {
            self.queue.remove(&pod.uid);
            self.assumed.remove(&pod.uid);
            self.snapshot.nominate(&pod, "");
            return removed(self.snapshot.displace(&pod.uid));
        }
        if pod.is_terminating
            || !self.profiles.iter().any(|it| it.scheduler_name == pod.scheduler())
        {
            self.queue.remove(&pod.uid);
            self.snapshot.nominate(&pod, "");
            return Events::NONE;
        }
        if !self.assumed.contains_key(&pod.uid) && !self.preempting.contains(&pod.uid) {
            self.snapshot.nominate(&pod, &pod.nominated);
        }
        let is_new = !self.queue.holds(&pod.uid);
        self.queue.put(&pod, now);
        if let (Some(key), true) = (&pod.group, is_new)
            && self.groups.get(key).is_some_and(Members::may_suffice)
        {
            self.wake_members(key, now);
        }
        Events::NONE
    }

    /// A pod is on its node.
    fn put_on_node(&mut self, pod: &Arc<PodInfo>) -> Events {
        if let Some((slot, held)) = self.snapshot.place_of(&pod.uid) {
            let is_same = Arc::ptr_eq(&held.template, &pod.template)
                && held.labels == pod.labels
                && held.is_terminating == pod.is_terminating
                && held.priority == pod.priority
                && self.snapshot.node(*slot).is_some_and(|node| node.name == pod.node);
            if is_same {
                self.snapshot.refresh(pod);
                return Events::NONE;
            }
        }
        self.snapshot.place(pod, &pod.node);
        Events::POD_ADDED
    }

    fn forget_pod(&mut self, name: &Name, uid: &Arc<str>) -> Events {
        self.uids.remove(name);
        let known = self.queue.get(uid).or(self.snapshot.place_of(uid).map(|(_, pod)| pod));
        if let Some(pod) = known.cloned() {
            self.snapshot.nominate(&pod, "");
            if let Some(key) = &pod.group {
                self.groups.remove_pod(key, uid);
            }
        } else {
            self.groups.remove_anywhere(uid);
        }
        self.queue.remove(uid);
        self.assumed.remove(uid);
        self.reports.remove(uid);
        self.unseen.remove(uid);
        self.verdicts.forget(name);
        removed(self.snapshot.displace(uid))
    }

    pub fn profile_of(profiles: &[Profile], pod: &PodInfo) -> Option<usize> {
        profiles.iter().position(|profile| profile.scheduler_name == pod.scheduler())
    }

    /// When something must be looked at although nothing changed.
    pub fn next_due(&self, now: Instant) -> Option<Instant> {
        let reserved = self.reservations.values().map(|one| one.deadline);
        // What is due and still there waits for room, and room wakes the loop.
        let told = self.reports.next_after(now);
        let groups = self.groups.next_after(now);
        reserved.chain(told).chain(groups).chain(self.queue.next_due()).min()
    }
}

fn removed(was_there: bool) -> Events {
    if was_there { Events::POD_REMOVED } else { Events::NONE }
}
