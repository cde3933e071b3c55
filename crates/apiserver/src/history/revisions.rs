//! `revisions/{path}`: every change of an object: when, who, by which manager, and what changed.

use std::collections::VecDeque;
use std::sync::Arc;

use serde_json::{Value, json};
use store::{Batch, Change, KeyRange, Revision};

use super::place::{self, Place};
use super::{Asked, GROUP, VERSION, diff, imported, moment};
use crate::answer::Answer;
use crate::conversion;
use crate::object;
use crate::persist::stored;
use crate::resources::Resource;
use crate::server::{Server, store_failure};
use crate::status::Error;

/// Revisions that are told at once, unless fewer are asked for.
const REVISIONS_MAX: u64 = 500;

pub async fn answer(server: &Arc<Server>, rest: &str, asked: &Asked) -> Result<Answer, Error> {
    let place = Place::one(server, rest)?;
    place.authorize(server, &asked.user, "get")?;
    place.authorize_question(server, asked, ("get", "revisions"))?;
    let limit = asked.number("limit")?.filter(|limit| *limit > 0);
    let limit = limit.unwrap_or(REVISIONS_MAX).min(REVISIONS_MAX) as usize;
    let before = asked.number("continue")?.map(|before| Revision(before).before());
    let since = place.since(server, &asked.user, "get").await?;
    let until = asked.until(server).await?;
    if asked.is_of_the_past() {
        place.refuse_before(since, until)?;
    }
    let to = before.unwrap_or(until).min(until);
    let kept = match asked.option("only") {
        Some("wanted") => Kept::Wanted,
        None | Some("") => Kept::All,
        Some(other) => {
            let text = format!("only is {other:?}; expected \"wanted\"");
            return Err(Error::bad_request(text));
        }
    };
    let found = newest_of(server, &place, (since, Some(to)), (kept, limit)).await?;
    let mut items = Vec::new();
    for (batch, change) in found.batches.iter().rev() {
        items.push(describe(server, &place, asked, (batch, change)).await?);
    }
    if !found.has_more && since == Revision::ZERO {
        // What it was elsewhere is behind all that it was here.
        items.extend(imported::of(server, &place).await?);
    }
    if items.is_empty() && before.is_none() && is_absent(server, &place, until).await? {
        return Err(Error::not_found(place.resource.about(), &place.target.name));
    }
    let oldest = found.batches.front().map(|(batch, _)| batch.revision.to_string());
    let metadata = match (found.has_more, oldest) {
        (true, Some(oldest)) => json!({"continue": oldest}),
        _ => json!({}),
    };
    let list = json!({
        "kind": "RevisionList", "apiVersion": format!("{GROUP}/{VERSION}"),
        "metadata": metadata, "items": items,
    });
    Ok(Answer::value(200, &list))
}

async fn is_absent(server: &Server, place: &Place, at: Revision) -> Result<bool, Error> {
    Ok(server.store.get(&place.key()?, Some(at)).await.map_err(store_failure)?.is_none())
}

/// Which changes count.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kept {
    All,
    /// Not those of the status alone.
    Wanted,
}

/// Changes of one object, oldest first.
pub struct Found {
    pub batches: VecDeque<(Arc<Batch>, Change)>,
    /// Whether there were older ones.
    pub has_more: bool,
}

/// The newest changes of an object, up to a revision.
pub async fn newest(
    server: &Server,
    place: &Place,
    span: (Revision, Option<Revision>),
    limit: usize,
) -> Result<Found, Error> {
    newest_of(server, place, span, (Kept::All, limit)).await
}

async fn newest_of(
    server: &Server,
    place: &Place,
    (since, to): (Revision, Option<Revision>),
    (kept, limit): (Kept, usize),
) -> Result<Found, Error> {
    let (oldest, newest) = moment::window(&*server.store);
    let to = to.unwrap_or(newest).min(newest);
    let range = KeyRange::single(&place.key()?);
    let mut found = Found { batches: VecDeque::new(), has_more: false };
    let mut after = oldest.max(since).before();
    while after < to {
        let changes = server.store.changes(&range, after, to).await.map_err(store_failure)?;
        after = changes.through;
        for batch in changes.batches {
            let Some(change) = batch.changes.first().cloned() else { continue };
            if kept == Kept::Wanted && !is_wanted(&place.resource, &change) {
                continue;
            }
            found.batches.push_back((batch, change));
            if found.batches.len() > limit {
                found.batches.pop_front();
                found.has_more = true;
            }
        }
    }
    Ok(found)
}

/// Whether somebody wanted a change: more than the status is another.
fn is_wanted(resource: &Resource, change: &Change) -> bool {
    let (Some(before), Some(after)) = (&change.previous, &change.entry) else { return true };
    let object = |entry: &store::Entry| stored(entry).object(entry.modified);
    diff::of(resource, &object(before), &object(after)).iter().any(diff::Change::is_wanted)
}

/// The object of an entry, in the version that is asked for.
pub async fn object_of(place: &Place, entry: Option<&Arc<store::Entry>>) -> Result<Value, Error> {
    let Some(entry) = entry else { return Ok(Value::Null) };
    let entry = conversion::served_entry(&place.resource, entry.clone()).await?;
    Ok(stored(&entry).object(entry.modified))
}

async fn describe(
    server: &Server,
    place: &Place,
    asked: &Asked,
    (batch, change): (&Batch, &Change),
) -> Result<Value, Error> {
    let before = object_of(place, change.previous.as_ref()).await?;
    let after = object_of(place, change.entry.as_ref()).await?;
    let kind = match (&change.previous, &change.entry) {
        (None, _) => "Created",
        (_, None) => "Deleted",
        _ => "Changed",
    };
    let changes = match kind {
        "Changed" => diff::of(&place.resource, &before, &after),
        _ => Vec::new(),
    };
    let provenance = &batch.provenance;
    let shown = if after.is_null() { &before } else { &after };
    Ok(json!({
        "revision": batch.revision.0,
        "time": moment::text(provenance.time),
        "type": kind,
        "uid": object::uid(shown),
        "generation": shown["metadata"]["generation"],
        "user": &*provenance.actor,
        "manager": &*provenance.manager,
        "request": &*provenance.request,
        "reconcile": &*provenance.reconcile,
        "cause": cause(server, asked, provenance.cause).await?,
        "changes": changes.iter().map(diff::Change::to_json).collect::<Vec<_>>(),
    }))
}

/// The change that a change was a reaction to, as far as who asks may know of it.
pub async fn cause(
    server: &Server,
    asked: &Asked,
    cause: Option<Revision>,
) -> Result<Value, Error> {
    let Some(revision) = cause else { return Ok(Value::Null) };
    let mut told = json!({"revision": revision.0});
    let (oldest, newest) = moment::window(&*server.store);
    if revision < oldest || revision > newest {
        return Ok(told);
    }
    let all = KeyRange::all();
    let changes = server.store.changes(&all, revision.before(), revision).await;
    let changes = changes.map_err(store_failure)?;
    let Some(batch) = changes.batches.iter().find(|batch| batch.revision == revision) else {
        return Ok(told);
    };
    for change in &batch.changes {
        let Some(place) = place::of_key(server, &change.key) else { continue };
        if place.authorize(server, &asked.user, "get").is_err() {
            continue;
        }
        told["time"] = json!(moment::text(batch.provenance.time));
        told["user"] = json!(&*batch.provenance.actor);
        told["manager"] = json!(&*batch.provenance.manager);
        told["object"] = reference(&place);
        break;
    }
    Ok(told)
}

/// Names an object.
pub fn reference(place: &Place) -> Value {
    let mut reference = json!({
        "apiVersion": place.resource.api_version(), "kind": place.resource.kind,
        "name": place.target.name,
    });
    if place.resource.namespaced {
        reference["namespace"] = json!(place.target.namespace);
    }
    reference
}
