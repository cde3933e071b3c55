//! The operations of a resource: what can be asked, with which options.
//!
//! kubectl looks here whether the server checks fields itself and can do a dry run: a `patch` of
//! the kind that takes `fieldValidation` says so.

use serde_json::{Value, json};

use super::schemas::schema_name;
use crate::resources::{Resource, Subresource};

/// An option: its name, its type and what it is for.
type Parameter = (&'static str, &'static str, &'static str);

const PRETTY: Parameter = ("pretty", "string", "Indent the answer for people.");
const DRY_RUN: Parameter = ("dryRun", "string", "All does everything but the write.");
const OF_WRITES: [Parameter; 3] = [
    DRY_RUN,
    ("fieldManager", "string", "Who owns the fields that are written."),
    (
        "fieldValidation",
        "string",
        "What to do about unknown and repeated fields: Ignore, Warn or Strict.",
    ),
];
const FORCE: Parameter = ("force", "boolean", "Take fields that others own, when applying.");
const OF_DELETES: [Parameter; 4] = [
    DRY_RUN,
    ("gracePeriodSeconds", "integer", "How long the object has to end by itself."),
    ("orphanDependents", "boolean", "The old form of propagationPolicy."),
    ("propagationPolicy", "string", "What happens to what belongs to it."),
];
const OF_LISTS: [Parameter; 10] = [
    ("allowWatchBookmarks", "boolean", "Whether a watch says from time to time how far it is."),
    ("continue", "string", "Where the page before has ended."),
    ("fieldSelector", "string", "Which objects, by their fields."),
    ("labelSelector", "string", "Which objects, by their labels."),
    ("limit", "integer", "How many objects a page has at most."),
    ("resourceVersion", "string", "Which revision the answer is of, or not older than."),
    (
        "resourceVersionMatch",
        "string",
        "How the answer relates to the revision: Exact, NotOlderThan.",
    ),
    ("sendInitialEvents", "boolean", "Whether a watch begins with what exists."),
    ("timeoutSeconds", "integer", "How long a watch lasts at most."),
    ("watch", "boolean", "Follow changes instead of listing."),
];

const READS: [&str; 2] = ["application/json", "application/yaml"];
const PATCHES: [&str; 4] = [
    "application/apply-patch+yaml",
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
];
/// Nobody knows how lists of custom kinds merge: kubectl must not try.
const CUSTOM_PATCHES: &[&str] = PATCHES.split_at(3).0;

/// Verb, method, and what upstream calls the action.
const OF_COLLECTION: [(&str, &str, &str); 3] = [
    ("list", "get", "list"),
    ("create", "post", "post"),
    ("deletecollection", "delete", "deletecollection"),
];
const OF_ITEM: [(&str, &str, &str); 4] = [
    ("get", "get", "get"),
    ("update", "put", "put"),
    ("patch", "patch", "patch"),
    ("delete", "delete", "delete"),
];

/// What an operation reads and writes.
struct Thing<'a> {
    group: &'a str,
    version: &'a str,
    kind: &'a str,
    /// Where its schema is; none for what is only options.
    schema: Option<&'a str>,
    /// How it may be patched.
    patches: &'static [&'static str],
}

pub fn describe(resource: &Resource, paths: &mut Value) {
    let base = match resource.group.as_str() {
        "" => format!("/api/{}", resource.version),
        group => format!("/apis/{group}/{}", resource.version),
    };
    let everywhere = format!("{base}/{}", resource.plural);
    let collection = match resource.namespaced {
        true => format!("{base}/namespaces/{{namespace}}/{}", resource.plural),
        false => everywhere.clone(),
    };
    let item = format!("{collection}/{{name}}");
    let name = schema_name(resource);
    let patches = match resource.custom() {
        Some(_) => CUSTOM_PATCHES,
        None => &PATCHES,
    };
    let thing = Thing {
        patches,
        group: &resource.group,
        version: &resource.version,
        kind: &resource.kind,
        schema: Some(&name),
    };
    let serves = |verb: &str| resource.serves(verb);
    if resource.namespaced {
        add(paths, &everywhere, &thing, &OF_COLLECTION[..1], serves);
    }
    add(paths, &collection, &thing, &OF_COLLECTION, serves);
    add(paths, &item, &thing, &OF_ITEM, serves);
    for subresource in &resource.subresources {
        describe_subresource(paths, &item, subresource, (&name, patches));
    }
}

fn describe_subresource(
    paths: &mut Value,
    item: &str,
    subresource: &Subresource,
    (whole, patches): (&str, &'static [&'static str]),
) {
    let is_whole = subresource.name == "status";
    let thing = Thing {
        group: &subresource.group,
        version: &subresource.version,
        kind: &subresource.kind,
        schema: match subresource.type_id {
            Some(id) => Some(id.get().name),
            None => is_whole.then_some(whole),
        },
        patches,
    };
    let path = format!("{item}/{}", subresource.name);
    let serves = |verb: &str| subresource.verbs.contains(&verb);
    add(paths, &path, &thing, &OF_ITEM, serves);
    add(paths, &path, &thing, &OF_COLLECTION[1..2], serves);
}

fn add(
    paths: &mut Value,
    path: &str,
    thing: &Thing<'_>,
    verbs: &[(&str, &str, &str)],
    serves: impl Fn(&str) -> bool,
) {
    let served = verbs.iter().filter(|(verb, _, _)| serves(verb));
    for (verb, method, action) in served {
        if paths.get(path).is_none() {
            paths[path] = json!({"parameters": of_path(path)});
        }
        paths[path][method] = operation(path, thing, verb, action);
    }
}

/// The parts of a path that stand for something.
fn of_path(path: &str) -> Vec<Value> {
    let mut parameters = Vec::new();
    for (name, text) in
        [("name", "The name of the object."), ("namespace", "The namespace of the object.")]
    {
        if path.contains(&format!("{{{name}}}")) {
            parameters.push(json!({
                "name": name, "in": "path", "required": true, "description": text,
                "schema": {"type": "string", "uniqueItems": true},
            }));
        }
    }
    parameters.push(parameter(&PRETTY));
    parameters
}

fn parameter((name, kind, text): &Parameter) -> Value {
    let schema = json!({"type": kind, "uniqueItems": true});
    json!({"name": name, "in": "query", "description": text, "schema": schema})
}

fn operation(path: &str, thing: &Thing<'_>, verb: &str, action: &str) -> Value {
    let parameters: Vec<Parameter> = match verb {
        "create" | "update" => OF_WRITES.to_vec(),
        "patch" => [&OF_WRITES[..], &[FORCE]].concat(),
        "delete" => OF_DELETES.to_vec(),
        "deletecollection" => [&OF_LISTS[..], &OF_DELETES].concat(),
        "list" => OF_LISTS.to_vec(),
        _ => Vec::new(),
    };
    let schema = match thing.schema {
        Some(name) => json!({"$ref": format!("#/components/schemas/{name}")}),
        None => json!({}),
    };
    let content = |types: &[&str], schema: &Value| -> Value {
        types.iter().map(|name| ((*name).to_owned(), json!({"schema": schema}))).collect()
    };
    let mut operation = json!({
        "description": format!("{verb} {}", thing.kind),
        // The path makes it unique.
        "operationId": format!("{verb}{}", path.replace(['/', '{', '}', '.', '-'], "_")),
        "parameters": parameters.iter().map(parameter).collect::<Vec<_>>(),
        "responses": {"200": {"description": "OK", "content": content(&READS, &schema)}},
        "x-kubernetes-action": action,
        "x-kubernetes-group-version-kind": {
            "group": thing.group, "version": thing.version, "kind": thing.kind,
        },
    });
    match verb {
        "create" | "update" => {
            operation["requestBody"] = json!({"content": content(&READS, &schema)})
        }
        "patch" => {
            let any = json!({"type": "object"});
            operation["requestBody"] =
                json!({"content": content(thing.patches, &any), "required": true});
        }
        _ => {}
    }
    operation
}
