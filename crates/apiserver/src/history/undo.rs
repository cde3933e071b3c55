//! `undo/{path}`: writes an earlier specification of an object again, as a change like any other.
//!
//! What was is not rewritten: the undoing is a new revision that passes admission. Labels and
//! annotations come back with the specification; the status does not, nor what controllers count.

use std::sync::Arc;

use http::request::Parts;
use http::{HeaderValue, Method, header};
use serde_json::{Map, Value, json};
use store::Revision;

use super::place::Place;
use super::revisions::{newest, object_of};
use super::{Asked, diff, redact};
use crate::answer::{Answer, Content};
use crate::endpoints::update::update;
use crate::object;
use crate::request::options::Options;
use crate::server::{Server, store_failure};
use crate::status::Error;

/// Who owns what is written back, unless the client says otherwise.
const MANAGER: &str = "setpoint-undo";
/// Changes that are looked through for the last one that somebody wanted.
const LOOKED_MAX: usize = 1_000;
/// How often it is written when its status moves on.
const TRIES_MAX: u32 = 8;
/// Annotations that controllers keep for themselves.
const KEPT: [&str; 2] = ["deployment.kubernetes.io/", "control-plane.alpha.kubernetes.io/"];

pub async fn answer(
    server: &Arc<Server>,
    parts: &Parts,
    rest: &str,
    asked: Asked,
) -> Result<Answer, Error> {
    let place = Place::one(server, rest)?;
    place.authorize_question(server, &asked, ("create", "undo"))?;
    place.authorize(server, &asked.user, "get")?;
    place.authorize(server, &asked.user, "update")?;
    let query = parts.uri.query().unwrap_or_default();
    let mut options = Options::parse_as(query, "UpdateOptions")?;
    if options.field_manager.is_empty() {
        options.field_manager = MANAGER.to_owned();
    }
    let since = place.since(server, &asked.user, "get").await?;
    let mut current = current_of(server, &place, since).await?;
    let (revision, earlier) = match asked.number("to")? {
        Some(to) => (Revision(to), at(server, &place, (since, Revision(to))).await?),
        None => before_last(server, &place, since).await?,
    };
    let is_dry = options.dry_run;
    let mut inner = parts.clone();
    inner.method = Method::PUT;
    inner.headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    inner.headers.remove(header::ACCEPT);
    let mut tries = TRIES_MAX;
    let written = loop {
        tries -= 1;
        let body = merged(&current, &earlier).to_string().into();
        let asked = Asked { body, ..asked.clone() };
        let about = ("update", place.target.clone());
        let request = server.understand(&inner, about, options.clone(), asked.into())?;
        match update(server, &request).await {
            Ok(written) => break body_of(written)?,
            Err(error) => {
                let refused = refused(error, (&place.target.name, revision));
                let newer = current_of(server, &place, since).await?;
                let changes = diff::of(&place.resource, &current, &newer);
                // A status that moved on meanwhile is no reason not to do what was asked.
                let is_other = changes.iter().any(diff::Change::is_wanted);
                if refused.code != 409 || is_other || tries == 0 {
                    return Err(refused);
                }
                current = newer;
            }
        }
    };
    let resource = &place.resource;
    let changes = diff::of(resource, &current, &written);
    let mut written = redact::object(resource, written);
    let is_same = changes.iter().all(|change| !change.is_wanted());
    if is_dry || is_same {
        written["changes"] = changes.iter().map(diff::Change::to_json).collect();
    }
    Ok(Answer::value(200, &written))
}

/// The object as it is.
async fn current_of(server: &Server, place: &Place, since: Revision) -> Result<Value, Error> {
    let current = server.store.get(&place.key()?, None).await.map_err(store_failure)?;
    match current {
        Some(current) => object_of(place, Some(&current)).await,
        None => Err(gone(server, place, since).await?),
    }
}

/// The whole body of an answer.
pub fn body_of(answer: Answer) -> Result<Value, Error> {
    let Content::Whole(bytes) = &answer.body else {
        return Err(Error::internal("an object was answered in pieces"));
    };
    serde_json::from_slice(bytes).map_err(Error::internal)
}

/// What to say of an object that is no more.
async fn gone(server: &Server, place: &Place, since: Revision) -> Result<Error, Error> {
    let about = place.resource.about();
    let name = &place.target.name;
    let found = newest(server, place, (since, None), 1).await?;
    let missing = Error::not_found(about, name);
    Ok(match found.batches.back() {
        None => missing,
        Some((batch, _)) => {
            let (deleted, last) = (batch.revision, batch.revision.before());
            let kind = place.resource.kind.to_lowercase();
            let message = format!(
                "{}: it was deleted at revision {deleted}, and undo changes only what is there; to \
                 make it again, save what `setpoint get {kind}/{name} --at {last} -o yaml` prints \
                 and apply it",
                missing.message
            );
            Error { message, ..missing }
        }
    })
}

/// The object at a revision.
async fn at(
    server: &Server,
    place: &Place,
    (since, revision): (Revision, Revision),
) -> Result<Value, Error> {
    let revision = super::moment::resolve(server, super::moment::Moment::At(revision)).await?;
    let entry = match revision < since {
        true => None,
        false => server.store.get(&place.key()?, Some(revision)).await.map_err(store_failure)?,
    };
    if entry.is_none() {
        let missing = Error::not_found(place.resource.about(), &place.target.name);
        let message = format!("{} at revision {revision}", missing.message);
        return Err(Error { message, ..missing });
    }
    object_of(place, entry.as_ref()).await
}

/// The object before the last change that somebody wanted.
async fn before_last(
    server: &Server,
    place: &Place,
    since: Revision,
) -> Result<(Revision, Value), Error> {
    let found = newest(server, place, (since, None), LOOKED_MAX).await?;
    for (_, change) in found.batches.iter().rev() {
        let (Some(previous), Some(entry)) = (&change.previous, &change.entry) else { break };
        let before = object_of(place, Some(previous)).await?;
        let after = object_of(place, Some(entry)).await?;
        let wanted = merged(&after, &before);
        let changes = diff::of(&place.resource, &after, &wanted);
        if changes.iter().any(diff::Change::is_wanted) {
            return Ok((previous.modified, before));
        }
    }
    let text = format!(
        "{} {:?} has no earlier form in the history that is kept; `setpoint history` lists what \
         there is, and --to names a revision",
        place.resource.kind, place.target.name
    );
    Err(Error::bad_request(text))
}

/// An object with what was wanted of it earlier.
fn merged(current: &Value, earlier: &Value) -> Value {
    let empty = Map::new();
    let earlier = earlier.as_object().unwrap_or(&empty);
    let mut object = earlier.clone();
    for kept in ["apiVersion", "kind", "metadata", "status"] {
        object.remove(kept);
        if let Some(value) = current.get(kept) {
            object.insert(kept.to_owned(), value.clone());
        }
    }
    let mut object = Value::Object(object);
    let before = earlier.get("metadata").unwrap_or(&Value::Null);
    let is_kept = |key: &str| KEPT.iter().any(|prefix| key.starts_with(prefix));
    for field in ["labels", "annotations"] {
        let texts = |of: &Value| of[field].as_object().cloned().unwrap_or_default();
        let now = texts(&current["metadata"]);
        let mut then = texts(before);
        then.retain(|key, _| !is_kept(key));
        then.extend(now.into_iter().filter(|(key, _)| is_kept(key)));
        match then.is_empty() {
            true => drop(object::remove_meta(&mut object, field)),
            false => object::set_meta(&mut object, field, json!(then)),
        }
    }
    object::remove_meta(&mut object, "managedFields");
    if let Some(owners) = current["metadata"].get("managedFields") {
        object::set_meta(&mut object, "managedFields", owners.clone());
    }
    object
}

fn refused(error: Error, (name, revision): (&str, Revision)) -> Error {
    let remedy = match error.code {
        422 => {
            "; what cannot be changed in place comes back with a new object: delete this one and \
             apply what `setpoint get --at` prints of the earlier"
        }
        _ => "",
    };
    let message = format!(
        "what {name} was at revision {revision} could not be written back: {}{remedy}",
        error.message
    );
    Error { message, ..error }
}
