//! Objects as something else: tables, metadata only.

use std::sync::Arc;

use serde_json::{Value, json};
use store::{Entry, Revision};

use super::Request;
use super::list::{Found, head, items, list_metadata};
use crate::answer::Answer;
use crate::conversion;
use crate::persist::{EventType, Stored, stored};
use crate::registry::custom;
use crate::request::negotiate::{Representation, Stage};
use crate::request::options::IncludeObject;
use crate::status::Error;
use crate::table::{self, LastingRow};

/// The metadata of an object, as an object of its own.
pub fn metadata_only(object: &Value, stage: Stage) -> Value {
    json!({
        "kind": "PartialObjectMetadata",
        "apiVersion": meta_version(stage),
        "metadata": object["metadata"],
    })
}

fn meta_version(stage: Stage) -> &'static str {
    match stage {
        Stage::Stable => "meta.k8s.io/v1",
        Stage::Beta => "meta.k8s.io/v1beta1",
    }
}

pub fn metadata_of_list(found: Found, stage: Stage) -> Answer {
    let head = head("PartialObjectMetadataList", meta_version(stage), &found);
    items(head, found.entries, move |entry, out| write_metadata(entry, stage, out))
}

fn write_metadata(entry: &Entry, stage: Stage, out: &mut Vec<u8>) {
    write_metadata_of(stored(entry), entry.modified, stage, out);
}

pub fn write_metadata_of(stored: &Stored, revision: Revision, stage: Stage, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"kind\":\"PartialObjectMetadata\",\"apiVersion\":\"");
    out.extend_from_slice(meta_version(stage).as_bytes());
    out.extend_from_slice(b"\",\"metadata\":");
    stored.write_metadata(revision, out);
    out.push(b'}');
}

pub fn table_of_list(request: &Request, found: Found, stage: Stage, now: i64) -> Answer {
    let mut head = table(request, list_metadata(&found), Vec::new(), stage).to_string();
    // The rows are its last member.
    head.truncate(head.len() - "]}".len());
    let resource = &request.resource;
    let printer = table::printer(&resource.group, &resource.kind);
    let include = request.options.include_object;
    let version = resource.custom().cloned();
    items(head, found.entries, move |entry, out| {
        out.push(b'{');
        match &version {
            Some(version) => custom_row(version, entry, now).write(out),
            None => write_row(printer, entry, now, out),
        }
        out.extend_from_slice(b",\"object\":");
        match include {
            IncludeObject::None => out.extend_from_slice(b"null"),
            IncludeObject::Metadata => write_metadata(entry, stage, out),
            IncludeObject::Object => stored(entry).write(entry.modified, out),
        }
        out.push(b'}');
    })
}

fn write_row(printer: &'static table::Printer, entry: &Entry, now: i64, out: &mut Vec<u8>) {
    let stored = stored(entry);
    match stored.row(|object| LastingRow::of(printer, object, now)) {
        Some(row) => row.write(now, out),
        None => printer.row(&stored.object(entry.modified), now).write(out),
    }
}

/// A row as a definition wants it.
fn custom_row(version: &custom::Version, entry: &Entry, now: i64) -> table::Row {
    let object = stored(entry).object(entry.modified);
    table::Row { cells: custom::columns::cells(version, &object, now), conditions: Vec::new() }
}

pub fn table_of_object(request: &Request, object: &Value, stage: Stage, now: i64) -> Value {
    let metadata = json!({"resourceVersion": object["metadata"]["resourceVersion"]});
    table(request, metadata, vec![row(request, object, stage, now)], stage)
}

fn table(request: &Request, metadata: Value, rows: Vec<Value>, stage: Stage) -> Value {
    json!({
        "kind": "Table",
        "apiVersion": meta_version(stage),
        "metadata": metadata,
        "columnDefinitions": column_definitions(request),
        "rows": rows,
    })
}

fn column_definitions(request: &Request) -> Vec<Value> {
    let resource = &request.resource;
    if let Some(version) = resource.custom() {
        return custom::columns::definitions(version);
    }
    let columns = table::columns(&resource.group, &resource.kind);
    let describe = |column: &table::Column| {
        json!({
            "name": column.name,
            "type": column.type_,
            "format": column.format,
            "description": column.description,
            "priority": column.priority,
        })
    };
    columns.iter().map(describe).collect()
}

fn row(request: &Request, object: &Value, stage: Stage, now: i64) -> Value {
    let resource = &request.resource;
    let row = match resource.custom() {
        Some(version) => table::Row {
            cells: custom::columns::cells(version, object, now),
            conditions: Vec::new(),
        },
        None => table::row(&resource.group, &resource.kind, object, now),
    };
    let mut line = json!({"cells": row.cells});
    if !row.conditions.is_empty() {
        line["conditions"] = json!(row.conditions);
    }
    match request.options.include_object {
        IncludeObject::None => line["object"] = Value::Null,
        IncludeObject::Metadata => line["object"] = metadata_only(object, stage),
        IncludeObject::Object => line["object"] = object.clone(),
    }
    line
}

/// Encodes the events of one watch.
pub struct EventEncoder {
    request: Request,
    now: i64,
    /// Columns are described once.
    is_first: bool,
    /// The revision of the initial events, until their end is told.
    pub initial_events_end: Option<Revision>,
}

impl EventEncoder {
    pub fn of(request: &Request, now: i64) -> Result<EventEncoder, Error> {
        let request = request.clone();
        Ok(EventEncoder { request, now, is_first: true, initial_events_end: None })
    }

    /// The entry as this request is to see it.
    pub async fn served(&self, entry: &Arc<Entry>) -> Result<Arc<Entry>, Error> {
        conversion::served_entry(&self.request.resource, entry.clone()).await
    }

    pub fn encode(
        &mut self,
        kind: EventType,
        entry: &Entry,
        revision: Revision,
        out: &mut Vec<u8>,
    ) {
        match self.request.representation {
            Representation::Object(_) => {
                stored(entry).write_event(kind, revision, out);
            }
            Representation::Metadata { stage, .. } => {
                write_event_head(kind, out);
                write_metadata_of(stored(entry), revision, stage, out);
                out.extend_from_slice(b"}\n");
            }
            _ => self.represent(kind, entry, revision, out),
        }
    }

    /// An object that was there before the watch began.
    pub fn initial(&mut self, entry: &Entry, out: &mut Vec<u8>) {
        self.encode(EventType::Added, entry, entry.modified, out);
    }

    fn represent(&mut self, kind: EventType, entry: &Entry, revision: Revision, out: &mut Vec<u8>) {
        let object = stored(entry).object(revision);
        let object = match self.request.representation {
            Representation::Table { stage, .. } => {
                let mut table = table_of_object(&self.request, &object, stage, self.now);
                if !std::mem::take(&mut self.is_first) {
                    table["columnDefinitions"] = Value::Null;
                }
                table
            }
            _ => object,
        };
        write_event(kind.name(), &object, out);
    }

    /// How far the watch is; the one that ends the initial events says so.
    pub fn bookmark(&mut self, revision: Revision, ends_initial_events: bool, out: &mut Vec<u8>) {
        let resource = &self.request.resource;
        let mut metadata = json!({"resourceVersion": revision.to_string()});
        if ends_initial_events {
            metadata["annotations"] = json!({"k8s.io/initial-events-end": "true"});
        }
        let object = match self.request.representation {
            Representation::Metadata { stage, .. } => json!({
                "kind": "PartialObjectMetadata",
                "apiVersion": meta_version(stage),
                "metadata": metadata,
            }),
            Representation::Table { stage, .. } => {
                let object = json!({"metadata": metadata});
                let mut table = table_of_object(&self.request, &object, stage, self.now);
                table["columnDefinitions"] = Value::Null;
                table["rows"] = json!([{"cells": [], "object": metadata_only(&object, stage)}]);
                table
            }
            _ => json!({
                "kind": resource.kind, "apiVersion": resource.api_version(), "metadata": metadata
            }),
        };
        write_event("BOOKMARK", &object, out);
    }
}

pub fn write_event_head(kind: EventType, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"type\":\"");
    out.extend_from_slice(kind.name().as_bytes());
    out.extend_from_slice(b"\",\"object\":");
}

fn write_event(kind: &str, object: &Value, out: &mut Vec<u8>) {
    let event = json!({"type": kind, "object": object});
    out.extend_from_slice(event.to_string().as_bytes());
    out.push(b'\n');
}
