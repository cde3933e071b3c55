//! GET of one object: the stored bytes, with their revision put in.

use super::Request;
use super::list::revision_for;
use super::representations::{metadata_only, table_of_object};
use crate::answer::Answer;
use crate::conversion;
use crate::history::redact;
use crate::persist::stored;
use crate::request::negotiate::{Encoding, Representation};
use crate::request::options::Freshness;
use crate::server::{Server, store_failure};
use crate::status::Error;

pub async fn get(server: &Server, request: &Request) -> Result<Answer, Error> {
    let resource = &request.resource;
    let target = &request.target;
    let freshness = match request.options.named_revision()? {
        None => Freshness::Newest,
        Some(0) => Freshness::Any,
        Some(revision) => Freshness::NotOlderThan(revision),
    };
    let at = match request.options.past {
        Some(past) => Some(past.revision),
        None => revision_for(server, freshness).await?,
    };
    let key = resource.key(&target.namespace, &target.name)?;
    let entry = server.store.get(&key, at).await.map_err(store_failure)?;
    let entry = entry.ok_or_else(|| Error::not_found(resource.about(), &target.name))?;
    let mut entry = conversion::served_entry(resource, entry).await?;
    if request.options.past.is_some() {
        entry = redact::entry(resource, entry);
    }
    let stored = stored(&entry);
    if let Representation::Object(Encoding::Json) = request.representation {
        return Ok(Answer::json(200, stored.json(entry.modified)));
    }
    Ok(represent(server, request, 200, &stored.object(entry.modified)))
}

/// An object in the representation that was asked for.
pub fn represent(
    server: &Server,
    request: &Request,
    code: u16,
    object: &serde_json::Value,
) -> Answer {
    match request.representation {
        Representation::Table { stage, .. } => {
            Answer::value(code, &table_of_object(request, object, stage, request.now(server)))
        }
        Representation::Metadata { stage, .. } => {
            Answer::value(code, &metadata_only(object, stage))
        }
        _ => Answer::value(code, object),
    }
}
