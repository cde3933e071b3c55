//! `changes?after=REVISION`: all changes of the window, page by page, for exports.

use std::sync::Arc;

use serde_json::{Value, json};
use store::{Batch, Change, KeyRange, Revision};

use super::place;
use super::{Asked, GROUP, VERSION, moment, redact};
use crate::answer::Answer;
use crate::persist::stored;
use crate::rbac::Attributes;
use crate::server::{Server, store_failure};
use crate::status::Error;

/// Revisions in one page.
const PAGE_REVISIONS: usize = 1_000;

pub async fn answer(server: &Arc<Server>, asked: &Asked) -> Result<Answer, Error> {
    let attributes =
        Attributes { verb: "get", group: GROUP, resource: "changes", ..Default::default() };
    server.decide(&asked.user, &attributes)?;
    let (oldest, newest) = moment::window(&*server.store);
    let after = Revision(asked.number("after")?.unwrap_or(0)).max(oldest.before());
    let to = asked.number("to")?.map_or(newest, Revision).min(newest);
    let mut items = Vec::new();
    let mut through = after;
    while through < to && items.len() < PAGE_REVISIONS {
        let changes = server.store.changes(&KeyRange::all(), through, to).await;
        let changes = changes.map_err(store_failure)?;
        through = changes.through;
        for batch in &changes.batches {
            if items.len() >= PAGE_REVISIONS {
                through = batch.revision.before();
                break;
            }
            items.extend(describe(server, batch));
        }
    }
    let metadata = match through < to {
        true => json!({"continue": through.to_string()}),
        false => json!({}),
    };
    let list = json!({
        "kind": "ChangeList", "apiVersion": format!("{GROUP}/{VERSION}"),
        "metadata": metadata, "items": items,
    });
    Ok(Answer::value(200, &list))
}

fn describe(server: &Server, batch: &Batch) -> Option<Value> {
    let changes: Vec<Value> =
        batch.changes.iter().filter_map(|change| describe_change(server, change)).collect();
    let provenance = &batch.provenance;
    (!changes.is_empty()).then(|| {
        json!({
            "revision": batch.revision.0,
            "time": moment::text(provenance.time),
            "user": &*provenance.actor,
            "manager": &*provenance.manager,
            "request": &*provenance.request,
            "reconcile": &*provenance.reconcile,
            "cause": provenance.cause.map(|cause| cause.0),
            "changes": changes,
        })
    })
}

/// As it is stored; what no kind is for is the server's own.
fn describe_change(server: &Server, change: &Change) -> Option<Value> {
    let place = place::of_key(server, &change.key)?;
    let object = change
        .entry
        .as_ref()
        .map(|entry| redact::object(&place.resource, stored(entry).object(entry.modified)));
    let mut told = super::revisions::reference(&place);
    told["object"] = json!(object);
    Some(told)
}
