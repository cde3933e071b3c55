//! `plan`: what a set of objects would change, and where its pods would go. Nothing is written.

use std::collections::BTreeSet;
use std::sync::Arc;

use http::request::Parts;
use http::{HeaderValue, Method, header};
use serde_json::{Value, json};
use store::PageRequest;

use super::foresight::{self, Around, Refusal, Wanted, WhatIf};
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
/// Metadata that only the server sets.
const SERVER_FIELDS: [&str; 8] = [
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "generation",
    "managedFields",
    "resourceVersion",
    "selfLink",
    "uid",
];
/// Whose apply is tried.
const MANAGER: &str = "setpoint";
const DEFAULT_NAMESPACE: &str = "default";
/// Whose runtimes jobs are made with.
const RUNTIMES: &str = "trainer.kubeflow.org/";
/// Said of what could not be tried.
const EARLY: &str = "what it needs would be made with it, so admission was not asked";
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
    let mut names = Vec::new();
    let known = Known { what_if: what_if.clone(), ..Known::default() };
    let mut wanted = Wanted { what_if, ..Wanted::default() };
    let planned = all(server, (parts, &asked), (&namespace, known), objects).await?;
    let mut told = Vec::new();
    for Planned { told: line, after, pods, groups } in planned {
        told.push(line);
        wanted.groups.extend(groups);
        wanted.claims.extend(after.filter(is_claim));
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

/// What the objects of one plan find that is not there yet.
#[derive(Default)]
struct Known {
    /// Namespaces that would be made.
    namespaces: BTreeSet<String>,
    /// What operators read of others, as it would be.
    read: Vec<Value>,
    /// Names of runtimes that would be made.
    runtimes: BTreeSet<String>,
    /// Nodes that are tried out.
    what_if: WhatIf,
}

impl Known {
    fn take(&mut self, planned: &Planned) {
        let Some(after) = &planned.after else { return };
        let is_new = planned.told["action"] == "create";
        let name = object::name(after).to_owned();
        match rank(after) {
            0 if is_new => drop(self.namespaces.insert(name)),
            1 if !is_claim(after) => {
                self.read.push(after.clone());
                self.runtimes.extend(is_new.then_some(name));
            }
            _ => {}
        }
    }

    /// Whether something needs what is not there yet, so that it cannot be tried.
    fn is_early(&self, place: &Place, wanted: &Value) -> bool {
        let runtime = wanted["spec"]["runtimeRef"]["name"].as_str().unwrap_or_default();
        let is_job = wanted["apiVersion"].as_str().is_some_and(|text| text.starts_with(RUNTIMES));
        self.namespaces.contains(&place.target.namespace)
            || is_job && self.runtimes.contains(runtime)
    }
}

/// What others need comes first, in whatever order the file has them.
fn rank(object: &Value) -> u8 {
    let kind = object["kind"].as_str().unwrap_or_default();
    match object["apiVersion"].as_str().unwrap_or_default() {
        "v1" if kind == "Namespace" => 0,
        version if version.starts_with(RUNTIMES) && kind.ends_with("TrainingRuntime") => 1,
        _ if is_claim(object) => 1,
        _ => 2,
    }
}

fn is_claim(object: &Value) -> bool {
    object["apiVersion"] == "v1" && object["kind"] == "PersistentVolumeClaim"
}

/// Plans the objects, each with those that it needs known; answers in their order.
async fn all(
    server: &Arc<Server>,
    asked: (&Parts, &Asked),
    (namespace, mut known): (&str, Known),
    objects: Vec<Value>,
) -> Result<Vec<Planned>, Error> {
    let mut order: Vec<(usize, Value)> = objects.into_iter().enumerate().collect();
    order.sort_by_key(|(at, object)| (rank(object), *at));
    let mut planned = Vec::new();
    for (at, object) in order {
        let one = one(server, asked, (namespace, &known), object).await?;
        known.take(&one);
        planned.push((at, one));
    }
    planned.sort_by_key(|(at, _)| *at);
    Ok(planned.into_iter().map(|(_, one)| one).collect())
}

/// What is planned of one object.
struct Planned {
    told: Value,
    /// As it would be, where that is known.
    after: Option<Value>,
    pods: Pods,
    /// PodGroups that would come with it, or that it is.
    groups: Vec<Value>,
}

async fn one(
    server: &Arc<Server>,
    (parts, asked): (&Parts, &Asked),
    (namespace, known): (&str, &Known),
    mut wanted: Value,
) -> Result<Planned, Error> {
    let mut told = json!({"object": named(&wanted, namespace), "changes": []});
    let mut invalid = |message: String| {
        told["action"] = json!("invalid");
        told["message"] = json!(message);
        let (told, pods) = (told.clone(), Pods::default());
        Ok(Planned { told, after: None, pods, groups: Vec::new() })
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
    let is_early = known.is_early(&place, &wanted);
    let after = match is_early {
        true => early(&place, &wanted),
        false => dry_run(server, (parts, asked), &place, &wanted).await,
    };
    let after = match after {
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
    let Made { mut pods, mut groups } = made(server, known, &before, &after).await;
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
    told["message"] = json!(match (is_early, pods.message.as_str()) {
        (false, message) => message.to_owned(),
        (true, "") => EARLY.to_owned(),
        (true, message) => format!("{message}; {EARLY}"),
    });
    if before.is_null() {
        told["wanted"] = redact::object(&place.resource, wanted);
    }
    Ok(Planned { told, after: Some(after), pods, groups })
}

/// An object that cannot be tried before others are there: with its defaults, judged by its kind
/// alone.
fn early(place: &Place, wanted: &Value) -> Result<Value, Error> {
    let strategy = place.resource.strategy();
    let mut after = wanted.clone();
    strategy.default(&mut after);
    let errors = strategy.validate(&after);
    match errors.is_empty() {
        true => Ok(after),
        false => {
            let (kind, group) = (&place.resource.kind, &place.resource.group);
            Err(Error::invalid(kind, group, &place.target.name, &errors))
        }
    }
}

/// What pods are made of an object, by whoever makes them.
struct Made {
    pods: Pods,
    groups: Vec<Value>,
}

async fn made(server: &Server, known: &Known, before: &Value, after: &Value) -> Made {
    let plain = |message: String| {
        let pods = pods::of(before, after);
        let message = if message.is_empty() { pods.message.clone() } else { message };
        Made { pods: Pods { message, ..pods }, groups: Vec::new() }
    };
    let Some(foresight) = server.beside.foresight() else { return plain(String::new()) };
    if after["spec"]["suspend"] == true {
        return Made { pods: Pods::default(), groups: Vec::new() };
    }
    let of = async |object: &Value, what_if: &WhatIf| match object.is_null() {
        true => Ok(Some(foresight::Made::default())),
        false => foresight.made_of(object, Around { read: &known.read, what_if }).await,
    };
    let old = of(before, &WhatIf::default()).await;
    let (old, new) = match (old, of(after, &known.what_if).await) {
        (_, Ok(None)) => return plain(String::new()),
        (_, Err(why)) => return plain(format!("its pods are not known: {why}")),
        (old, Ok(Some(new))) => (old.ok().flatten().unwrap_or_default(), new),
    };
    let pods = Pods { message: new.note, ..Pods::default() };
    let mut made = Made { pods, groups: Vec::new() };
    for object in new.objects {
        if is_group(&object) {
            made.groups.push(object);
            continue;
        }
        let same = |one: &&Value| {
            one["kind"] == object["kind"] && object::name(one) == object::name(&object)
        };
        let old = old.objects.iter().find(same);
        let pods = pods::made_of(old.unwrap_or(&Value::Null), &object);
        if pods.is_anew && pods::is_left(after) {
            made.pods.message = pods::LEFT.to_owned();
            continue;
        }
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
        None => {
            objects.iter_mut().for_each(drop_server_fields);
            Ok(objects)
        }
    }
}

/// Removes what the server sets, so that the output of `kubectl get -o yaml` can be planned.
fn drop_server_fields(object: &mut Value) {
    if let Some(fields) = object.as_object_mut() {
        fields.remove("status");
    }
    if let Some(metadata) = object["metadata"].as_object_mut() {
        SERVER_FIELDS.iter().for_each(|field| drop(metadata.remove(*field)));
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
