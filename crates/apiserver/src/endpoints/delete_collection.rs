//! DELETE of a collection: what a list finds, deleted one by one.

use std::sync::Arc;

use serde_json::{Value, json};
use store::Entry;

use super::Request;
use super::delete::{DeleteOptions, delete_object};
use super::list::{find, list_metadata};
use super::saved::Saved;
use super::selection::Selection;
use crate::answer::Answer;
use crate::object;
use crate::persist::stored;
use crate::server::Server;
use crate::status::Error;

/// Deletions that run together.
const TOGETHER_MAX: usize = 64;

pub async fn delete_collection(server: &Server, request: &Request) -> Result<Answer, Error> {
    let options = DeleteOptions::of(request)?;
    let selection = Selection::parse(&request.options, &request.resource)?;
    let found = find(server, request, &selection).await?;
    let is_told = !request.carried.wants_object();
    let mut items: Vec<Value> = Vec::new();
    // Together, so that they share the store's syncs.
    for entries in found.entries.chunks(TOGETHER_MAX) {
        let mut running = Vec::with_capacity(entries.len());
        for entry in entries {
            running.push(delete_one(server, request, &options, entry));
        }
        for deleted in futures::future::join_all(running).await {
            items.extend(deleted?.filter(|_| is_told).map(Saved::into_value));
        }
    }
    if request.carried.wants_object() {
        // A part of this program knows what it deleted; it asks whether there is more.
        let list = json!({"metadata": list_metadata(&found)});
        return Ok(Answer::handed(200, (Arc::new(list), found.revision.0)));
    }
    let resource = &request.resource;
    Ok(Answer::value(
        200,
        &json!({
            "kind": resource.list_kind,
            "apiVersion": resource.api_version(),
            "metadata": list_metadata(&found),
            "items": items,
        }),
    ))
}

/// `None` if it went in another way meanwhile.
async fn delete_one(
    server: &Server,
    request: &Request,
    options: &DeleteOptions,
    entry: &Entry,
) -> Result<Option<Saved>, Error> {
    let object = stored(entry).object(entry.modified);
    let mut one = request.clone();
    one.options.dry_run |= options.dry_run;
    one.target.name = object::name(&object).to_owned();
    one.target.namespace = object::namespace(&object).to_owned();
    // The one that was found, not one of the same name made since.
    let options = DeleteOptions { uid: Some(object::uid(&object).into()), ..options.clone() };
    match delete_object(server, &one, &options).await {
        Ok(deleted) => Ok(Some(deleted)),
        Err(error) if error.code == 404 || error.code == 409 => Ok(None),
        Err(error) => Err(error),
    }
}
