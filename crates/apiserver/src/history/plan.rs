//! `plan`: what a set of objects would change, and where its pods would go. Nothing is written.

use std::sync::Arc;

use http::request::Parts;
use http::{HeaderValue, Method, header};
use serde_json::{Value, json};
use store::PageRequest;

use super::foresight::{Refusal, Wanted, WhatIf};
use super::place::Place;
use super::pods::{self, Pods};
use super::{Asked, GROUP, VERSION, diff, redact, undo};
use crate::answer::Answer;
use crate::endpoints::patch::patch;
use crate::object;
use crate::persist::stored;
use crate::request::options::Options;
use crate::request::path::Target;
use crate::server::{Server, store_failure};
use crate::status::Error;

/// Objects of one plan.
const OBJECTS_MAX: usize = 500;
/// Pods that places are looked for at once.
const PODS_MAX: usize = 2_000;
/// Nodes that can be added to try things out.
const NODES_MAX: usize = 1_000;
/// Whose apply is tried.
const MANAGER: &str = "setpoint";
const DEFAULT_NAMESPACE: &str = "default";
/// What may stand between an object and its pods, from above.
const OWNERS: [&str; 8] = [
    "dynamocomponentdeployments",
    "jobsets",
    "leaderworkersets",
    "deployments",
    "jobs",
    "replicasets",
    "statefulsets",
    "pods",
];

pub async fn answer(server: &Arc<Server>, parts: &Parts, asked: Asked) -> Result<Answer, Error> {
    let what_if = what_if(asked.option("whatIf").unwrap_or_default())?;
    let objects = read(&asked.body)?;
    let namespace = asked.option("namespace").unwrap_or(DEFAULT_NAMESPACE).to_owned();
    let mut told = Vec::new();
    let mut wanted = Wanted { what_if, ..Wanted::default() };
    let mut names = Vec::new();
    for object in objects {
        let planned = one(server, (parts, &asked), &namespace, object).await;
        let Planned { told: line, pods, groups } = planned?;
        told.push(line);
        wanted.groups.extend(groups);
        names.extend(pods.pods.iter().map(|pod| object::name(pod).to_owned()));
        wanted.pods.extend(pods.pods);
        wanted.replaced.extend(pods.replaced);
    }
    let surplus = wanted.pods.len().saturating_sub(PODS_MAX);
    wanted.pods.truncate(PODS_MAX);
    let mut plan = json!({
        "kind": "Plan", "apiVersion": format!("{GROUP}/{VERSION}"), "objects": told,
    });
    plan["placements"] = match (server.beside.foresight(), wanted.pods.is_empty()) {
        (_, true) => json!([]),
        (None, false) => {
            plan["message"] = json!("no scheduler runs in this process, so places are not known");
            json!([])
        }
        (Some(foresight), false) => {
            let placed = foresight.place(wanted).await.map_err(Error::internal)?;
            let tell = |(pod, placement): (String, super::foresight::Placement)| {
                let refusals: Vec<Value> =
                    placement.refusals.iter().map(Refusal::to_json).collect();
                json!({"pod": pod, "node": placement.node, "verdicts": refusals})
            };
            names.into_iter().zip(placed).map(tell).collect()
        }
    };
    if surplus > 0 {
        plan["message"] = json!(format!("places of {surplus} pods more were not looked for"));
    }
    Ok(Answer::value(200, &plan))
}

/// What is planned of one object.
struct Planned {
    told: Value,
    pods: Pods,
    /// PodGroups that would come with it, or that it is.
    groups: Vec<Value>,
}

async fn one(
    server: &Arc<Server>,
    (parts, asked): (&Parts, &Asked),
    namespace: &str,
    mut wanted: Value,
) -> Result<Planned, Error> {
    let mut told = json!({"object": named(&wanted, namespace), "changes": []});
    let mut invalid = |message: String| {
        told["action"] = json!("invalid");
        told["message"] = json!(message);
        Ok(Planned { told: told.clone(), pods: Pods::default(), groups: Vec::new() })
    };
    let place = match place(server, &mut wanted, namespace) {
        Ok(place) => place,
        Err(error) => return invalid(error.message),
    };
    place.authorize_question(server, asked, ("create", "plan"))?;
    place.authorize(server, &asked.user, "get")?;
    place.authorize(server, &asked.user, "patch")?;
    let current = server.store.get(&place.key()?, None).await.map_err(store_failure)?;
    if current.is_none() {
        let target = Target { name: String::new(), ..place.target.clone() };
        let new = Place { resource: place.resource.clone(), target };
        new.authorize(server, &asked.user, "create")?;
    }
    let before = super::revisions::object_of(&place, current.as_ref()).await?;
    let after = match dry_run(server, (parts, asked), &place, &wanted).await {
        Ok(after) => after,
        Err(error) => return invalid(error.message),
    };
    let mut changes = diff::of(&place.resource, &before, &after);
    changes.retain(diff::Change::is_wanted);
    let action = match (before.is_null(), changes.is_empty()) {
        (true, _) => "create",
        (false, true) => "unchanged",
        (false, false) => "update",
    };
    let Made { mut pods, mut groups } = made(server, &before, &after).await;
    if is_group(&after) {
        groups.push(after.clone());
    }
    if pods.is_anew {
        pods.replaced = owned_pods(server, &before).await?;
    }
    if before.is_null() {
        changes.clear();
    }
    told["object"] = super::revisions::reference(&place);
    told["action"] = json!(action);
    told["changes"] = changes.iter().map(diff::Change::to_json).collect();
    told["message"] = json!(pods.message);
    if before.is_null() {
        told["wanted"] = redact::object(&place.resource, wanted);
    }
    Ok(Planned { told, pods, groups })
}

/// What pods are made of an object, by whoever makes them.
struct Made {
    pods: Pods,
    groups: Vec<Value>,
}

async fn made(server: &Server, before: &Value, after: &Value) -> Made {
    let plain = |message: String| {
        let pods = pods::of(before, after);
        let message = if message.is_empty() { pods.message.clone() } else { message };
        Made { pods: Pods { message, ..pods }, groups: Vec::new() }
    };
    let Some(foresight) = server.beside.foresight() else { return plain(String::new()) };
    if after["spec"]["suspend"] == true {
        return Made { pods: Pods::default(), groups: Vec::new() };
    }
    let of = async |object: &Value| match object.is_null() {
        true => Ok(Some(Vec::new())),
        false => foresight.made_of(object).await,
    };
    let (old, new) = match (of(before).await, of(after).await) {
        (_, Ok(None)) => return plain(String::new()),
        (_, Err(why)) => return plain(format!("its pods are not known: {why}")),
        (old, Ok(Some(new))) => (old.ok().flatten().unwrap_or_default(), new),
    };
    let mut made = Made { pods: Pods::default(), groups: Vec::new() };
    for object in new {
        if is_group(&object) {
            made.groups.push(object);
            continue;
        }
        let same = |one: &&Value| {
            one["kind"] == object["kind"] && object::name(one) == object::name(&object)
        };
        let pods = pods::of(old.iter().find(same).unwrap_or(&Value::Null), &object);
        made.pods.pods.extend(pods.pods);
        made.pods.is_anew |= pods.is_anew;
    }
    made
}

fn is_group(object: &Value) -> bool {
    object["kind"] == "PodGroup"
}

fn named(wanted: &Value, namespace: &str) -> Value {
    let said = object::namespace(wanted);
    json!({
        "apiVersion": wanted["apiVersion"], "kind": wanted["kind"], "name": object::name(wanted),
        "namespace": if said.is_empty() { namespace } else { said },
    })
}

/// Where an object belongs.
fn place(server: &Server, wanted: &mut Value, namespace: &str) -> Result<Place, Error> {
    let text = |field: &str| wanted[field].as_str().unwrap_or_default().to_owned();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version.as_str()));
    let registry = server.registry.now();
    let is_it = |one: &&Arc<crate::resources::Resource>| {
        one.group == group && one.version == version && one.kind == kind
    };
    let Some(resource) = registry.all().find(is_it).cloned() else {
        let text = format!("the cluster does not serve {kind:?} of {api_version:?}");
        return Err(Error::bad_request(text));
    };
    let name = object::name(wanted).to_owned();
    if name.is_empty() {
        return Err(Error::bad_request("metadata.name is missing"));
    }
    let mut target = Target {
        group: group.to_owned(),
        version: version.to_owned(),
        resource: resource.plural.clone(),
        name,
        ..Default::default()
    };
    if resource.namespaced {
        if object::namespace(wanted).is_empty() {
            object::set_meta(wanted, "namespace", namespace);
        }
        target.namespace = object::namespace(wanted).to_owned();
    }
    Ok(Place { resource, target })
}

/// What an apply would make of it.
async fn dry_run(
    server: &Arc<Server>,
    (parts, asked): (&Parts, &Asked),
    place: &Place,
    wanted: &Value,
) -> Result<Value, Error> {
    let mut inner = parts.clone();
    inner.method = Method::PATCH;
    let apply = HeaderValue::from_static("application/apply-patch+yaml");
    inner.headers.insert(header::CONTENT_TYPE, apply);
    inner.headers.remove(header::ACCEPT);
    let query = format!("dryRun=All&force=true&fieldManager={MANAGER}");
    let options = Options::parse_as(&query, "PatchOptions")?;
    let asked = Asked { body: wanted.to_string().into(), ..asked.clone() };
    let target = place.target.clone();
    let request = server.understand(&inner, ("patch", target), options, asked.into())?;
    undo::body_of(patch(server, &request).await?)
}

/// The uids of the pods that an object has, through any owner in between.
async fn owned_pods(server: &Server, owner: &Value) -> Result<Vec<String>, Error> {
    let namespace = object::namespace(owner);
    let registry = server.registry.now();
    let mut owned = vec![object::uid(owner).to_owned()];
    let mut pods = Vec::new();
    // Twice: of sets of groups every leader, a pod, has a set of its own.
    for plural in OWNERS.iter().chain(&OWNERS) {
        let is_it = |one: &&Arc<crate::resources::Resource>| one.plural == *plural;
        let Some(resource) = registry.all().find(is_it) else { continue };
        let page = server.store.list(&resource.range(namespace), PageRequest::all(), None).await;
        for entry in page.map_err(store_failure)?.entries {
            let object = stored(&entry).object(entry.modified);
            let uid = object::uid(&object).to_owned();
            let references = object["metadata"]["ownerReferences"].as_array();
            let is_owned = references
                .into_iter()
                .flatten()
                .any(|reference| owned.iter().any(|owner| reference["uid"] == owner.as_str()));
            if !is_owned || owned.contains(&uid) {
                continue;
            }
            if *plural == "pods" {
                pods.push(uid.clone());
            }
            owned.push(uid);
        }
    }
    Ok(pods)
}

/// The objects of a body: documents of YAML or JSON, or lists of them.
fn read(body: &[u8]) -> Result<Vec<Value>, Error> {
    let text = std::str::from_utf8(body).map_err(|_| Error::bad_request("the body is no text"))?;
    let documents: Vec<Value> = serde_saphyr::from_multiple(text)
        .map_err(|error| Error::bad_request(format!("the body is no YAML or JSON: {error}")))?;
    let mut objects = Vec::new();
    for mut document in documents {
        let is_list = document["kind"].as_str().is_none_or(|kind| kind.ends_with("List"));
        match (document.get_mut("items").map(Value::take), document) {
            (Some(Value::Array(items)), _) if is_list => objects.extend(items),
            (_, Value::Array(items)) => objects.extend(items),
            (_, Value::Null) => {}
            (_, object) => objects.push(object),
        }
    }
    if objects.is_empty() || objects.len() > OBJECTS_MAX {
        let text = format!("there are {} objects; give 1 to {OBJECTS_MAX}", objects.len());
        return Err(Error::bad_request(text));
    }
    match objects.iter().position(|object| !object.is_object()) {
        Some(at) => Err(Error::bad_request(format!("item {at} is no object"))),
        None => Ok(objects),
    }
}

/// Reads `nodes=+2,nvidia.com/gpu=8`.
fn what_if(text: &str) -> Result<WhatIf, Error> {
    let wrong = |part: &str| {
        let text = format!("whatIf has {part:?}; expected nodes=+N or RESOURCE=QUANTITY");
        Error::bad_request(text)
    };
    let mut what_if = WhatIf::default();
    for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
        let (name, value) = part.split_once('=').ok_or_else(|| wrong(part))?;
        if name == "nodes" {
            let number = value.trim_start_matches(['+', ' ']);
            let number = number.parse().ok().filter(|number| *number <= NODES_MAX);
            what_if.nodes = number.ok_or_else(|| wrong(part))?;
            continue;
        }
        if name.is_empty() || crate::quantity::rewritten(value).is_err() {
            return Err(wrong(part));
        }
        what_if.resources.insert(name.to_owned(), value.to_owned());
    }
    // Who says what a node has means one more of it.
    if what_if.nodes == 0 && !what_if.resources.is_empty() {
        what_if.nodes = 1;
    }
    Ok(what_if)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_if_names_nodes_and_what_they_have() {
        let read = what_if("nodes=+2,nvidia.com/gpu=8").unwrap();
        assert_eq!((read.nodes, read.resources["nvidia.com/gpu"].as_str()), (2, "8"));
        assert_eq!(what_if("cpu=64").unwrap().nodes, 1);
        assert_eq!(what_if("").unwrap(), WhatIf::default());
        for wrong in ["nodes", "nodes=many", "nodes=5000", "cpu=x", "=1"] {
            assert_eq!(what_if(wrong).expect_err(wrong).code, 400);
        }
    }

    #[test]
    fn a_body_is_documents_or_lists() {
        assert_eq!(read(b"kind: A\n---\nkind: B\n").unwrap().len(), 2);
        assert_eq!(read(br#"{"kind":"List","items":[{"kind":"A"}]}"#).unwrap().len(), 1);
        assert_eq!(read(br#"[{"kind":"A"},{"kind":"B"}]"#).unwrap().len(), 2);
        for wrong in [&b""[..], b"a: [", b"- 5", b"\xff"] {
            assert_eq!(read(wrong).expect_err("refused").code, 400);
        }
    }
}
