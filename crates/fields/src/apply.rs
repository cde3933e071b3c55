//! Apply: an object gets the fields that a manager wants, and loses those it wants no more.

use serde_json::Value;

use crate::{
    conflict::{Conflict, Conflicts},
    error::Error,
    last_applied,
    managed::{self, Entry, Fields, Managed, Operation},
    order,
    prune::{Pruning, prune},
    resource::{Force, Request, Resource},
    set::Set,
    stripped::stripped,
    update::{identity_of, reconcile_all, updated},
    versions::Changes,
    walk::{
        fields_of::fields_of,
        merge::merge,
        validate::{Duplicates, check},
    },
};

/// Who owns what was there before the first apply, if nobody was known to.
pub const BEFORE_FIRST_APPLY: &str = "before-first-apply";

/// What an apply leads to.
#[derive(Clone, Debug)]
pub struct Applied {
    /// With `metadata.managedFields`, before defaults.
    pub object: Value,
    /// Whether anything but `metadata.managedFields` differs from the live object.
    pub changed: bool,
}

/// Applies a configuration to the live object, None when there is none.
///
/// Assumptions: `config` says `apiVersion`, `kind` and the name; `live`, if there is one, is at the
/// version of the request.
///
/// Guarantees: applying the same again changes nothing, not even a time.
pub fn apply<R: Resource>(
    resource: &R,
    live: Option<&Value>,
    config: &Value,
    request: &Request<'_>,
    force: Force,
) -> Result<Applied, Error> {
    let empty;
    let live = match live {
        Some(live) => live,
        None => {
            empty = empty_object(resource, config, request);
            &empty
        }
    };
    let managed = Managed::of_stored(live).map_err(|error| Error::ManagedFields {
        reason: format!("failed to decode managed fields: {error}"),
    })?;
    let mut bare = live.clone();
    managed::strip(&mut bare);
    let live = &bare;
    let step = Step { resource, live, config, request };
    step.check()?;
    let applied = match step.run(managed.clone(), force) {
        Err(Error::Conflicts(conflicts)) if request.manager == last_applied::KUBECTL => {
            let Some(shape) = resource.shape(request.api_version) else {
                return Err(Error::Conflicts(conflicts));
            };
            // What kubectl wrote the old way is its own, whatever it was called then.
            let own = last_applied::unchanged_since(shape, live, request.api_version);
            match conflicts.without(&own) {
                Some(conflicts) => return Err(Error::Conflicts(conflicts)),
                None => step.run(managed, Force::Yes)?,
            }
        }
        other => other?,
    };
    let Applied { mut object, mut changed } = applied;
    if request.manager == last_applied::KUBECTL {
        changed |= last_applied::refresh(&mut object, config);
    }
    Ok(Applied { object, changed })
}

fn empty_object<R: Resource>(resource: &R, config: &Value, request: &Request<'_>) -> Value {
    let mut empty = resource.empty(request.api_version);
    for name in ["apiVersion", "kind"] {
        empty[name] = config[name].clone();
    }
    empty
}

struct Step<'a, R> {
    resource: &'a R,
    /// Without its managed fields.
    live: &'a Value,
    config: &'a Value,
    request: &'a Request<'a>,
}

impl<R: Resource> Step<'_, R> {
    fn shape(&self) -> Result<R::Shape<'_>, Error> {
        let api_version = self.request.api_version;
        let unserved = || Error::Unserved { api_version: api_version.to_owned() };
        self.resource.shape(api_version).ok_or_else(unserved)
    }

    fn check(&self) -> Result<(), Error> {
        let specified = self.config["apiVersion"].as_str().unwrap_or_default();
        if specified != self.request.api_version {
            let (specified, expected) = (specified.to_owned(), self.request.api_version.to_owned());
            return Err(Error::Version { specified, expected });
        }
        if self.config["metadata"].get("managedFields").is_some_and(|fields| !fields.is_null()) {
            return Err(Error::ManagedFieldsApplied);
        }
        let shape = self.shape()?;
        let untyped = |role, object, reason| Error::Untyped { role, object, reason };
        check(shape, self.config, Duplicates::Refused)
            .map_err(|reason| untyped("patch", self.describe(self.config), reason))?;
        check(shape, self.live, Duplicates::Allowed)
            .map_err(|reason| untyped("live", self.describe(self.live), reason))
    }

    /// `namespace/name; apps/v1, Kind=Deployment`; the core group is the empty text before `/v1`.
    fn describe(&self, object: &Value) -> String {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let metadata = &object["metadata"];
        let api_version = self.request.api_version;
        format!(
            "{}/{}; {}{api_version}, Kind={}",
            text(&metadata["namespace"]),
            text(&metadata["name"]),
            if api_version.contains('/') { "" } else { "/" },
            text(&object["kind"]),
        )
    }

    fn run(&self, mut managed: Managed, force: Force) -> Result<Applied, Error> {
        if managed.is_empty() {
            managed = self.before_first_apply()?;
        }
        reconcile_all(self.resource, &mut managed)?;
        let shape = self.shape()?;
        let mut object = self.live.clone();
        merge(shape, &mut object, self.config);

        let (own, last) = self.claim(shape, &mut managed)?;
        if let Some(last) = &last {
            let owned = Pruning { resource: self.resource, request: self.request, last };
            object = prune(owned, object, &managed)?;
            // An empty container that is wanted may have gone with the last of what was in it.
            merge(shape, &mut object, self.config);
        }
        self.take(&object, &mut managed, force)?;
        let changed = !order::equal(self.live, &object);
        self.stamp(&mut managed, last, own, changed);
        managed.drop_empty();
        managed.write(&mut object);
        Ok(Applied { object, changed })
    }

    fn before_first_apply(&self) -> Result<Managed, Error> {
        let empty = empty_object(self.resource, self.config, self.request);
        let request = Request { manager: BEFORE_FIRST_APPLY, ..*self.request };
        let identity = identity_of(&request, Operation::Update);
        let sides = (&empty, self.live);
        updated(self.resource, sides, Managed::default(), &request, &identity)
    }

    /// Makes the configuration's fields the manager's own; returns them, and what it had before.
    fn claim(
        &self,
        shape: R::Shape<'_>,
        managed: &mut Managed,
    ) -> Result<(Set, Option<Last>), Error> {
        let mut own = fields_of(shape, self.config).difference(stripped());
        let request = self.request;
        let reset = self.resource.reset_fields(request.api_version, request.subresource);
        if let Some(reset) = reset {
            own = own.recursive_difference(reset);
        }
        let identity = identity_of(request, Operation::Apply);
        let fields = Fields::Decoded(own.clone());
        let entry = Entry { identity: identity.clone(), time: None, fields };
        let Some(at) = managed.position(&identity) else {
            managed.entries.push(entry);
            return Ok((own, None));
        };
        let before = std::mem::replace(&mut managed.entries[at], entry);
        let last = Last {
            api_version: before.identity.api_version,
            time: before.time,
            set: before.fields.take()?,
        };
        Ok((own, Some(last)))
    }

    /// Takes what the apply changes from others, or fails.
    fn take(&self, object: &Value, managed: &mut Managed, force: Force) -> Result<(), Error> {
        let own = identity_of(self.request, Operation::Apply);
        let mut changes = Changes::new(self.resource, self.request, self.live, object)?;
        let mut conflicts = Vec::new();
        let mut entries = Vec::with_capacity(managed.entries.len());
        for mut entry in std::mem::take(&mut managed.entries) {
            if entry.identity.is(&own) {
                entries.push(entry);
                continue;
            }
            let Some(change) = changes.at(&entry.identity.api_version)? else { continue };
            let removed = &change.comparison.removed;
            if entry.fields.touches(&change.changed) {
                let fields = entry.fields.set()?.intersection(&change.changed);
                conflicts.push(Conflict { owner: entry.identity.clone(), time: None, fields });
                entry.fields = Fields::Decoded(entry.fields.take()?.difference(&change.changed));
            }
            if entry.fields.touches(removed) {
                entry.fields = Fields::Decoded(entry.fields.take()?.difference(removed));
            }
            entries.push(entry);
        }
        if !conflicts.is_empty() && force == Force::No {
            conflicts.sort_by(|left, right| left.owner.cmp(&right.owner));
            return Err(Error::Conflicts(Conflicts(conflicts)));
        }
        managed.entries = entries;
        Ok(())
    }

    /// Sets the manager's time: now if the object or its fields changed, else as it was.
    fn stamp(&self, managed: &mut Managed, last: Option<Last>, own: Set, changed: bool) {
        let identity = identity_of(self.request, Operation::Apply);
        let Some(at) = managed.position(&identity) else { return };
        let now = Some(self.request.time.to_owned());
        managed.entries[at].time = match last {
            Some(last) if !changed && last.set == own => last.time.or(now),
            _ => now,
        };
    }
}

/// What a manager owned by its previous apply.
pub struct Last {
    pub api_version: String,
    pub time: Option<String>,
    pub set: Set,
}
