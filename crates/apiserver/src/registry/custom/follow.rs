//! Follows the definitions of the store: what they make of the registry, and what is said of them.
//!
//! The process that writes a definition catches up before it answers, so that what was defined is
//! served at once; every other process on the store follows. All of them compute the same status,
//! and whoever is first writes it.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value, json};
use store::{
    COMMIT_BYTES_MAX, COMMIT_OPERATIONS_MAX, Commit, Key, KeyRange, Mutation, Operation,
    PageRequest, Precondition, Provenance, Revision,
};
use tokio::sync::Mutex;
use tracing::warn;

use super::cleanup;
use super::conditions;
use super::definition::Definition;
use super::names::Taken;
use crate::bootstrap;
use crate::object;
use crate::persist::{self, stored};
use crate::planted::Planted;
use crate::resources::{Registry, Resource};
use crate::server::{Server, store_failure};
use crate::status::Error;
use crate::time::rfc3339;

const GROUP: &str = "apiextensions.k8s.io";
const PLURAL: &str = "customresourcedefinitions";
const PREFIX: &str = "customresourcedefinitions/";
/// On whose behalf the status is written.
const ACTOR: &str = "system:apiserver";
/// How often the status is computed anew when others write the same definitions.
const ATTEMPTS_MAX: usize = 16;
/// How long to wait before definitions are read again.
const RELOAD_PAUSE: Duration = Duration::from_secs(1);

/// Whether writes of a resource change what is served.
pub fn is_definition(resource: &Resource) -> bool {
    resource.group == GROUP && resource.plural == PLURAL
}

/// Where the definition of a resource is stored.
///
/// # Errors
/// The name cannot be a key; no definition has it then.
pub fn definition_key(group: &str, plural: &str) -> Result<Key, Error> {
    let key = Key::new(format!("{PREFIX}{plural}.{group}"));
    key.map_err(|error| Error::internal(error.to_string()))
}

/// What is known of the definitions of the store.
#[derive(Default)]
pub struct Definitions(Mutex<State>);

#[derive(Default)]
struct State {
    known: BTreeMap<Key, Known>,
    /// Whether the registry has what is known.
    is_published: bool,
}

struct Known {
    modified: Revision,
    /// The definition without its schemas, which are most of it.
    outline: Value,
    /// Another one is another specification.
    spec: u64,
    /// All of a new one, from when it was read until its status is settled.
    whole: Option<Value>,
    compiled: Arc<Definition>,
}

impl Known {
    /// Of a definition that is settled.
    fn of(definition: &Value, modified: Revision) -> Known {
        Known {
            modified,
            outline: outline(definition),
            spec: digest(&definition["spec"]),
            whole: None,
            compiled: Arc::new(Definition::read(definition)),
        }
    }
}

impl Definitions {
    /// Brings the registry, and the status of all definitions, up to date.
    ///
    /// # Errors
    /// The store cannot be read or written.
    pub async fn catch_up(&self, server: &Arc<Server>) -> Result<(), Error> {
        let mut state = self.0.lock().await;
        let State { known, is_published } = &mut *state;
        let mut attempts = 0;
        // At least one definition is settled at a time.
        while attempts < ATTEMPTS_MAX + known.len() {
            attempts += 1;
            if read(server, known).await? {
                *is_published = false;
            }
            if !write_status(server, known).await? {
                *is_published = false;
                continue;
            }
            if !*is_published {
                known.values_mut().for_each(|one| one.whole = None);
                publish(server, known);
                *is_published = true;
            }
            return Ok(());
        }
        Err(Error::unavailable("others keep changing the definitions"))
    }

    /// Writes objects of this program together; definitions among them are served with the same
    /// commit. False when somebody else wrote one of them.
    pub(crate) async fn plant(
        &self,
        server: &Arc<Server>,
        mut planted: Vec<Planted>,
    ) -> Result<bool, Error> {
        // Meanwhile nobody else's names are settled.
        let mut state = self.0.lock().await;
        let now = rfc3339(server.environment.now());
        for at in 0..planted.len() {
            if !planted[at].is_definition() {
                continue;
            }
            let group = |definition: &Value| definition["spec"]["group"].clone();
            let own = group(&planted[at].object);
            let mut taken = Taken::default();
            let known = state.known.values().map(|one| &one.outline);
            let before = planted[..at].iter().map(|one| &one.object);
            for other in known.chain(before).filter(|other| group(other) == own) {
                taken.add(&other["status"]["acceptedNames"]);
            }
            conditions::settle(&mut planted[at].object, &taken, &now);
        }
        let operations = planted.iter().map(Planted::operation).collect();
        let committed =
            bootstrap::commit_all(&*server.store, operations, &*server.environment).await?;
        let is_written = committed.is_some();
        for (one, modified) in planted.into_iter().zip(committed.unwrap_or_default()) {
            // What was just written need not be read.
            if one.is_definition() {
                state.known.insert(one.key, Known::of(&one.object, modified));
                state.is_published = false;
            }
        }
        drop(state);
        self.catch_up(server).await?;
        Ok(is_written)
    }

    /// The definitions whose objects are to go.
    async fn terminating(&self) -> Vec<(Value, Arc<Definition>)> {
        let state = self.0.lock().await;
        let ending = state.known.values().filter(|one| object::is_terminating(&one.outline));
        ending.map(|one| (one.outline.clone(), one.compiled.clone())).collect()
    }
}

/// Reads what changed, compiles what says something else than before. Whether anything did.
async fn read(server: &Server, known: &mut BTreeMap<Key, Known>) -> Result<bool, Error> {
    let range = KeyRange::prefix(PREFIX);
    let page = server.store.list(&range, PageRequest::all(), None).await.map_err(store_failure)?;
    let before = known.len();
    let is_there = |key: &Key| page.entries.binary_search_by(|entry| entry.key.cmp(key)).is_ok();
    known.retain(|key, one| {
        let stays = is_there(key);
        if !stays {
            one.compiled.life.end();
        }
        stays
    });
    let mut is_changed = known.len() != before;
    for entry in &page.entries {
        let before = known.get(&entry.key);
        if before.is_some_and(|before| before.modified == entry.modified) {
            continue;
        }
        is_changed = true;
        let object = stored(entry).object(entry.modified);
        let outline = outline(&object);
        // A status, or the mark of a deletion, says nothing else of what is served.
        let spec = digest(&object["spec"]);
        let is_same =
            |before: &Known| before.compiled.uid == object::uid(&object) && before.spec == spec;
        let compiled = match before {
            Some(before) if is_same(before) => before.compiled.clone(),
            _ => Arc::new(Definition::read(&object)),
        };
        // What has conditions is rarely given others, and is read again when it is.
        let is_asked_for = before.is_some_and(|before| before.modified == Revision::default());
        let is_new = object["status"]["conditions"].as_array().is_none_or(Vec::is_empty);
        let whole = (is_new || is_asked_for).then_some(object);
        let modified = entry.modified;
        let now = Known { modified, outline, spec, whole, compiled };
        let replaced = known.insert(entry.key.clone(), now);
        if let (Some(old), Some(new)) = (replaced, known.get(&entry.key))
            && !Arc::ptr_eq(&old.compiled, &new.compiled)
        {
            old.compiled.life.end();
        }
    }
    Ok(is_changed)
}

fn digest(value: &Value) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

/// The definition with empty schemas: what is said of it does not depend on what they say, only on
/// whether all versions have one.
fn outline(definition: &Value) -> Value {
    let Value::Object(fields) = definition else { return Value::Null };
    let mut outline: Map<String, Value> = Map::new();
    for (name, value) in fields.iter().filter(|(name, _)| *name != "spec") {
        outline.insert(name.clone(), value.clone());
    }
    let spec = definition["spec"].as_object().into_iter().flatten();
    let mut kept: Map<String, Value> = Map::new();
    for (name, value) in spec {
        kept.insert(name.clone(), if name == "versions" { bare(value) } else { value.clone() });
    }
    outline.insert("spec".to_owned(), Value::Object(kept));
    Value::Object(outline)
}

fn bare(versions: &Value) -> Value {
    let versions = versions.as_array().map(Vec::as_slice).unwrap_or_default();
    let schema = |version: &Value| version["schema"]["openAPIV3Schema"].is_object();
    // One without a schema is from before schemas were checked, and is looked at as it is.
    if !versions.iter().all(schema) {
        return Value::Array(versions.to_vec());
    }
    let each = |version: &Value| {
        let fields = version.as_object().into_iter().flatten();
        let fields = fields.map(|(name, value)| match name.as_str() {
            "schema" => (name.clone(), json!({"openAPIV3Schema": {}})),
            _ => (name.clone(), value.clone()),
        });
        Value::Object(fields.collect())
    };
    Value::Array(versions.iter().map(each).collect())
}

/// Writes what is to be said of the definitions, as many at once as one commit has room for; false
/// when something was to be written.
async fn write_status(server: &Server, known: &mut BTreeMap<Key, Known>) -> Result<bool, Error> {
    let now = rfc3339(server.environment.now());
    let keys: Vec<Key> = known.keys().cloned().collect();
    let (mut is_settled, mut bytes) = (true, 0);
    let (mut operations, mut written) = (Vec::new(), Vec::new());
    for key in keys {
        // In turn: the names of the next depend on those of this one.
        let Some(outline) = settled(known, &key, &now) else { continue };
        is_settled = false;
        let Some(one) = known.get_mut(&key) else { continue };
        let Some(whole) = &mut one.whole else {
            // It is read again, now that all of it is needed.
            one.modified = Revision::default();
            break;
        };
        whole["status"] = outline["status"].clone();
        object::remove_meta(whole, "resourceVersion");
        let value = persist::encode(whole, &[]);
        bytes += value.len() + 2 * key.as_bytes().len();
        let is_full = bytes > COMMIT_BYTES_MAX || operations.len() == COMMIT_OPERATIONS_MAX;
        if is_full && !operations.is_empty() {
            break;
        }
        let (mutation, when) = (Mutation::Put(value), Precondition::At(one.modified));
        operations.push(Operation { key: key.clone(), mutation, when });
        one.outline = outline;
        written.push(key);
    }
    if written.is_empty() {
        return Ok(is_settled);
    }
    let committed = commit(server, operations).await;
    // What was just written need not be read again, and what was not is no longer known.
    let modified = committed.as_ref().ok().copied().flatten().unwrap_or_default();
    for key in &written {
        if let Some(one) = known.get_mut(key) {
            one.modified = modified;
        }
    }
    committed.map(|_| false)
}

/// What a definition says once it is settled, if that is something else.
fn settled(known: &BTreeMap<Key, Known>, key: &Key, now: &str) -> Option<Value> {
    let one = known.get(key)?;
    let mut taken = Taken::default();
    let others = known.iter().filter(|(other, _)| *other != key);
    for (_, other) in others.filter(|(_, other)| other.compiled.group == one.compiled.group) {
        taken.add(&other.outline["status"]["acceptedNames"]);
    }
    let mut outline = one.outline.clone();
    conditions::settle(&mut outline, &taken, now);
    (outline != one.outline).then_some(outline)
}

/// Commits, unless somebody else was faster.
pub(super) async fn commit(
    server: &Server,
    operations: Vec<Operation>,
) -> Result<Option<Revision>, Error> {
    let provenance = Provenance::of(server.environment.now(), ACTOR);
    match server.store.commit(Commit { operations, epoch: None, provenance }).await {
        Ok(committed) => Ok(Some(committed.revision)),
        Err(store::Error::Conflict { .. }) => Ok(None),
        Err(error) => Err(store_failure(error)),
    }
}

/// Puts what is served into the registry.
fn publish(server: &Arc<Server>, known: &BTreeMap<Key, Known>) {
    let weak = Arc::downgrade(server);
    let mut resources = Vec::new();
    for one in known.values() {
        one.compiled.life.set_terminating(object::is_terminating(&one.outline));
        if conditions::is_served(&one.outline) {
            let accepted = &one.outline["status"]["acceptedNames"];
            resources.extend(one.compiled.resources(accepted, &weak));
        }
    }
    let before = server.registry.now();
    server.registry.replace(Registry::builtin().with(resources));
    for group in changed_groups(&before, &server.registry.now()) {
        server.documents.forget(&group);
    }
}

/// The groups whose documents say something else than before.
fn changed_groups(before: &Registry, after: &Registry) -> Vec<String> {
    let custom = |registry: &Registry| -> Vec<(String, String)> {
        let custom = registry.all().filter_map(|one| Some((one, one.custom()?)));
        let form = |one: &Resource, stamp: &str| {
            format!("{}{}{:?}{stamp}", one.plural, one.list_kind, one.subresources)
        };
        custom.map(|(one, version)| (one.group.clone(), form(one, &version.stamp))).collect()
    };
    let (before, after) = (custom(before), custom(after));
    let mut groups: Vec<String> = before
        .iter()
        .filter(|one| !after.contains(one))
        .chain(after.iter().filter(|one| !before.contains(one)))
        .map(|(group, _)| group.clone())
        .collect();
    groups.sort();
    groups.dedup();
    groups
}

/// Serves what others define, and ends what is no longer defined; to be run for as long as the
/// server serves.
pub async fn follow(server: Arc<Server>) {
    let position = server.store.revision();
    Follow { server, position }.run().await;
}

/// Follows the store for one server.
struct Follow {
    server: Arc<Server>,
    position: Revision,
}

impl Follow {
    /// Follows until the store is closed.
    async fn run(mut self) {
        loop {
            while let Err(error) = self.settle().await {
                warn!(error = error.message, "definitions could not be followed");
                tokio::time::sleep(RELOAD_PAUSE).await;
            }
            match self.next().await {
                Ok(()) => {}
                Err(store::Error::Stopped { .. }) => return,
                Err(error) => {
                    warn!(%error, "definitions are read again");
                    self.position = self.server.store.revision();
                }
            }
        }
    }

    /// Catches up, and deletes the objects of definitions that are to go.
    async fn settle(&mut self) -> Result<(), Error> {
        self.position = self.server.store.revision();
        self.server.definitions.catch_up(&self.server).await?;
        for (object, definition) in self.server.definitions.terminating().await {
            cleanup::advance(&self.server, &object, &definition).await?;
        }
        Ok(())
    }

    /// Returns when a definition changed, or an object of one that is to go.
    async fn next(&mut self) -> Result<(), store::Error> {
        let ending = self.server.definitions.terminating().await;
        let prefixes: Vec<String> = ending.iter().map(|(_, one)| one.prefix()).collect();
        let is_watched = |key: &str| {
            key.starts_with(PREFIX) || prefixes.iter().any(|prefix| key.starts_with(prefix))
        };
        let mut watch = self.server.store.watch(KeyRange::all(), self.position).await?;
        loop {
            let batch = watch.next().await?;
            if batch.changes.iter().any(|change| is_watched(change.key.as_str())) {
                return Ok(());
            }
        }
    }
}
