//! Who owns what after a write that is not an apply.
//!
//! The writer owns what it changed, and nobody else does any more. What it removed nobody owns.

use serde_json::Value;

use crate::{
    cap::cap,
    error::Error,
    managed::{self, Entry, Fields, Identity, Managed, Operation},
    raw,
    resource::{Request, Resource, UPDATE_MANAGERS_MAX},
    set::NOTHING,
    stripped::stripped,
    versions::Changes,
    walk::{created::created, reconcile::reconcile},
};

/// Keeps `metadata.managedFields` of a create, a PUT or a patch: `new` is the object as it is to
/// be stored, `live` the one that is stored, None when the object is created.
///
/// Guarantees: nothing of `new` but `metadata.managedFields` changes; a write that changes nothing
/// leaves the entries of `live` as they are.
///
/// Errors: `new` has no managed fields then. A server that would rather serve the write than
/// refuse it (as Kubernetes does) may ignore the error.
pub fn update<R: Resource>(
    resource: &R,
    live: Option<&Value>,
    new: &mut Value,
    request: &Request<'_>,
) -> Result<(), Error> {
    let managed = starting_point(live, new, request);
    managed::strip(new);
    let Some(managed) = managed else { return Ok(()) };
    let identity = identity_of(request, Operation::Update);
    let Some(live) = live else {
        if managed.is_empty() && create(resource, new, request, &identity)? {
            return Ok(());
        }
        let empty = resource.empty(request.api_version);
        let managed = updated(resource, (&empty, new), managed, request, &identity)?;
        managed.write(new);
        return Ok(());
    };
    let managed = updated(resource, (live, new), managed, request, &identity)?;
    managed.write(new);
    Ok(())
}

/// The entries that a write starts from; None where ownership is not tracked.
fn starting_point(live: Option<&Value>, new: &Value, request: &Request<'_>) -> Option<Managed> {
    // Entries of the live object were checked when they were written. Damaged ones count as none.
    let stored = || live.map(Managed::of_stored).and_then(Result::ok).unwrap_or_default();
    let managed = if !request.subresource.is_empty() {
        stored()
    } else if managed::is_reset(new) {
        Managed::default()
    } else if live.is_some_and(|live| managed::list_of(live) == managed::list_of(new)) {
        stored()
    } else {
        // A client that does not know the field must not delete it by leaving it out.
        match Managed::of_request(new) {
            Ok(managed) if !managed.is_empty() => managed,
            _ => stored(),
        }
    };
    // An object whose ownership was given up stays without until it is applied.
    (live.is_none() || !managed.is_empty()).then_some(managed)
}

pub(crate) fn identity_of(request: &Request<'_>, operation: Operation) -> Identity {
    let manager = if request.manager.is_empty() { "unknown" } else { request.manager };
    Identity {
        manager: manager.to_owned(),
        operation,
        api_version: request.api_version.to_owned(),
        subresource: request.subresource.to_owned(),
    }
}

/// The short way for an object that nobody owned: one walk. False where it does not lead.
fn create<R: Resource>(
    resource: &R,
    new: &mut Value,
    request: &Request<'_>,
    identity: &Identity,
) -> Result<bool, Error> {
    let api_version = request.api_version;
    let Some(shape) = resource.shape(api_version) else {
        return Err(Error::Unserved { api_version: api_version.to_owned() });
    };
    let reset = resource.reset_fields(api_version, request.subresource).unwrap_or(&NOTHING);
    let empty = resource.empty(api_version);
    let Some(fields) = created(shape, (&empty, new), stripped(), reset) else { return Ok(false) };
    let entry = Entry {
        identity: identity.clone(),
        time: Some(request.time.to_owned()),
        fields: Fields::Raw(fields),
    };
    let mut managed = Managed { entries: vec![entry] };
    managed.drop_empty();
    managed.write(new);
    Ok(true)
}

/// The entries after an update.
pub(crate) fn updated<R: Resource>(
    resource: &R,
    (live, new): (&Value, &Value),
    mut managed: Managed,
    request: &Request<'_>,
    identity: &Identity,
) -> Result<Managed, Error> {
    reconcile_all(resource, &mut managed)?;
    let mut changes = Changes::new(resource, request, live, new)?;
    if changes.own().is_empty() {
        // Whatever the version, there is nothing to see.
        managed.entries.retain(|entry| resource.shape(&entry.identity.api_version).is_some());
        return Ok(managed);
    }
    let mut own = None;
    let mut entries = Vec::with_capacity(managed.entries.len() + 1);
    for mut entry in managed.entries {
        let Some(change) = changes.at(&entry.identity.api_version)? else { continue };
        if entry.identity.is(identity) {
            own = Some(entry);
            continue;
        }
        let gone = [&change.changed, &change.comparison.removed];
        if gone.iter().any(|gone| entry.fields.touches(gone)) {
            let left = entry.fields.take()?.difference(gone[0]).difference(gone[1]);
            entry.fields = Fields::Decoded(left);
        }
        entries.push(entry);
    }
    let own = own_entry(own, changes.own(), request, identity)?;
    entries.extend(own);
    let mut managed = Managed { entries };
    managed.drop_empty();
    cap(&mut managed, UPDATE_MANAGERS_MAX)?;
    Ok(managed)
}

/// The writer's entry: what it had, without what it removed, and what it changed. Its time
/// changes only if it changed something.
fn own_entry(
    before: Option<Entry>,
    change: &crate::versions::Change,
    request: &Request<'_>,
    identity: &Identity,
) -> Result<Option<Entry>, Error> {
    let time = Some(request.time.to_owned());
    let Some(mut entry) = before else {
        if change.changed.is_empty() {
            return Ok(None);
        }
        let fields = Fields::Decoded(change.changed.clone());
        return Ok(Some(Entry { identity: identity.clone(), time, fields }));
    };
    let removed = &change.comparison.removed;
    if entry.fields.touches(removed) || !entry.fields.contains(&change.changed) {
        let fields = entry.fields.take()?.difference(removed).union(&change.changed);
        entry.fields = Fields::Decoded(fields);
    }
    if !change.changed.is_empty() {
        entry.time = time;
    }
    Ok(Some(entry))
}

/// Rewrites the sets that a schema which has changed would write differently.
pub(crate) fn reconcile_all<R: Resource>(resource: &R, managed: &mut Managed) -> Result<(), Error> {
    for entry in &mut managed.entries {
        let Some(shape) = resource.shape(&entry.identity.api_version) else { continue };
        let fits = match &entry.fields {
            Fields::Raw(raw) => raw::fits(shape, raw),
            Fields::Decoded(_) => false,
        };
        if !fits {
            entry.fields = Fields::Decoded(reconcile(shape, entry.fields.set()?));
        }
    }
    Ok(())
}
