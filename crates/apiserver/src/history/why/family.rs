//! The objects that belong to a trace, and what happened to them.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use serde_json::Value;
use store::{Batch, Change, Entry, Key, KeyRange, PageRequest, Revision, Timestamp};

use super::sentences;
use crate::history::events::Head;
use crate::history::place::{self, Place};
use crate::history::revisions::reference;
use crate::history::{Asked, moment, redact};
use crate::object;
use crate::persist::stored;
use crate::server::{Server, store_failure};
use crate::status::Error;

/// How many owners above an object are followed.
const OWNERS_MAX: usize = 8;
/// Objects of one family.
const MEMBERS_MAX: usize = 10_000;
/// How far back in the history the steps are looked for.
const REVISIONS_MAX: u64 = 200_000;
/// Where events are.
const EVENTS: &str = "events/";

/// One thing that happened.
pub struct Step {
    pub time: Timestamp,
    pub revision: Revision,
    pub depth: usize,
    pub actor: String,
    pub object: Value,
    pub cause: Option<Revision>,
    /// `Normal` or `Warning` for an event; none for a change.
    pub event_type: Option<String>,
    pub sentence: String,
}

/// An object of the family.
struct Member {
    place: Place,
    depth: usize,
    /// Owners are told of only as far as somebody wanted something.
    is_owner: bool,
    /// Whether who asks may know of it.
    is_known: bool,
    /// As it was after its last change.
    last: Value,
}

/// What is known of an object's family so far.
pub struct Family {
    members: BTreeMap<Key, Member>,
    /// Whose children belong to it, and how deep those are.
    growing: HashMap<String, usize>,
    /// All uids, for events.
    uids: HashMap<String, Key>,
    asked: Asked,
    /// Rights to all of a resource that were looked up, by the verb and it, and the namespace.
    rights: HashMap<(String, String), bool>,
    begin: Revision,
    /// Nothing later is looked at.
    until: Revision,
}

impl Family {
    /// An object and its owners.
    pub async fn of(
        server: &Server,
        (asked, until): (&Asked, Revision),
        place: &Place,
        (target, created): (&Value, Revision),
    ) -> Result<Family, Error> {
        let owners = owners(server, target, until).await?;
        let mut family = Family {
            members: BTreeMap::new(),
            growing: HashMap::new(),
            uids: HashMap::new(),
            asked: asked.clone(),
            rights: HashMap::new(),
            begin: owners.last().map_or(created, |(_, entry)| entry.created).min(created),
            until,
        };
        let depth = owners.len();
        for (up, (place, entry)) in owners.into_iter().enumerate() {
            let uid = object::uid(&stored(&entry).object(entry.modified)).to_owned();
            family.add(server, (entry.key.clone(), place), (depth - 1 - up, true), uid);
        }
        let uid = object::uid(target).to_owned();
        let own = Place { resource: place.resource.clone(), target: place.target.clone() };
        family.growing.insert(uid.clone(), depth);
        family.add(server, (place.key()?, own), (depth, false), uid);
        Ok(family)
    }

    fn add(
        &mut self,
        server: &Server,
        (key, place): (Key, Place),
        (depth, is_owner): (usize, bool),
        uid: String,
    ) {
        if self.members.len() >= MEMBERS_MAX {
            return;
        }
        let is_known = self.may_see(server, &place, "get");
        self.uids.insert(uid, key.clone());
        let member = Member { place, depth, is_owner, is_known, last: Value::Null };
        self.members.insert(key, member);
    }

    /// Whether who asks may see an object. A right may be to single names of a resource: only one
    /// to all of it is remembered.
    fn may_see(&mut self, server: &Server, place: &Place, verb: &str) -> bool {
        let right = (format!("{verb} {}", place.resource.prefix), place.target.namespace.clone());
        let user = &self.asked.user;
        let is_all = *self
            .rights
            .entry(right)
            .or_insert_with(|| place.nameless().authorize(server, user, verb).is_ok());
        is_all || place.authorize(server, user, verb).is_ok()
    }

    /// The live pods of the family that who asks may see, but for the object itself and its owners.
    pub fn pods(&self) -> Vec<Value> {
        let is_pod = |member: &&Member| {
            let is_shown = member.is_known && !member.is_owner && !member.last.is_null();
            let resource = &member.place.resource;
            is_shown && resource.kind == "Pod" && resource.group.is_empty()
        };
        self.members.values().filter(is_pod).map(|member| member.last.clone()).collect()
    }

    /// Follows the history, and finds the children on the way: an owner is there before them.
    pub async fn walk(&mut self, server: &Server, since: Revision) -> Result<Vec<Step>, Error> {
        let (oldest, _) = moment::window(&*server.store);
        let newest = self.until;
        let first = Revision(newest.0.saturating_sub(REVISIONS_MAX));
        let mut after = self.begin.max(oldest).max(since).max(first).before();
        let mut steps = Vec::new();
        let at = after.max(oldest).min(newest);
        if after >= self.begin {
            self.find_children(server, at).await?;
        }
        self.read_before(server, at).await?;
        while after < newest {
            let changes = server.store.changes(&KeyRange::all(), after, newest).await;
            let changes = changes.map_err(store_failure)?;
            after = changes.through;
            for batch in &changes.batches {
                for change in &batch.changes {
                    steps.extend(self.take(server, batch, change));
                }
            }
        }
        Ok(steps)
    }

    /// Adds the children that are older than what is looked at.
    async fn find_children(&mut self, server: &Server, at: Revision) -> Result<(), Error> {
        let page = server.store.list(&KeyRange::all(), PageRequest::all(), Some(at)).await;
        let mut rest = page.map_err(store_failure)?.entries;
        rest.retain(|entry| !entry.key.as_str().starts_with(EVENTS));
        loop {
            // Owners and their children are in no order: again, until nobody is found.
            let found: Vec<(Arc<Entry>, usize, String)> = rest
                .iter()
                .filter(|entry| !self.members.contains_key(&entry.key))
                .filter_map(|entry| {
                    self.child(entry).map(|(depth, uid)| (entry.clone(), depth, uid))
                })
                .collect();
            let known = self.members.len();
            for (entry, depth, uid) in found {
                let Some(place) = place::of_key(server, &entry.key) else { continue };
                self.growing.insert(uid.clone(), depth);
                self.add(server, (entry.key.clone(), place), (depth, false), uid);
            }
            if self.members.len() == known {
                return Ok(());
            }
            rest.retain(|entry| !self.members.contains_key(&entry.key));
        }
    }

    /// What the members were before the first change that is looked at.
    async fn read_before(&mut self, server: &Server, at: Revision) -> Result<(), Error> {
        for (key, member) in &mut self.members {
            let entry = server.store.get(key, Some(at)).await.map_err(store_failure)?;
            member.last = entry.map_or(Value::Null, |entry| member.read(&entry));
        }
        Ok(())
    }

    fn take(&mut self, server: &Server, batch: &Batch, change: &Change) -> Option<Step> {
        if self.members.contains_key(&change.key) {
            return self.step(batch, change);
        }
        let entry = change.entry.as_ref()?;
        if change.key.as_str().starts_with(EVENTS) {
            return self.event(server, batch, entry);
        }
        if change.previous.is_some() {
            return None;
        }
        let (depth, uid) = self.child(entry)?;
        let place = place::of_key(server, &change.key)?;
        self.growing.insert(uid.clone(), depth);
        self.add(server, (change.key.clone(), place), (depth, false), uid);
        self.step(batch, change)
    }

    /// The depth and the uid of a new object that one of the family owns.
    fn child(&self, entry: &Entry) -> Option<(usize, String)> {
        let head: Owned<'_> = serde_json::from_slice(stored(entry).text()).ok()?;
        let owners = head.metadata.owners.iter();
        let depth = owners.filter_map(|owner| self.growing.get(&*owner.uid)).min()?;
        Some((depth + 1, head.metadata.uid.into_owned()))
    }

    fn step(&mut self, batch: &Batch, change: &Change) -> Option<Step> {
        let member = self.members.get_mut(&change.key)?;
        let after = change.entry.as_ref().map_or(Value::Null, |entry| member.read(entry));
        let before = std::mem::replace(&mut member.last, after);
        if !member.is_known {
            return None;
        }
        let actor = sentences::actor(&batch.provenance);
        let told = sentences::Told {
            resource: &member.place.resource,
            before: &before,
            after: &member.last,
            actor: &actor,
            is_owner: member.is_owner,
        };
        let sentence = told.sentence()?;
        Some(Step {
            time: batch.provenance.time,
            revision: batch.revision,
            depth: member.depth,
            actor,
            object: reference(&member.place),
            cause: batch.provenance.cause,
            event_type: None,
            sentence,
        })
    }

    /// What a component said of a member.
    fn event(&mut self, server: &Server, batch: &Batch, entry: &Arc<Entry>) -> Option<Step> {
        let head: Head<'_> = serde_json::from_slice(stored(entry).text()).ok()?;
        let key = self.uids.get(&*head.involved.uid)?.clone();
        let place = place::of_key(server, &entry.key)?;
        let is_known = self.may_see(server, &place, "list");
        let member = self.members.get(&key)?;
        if !is_known || member.is_owner || !member.is_known {
            return None;
        }
        let event = stored(entry).object(entry.modified);
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let source = [&event["reportingComponent"], &event["source"]["component"]];
        let source = source.into_iter().map(text).find(|text| !text.is_empty());
        Some(Step {
            time: batch.provenance.time,
            revision: batch.revision,
            depth: member.depth,
            actor: source.unwrap_or_else(|| sentences::actor(&batch.provenance)),
            object: reference(&member.place),
            cause: batch.provenance.cause,
            event_type: Some(text(&event["type"])),
            sentence: format!("{}: {}", text(&event["reason"]), text(&event["message"]).trim()),
        })
    }
}

impl Member {
    fn read(&self, entry: &Entry) -> Value {
        redact::object(&self.place.resource, stored(entry).object(entry.modified))
    }
}

/// Who owns a new object, without the rest of it.
#[derive(serde::Deserialize)]
struct Owned<'a> {
    #[serde(borrow)]
    metadata: Metadata<'a>,
}

#[derive(serde::Deserialize)]
struct Metadata<'a> {
    #[serde(borrow, default)]
    uid: std::borrow::Cow<'a, str>,
    #[serde(rename = "ownerReferences", borrow, default)]
    owners: Vec<Owner<'a>>,
}

#[derive(serde::Deserialize)]
struct Owner<'a> {
    #[serde(borrow)]
    uid: std::borrow::Cow<'a, str>,
}

/// The controllers above an object, the nearest first, as far as they are there.
async fn owners(
    server: &Server,
    target: &Value,
    at: Revision,
) -> Result<Vec<(Place, Arc<Entry>)>, Error> {
    let mut owners = Vec::new();
    let mut below = target.clone();
    while owners.len() < OWNERS_MAX {
        let references = below["metadata"]["ownerReferences"].as_array();
        let references = references.map(Vec::as_slice).unwrap_or_default();
        let is_controller = |one: &&Value| one["controller"] == true;
        let Some(owner) = references.iter().find(is_controller).or(references.first()) else {
            break;
        };
        let text = |field: &str| owner[field].as_str().unwrap_or_default();
        let (group, version) =
            text("apiVersion").split_once('/').unwrap_or(("", text("apiVersion")));
        let registry = server.registry.now();
        let is_kind = |one: &&Arc<crate::resources::Resource>| {
            one.group == group && one.kind == text("kind") && one.version == version
        };
        let Some(resource) = registry.all().find(is_kind).cloned() else { break };
        let key = resource.key(object::namespace(&below), text("name"))?;
        let entry = server.store.get(&key, Some(at)).await.map_err(store_failure)?;
        let Some(entry) = entry else { break };
        let owner_object = stored(&entry).object(entry.modified);
        if object::uid(&owner_object) != text("uid") {
            break;
        }
        let Some(place) = place::of_key(server, &key) else { break };
        let place = Place { resource, target: place.target };
        owners.push((place, entry));
        below = owner_object;
    }
    Ok(owners)
}
