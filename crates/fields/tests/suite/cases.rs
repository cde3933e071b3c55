//! The behaviour of server-side apply, as data: `cases/*.yaml`.
//!
//! Each case names the clause that it shows. A case has one of these:
//! - `fields: V`, `is: PATHS`: the fields of a configuration;
//! - `compare: [V, V]`, `removed|modified|added: PATHS`;
//! - `merge: [LIVE, CONFIG]`, `is: V`;
//! - `remove|extract: V`, `paths: PATHS`, `is: V`;
//! - `check: V`, `error: TEXT`, `duplicates: allowed`;
//! - `codec: TEXT`, `is: PATHS` or `error: TEXT`, `wire: TEXT` where it is not written as read;
//! - `left: PATHS`, `op: NAME`, `right: PATHS`, `is: PATHS`: algebra of sets;
//! - `steps: [..]`, `object: V`, `managed: {OWNER: PATHS}`, `times: {OWNER: STEP}`: writes in turn.
//!
//! A step is `by: MANAGER` and one of `apply`, `force`, `update`, `patch: V`; it may say `version`,
//! `sub`, `fails: TEXT`, `changed: BOOL`, and what becomes of the resource before it. An owner is
//! `name`, and then, where it is so, `update`, its version if not v1, and `/subresource`.

use std::fmt::Write;

use crate::support::{Things, schemas, set};
use fields::{
    Fields, Force, Managed, OpenApi, Operation, Request, Set, apply, strip, update,
    walk::{
        compare::compare,
        fields_of::fields_of,
        merge::merge,
        remove::{extract, remove},
        validate::{Duplicates, check},
    },
};
use serde_json::{Map, Value, json};

/// Fewer means that a file was not read.
const CASES_MIN: usize = 300;

#[test]
fn every_case_holds() {
    let document = schemas();
    let mut count = 0;
    let mut failures = String::new();
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cases");
    for file in std::fs::read_dir(directory).unwrap() {
        let path = file.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if name == "schemas.yaml" {
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let cases: Vec<Value> = serde_saphyr::from_str(&text).unwrap_or_else(|error| {
            panic!("{name}: {error}");
        });
        for case in &cases {
            count += 1;
            assert!(case["clause"].is_string(), "{name}: {} names no clause", case["case"]);
            if let Err(failure) = run(document, case) {
                writeln!(failures, "{name}: {}\n{failure}\n", case["case"]).unwrap();
            }
        }
    }
    assert!(failures.is_empty(), "{failures}");
    assert!(count >= CASES_MIN, "only {count} cases");
}

fn run(document: &Value, case: &Value) -> Result<(), String> {
    let schema = case["of"].as_str().unwrap_or("Thing");
    let shape = OpenApi::within(document, &document[schema]);
    let paths = |name: &str| set(case[name].as_str().unwrap_or_default());
    if let Some(value) = case.get("fields") {
        return same_set("fields", &fields_of(shape, value), &paths("is"));
    }
    if let Some([left, right]) = case["compare"].as_array().map(Vec::as_slice) {
        let found = compare(shape, left, right);
        same_set("removed", &found.removed, &paths("removed"))?;
        same_set("modified", &found.modified, &paths("modified"))?;
        return same_set("added", &found.added, &paths("added"));
    }
    if let Some([live, config]) = case["merge"].as_array().map(Vec::as_slice) {
        let mut merged = live.clone();
        merge(shape, &mut merged, config);
        return same_value("merged", &merged, &case["is"]);
    }
    if let Some(value) = case.get("remove") {
        return same_value("left", &remove(shape, value.clone(), &paths("paths")), &case["is"]);
    }
    if let Some(value) = case.get("extract") {
        return same_value("extracted", &extract(shape, value, &paths("paths")), &case["is"]);
    }
    if let Some(value) = case.get("check") {
        let duplicates = match case["duplicates"].as_str() {
            Some("allowed") => Duplicates::Allowed,
            _ => Duplicates::Refused,
        };
        let error = check(shape, value, duplicates).err().map_or(Value::Null, Value::from);
        return same_value("error", &error, &case["error"]);
    }
    if let Some(text) = case["codec"].as_str() {
        return run_codec(text, case);
    }
    if let Some(left) = case["left"].as_str() {
        return run_algebra(&set(left), &paths("right"), case);
    }
    Run::new(document, schema, case).run(case)
}

fn run_codec(text: &str, case: &Value) -> Result<(), String> {
    let read = match Set::from_json(text) {
        Ok(read) => read,
        Err(error) => {
            let wanted = case["error"].as_str().unwrap_or("no error");
            let found = error.to_string();
            return found.contains(wanted).then_some(()).ok_or(found);
        }
    };
    if case.get("error").is_some() {
        return Err("it was read".to_owned());
    }
    same_set("read", &read, &set(case["is"].as_str().unwrap()))?;
    let wire = case["wire"].as_str().unwrap_or(text);
    same_value("written", &read.to_json().into(), &wire.into())?;
    let value: Value = serde_json::from_str(wire).unwrap();
    same_value("as a value", &read.to_value(), &value)
}

fn run_algebra(left: &Set, right: &Set, case: &Value) -> Result<(), String> {
    let found = match case["op"].as_str().unwrap() {
        "union" => left.clone().union(right),
        "intersection" => left.intersection(right),
        "difference" => left.clone().difference(right),
        "recursive difference" => left.clone().recursive_difference(right),
        "leaves" => left.leaves(),
        "within" => {
            return same_value("within", &left.is_within(right).into(), &case["is"]);
        }
        other => panic!("no operation {other}"),
    };
    same_set("result", &found, &set(case["is"].as_str().unwrap()))
}

fn same_set(what: &str, found: &Set, wanted: &Set) -> Result<(), String> {
    let shown = |set: &Set| set.to_string().replace('\n', " ");
    if found == wanted {
        return Ok(());
    }
    Err(format!("  {what}: {}\n  wanted: {}", shown(found), shown(wanted)))
}

fn same_value(what: &str, found: &Value, wanted: &Value) -> Result<(), String> {
    if found == wanted { Ok(()) } else { Err(format!("  {what}: {found}\n  wanted: {wanted}")) }
}

/// Writes in turn to one object.
struct Run<'a> {
    things: Things<'a>,
    live: Option<Value>,
}

impl<'a> Run<'a> {
    fn new(document: &'a Value, schema: &str, case: &Value) -> Run<'a> {
        let mut run = Run { things: Things::new(document, schema), live: None };
        run.become_as(case);
        run
    }

    fn become_as(&mut self, says: &Value) {
        if let Value::Object(versions) = &says["versions"] {
            let text = |schema: &Value| schema.as_str().unwrap().to_owned();
            self.things.versions =
                versions.iter().map(|(name, schema)| (name.clone(), text(schema))).collect();
        }
        if let Some(renames) = says.get("renames") {
            self.things.renames = serde_json::from_value(renames.clone()).unwrap();
        }
        if let Value::Object(reset) = &says["reset"] {
            let text = |paths: &Value| set(paths.as_str().unwrap());
            self.things.reset =
                reset.iter().map(|(sub, paths)| (sub.clone(), text(paths))).collect();
        }
        if let Some(empty) = says.get("empty") {
            self.things.empty = empty.clone();
        }
        self.things.broken = says["broken"].as_str().map(str::to_owned);
    }

    fn run(mut self, case: &Value) -> Result<(), String> {
        for (at, step) in case["steps"].as_array().unwrap().iter().enumerate() {
            self.become_as(step);
            self.step(at + 1, step).map_err(|error| format!("  step {}: {error}", at + 1))?;
        }
        let live = self.live.clone().unwrap_or(Value::Null);
        if let Some(wanted) = case.get("object") {
            let mut object = live.clone();
            strip(&mut object);
            let fields = object.as_object_mut().unwrap();
            fields.remove("apiVersion");
            fields.remove("kind");
            let metadata = fields["metadata"].as_object_mut().unwrap();
            metadata.remove("name");
            if metadata.is_empty() {
                fields.remove("metadata");
            }
            same_value("object", &object, wanted)?;
        }
        let managed = Managed::of_request(&live).map_err(|error| error.to_string())?;
        if let Value::Object(wanted) = &case["managed"] {
            let found: Vec<(String, Set)> = managed
                .entries
                .iter()
                .map(|entry| (owner(entry), entry.fields.set().unwrap()))
                .collect();
            let names: Vec<&str> = found.iter().map(|(name, _)| name.as_str()).collect();
            let mut sorted = names.clone();
            sorted.sort_unstable();
            let owners: Vec<&str> = wanted.keys().map(String::as_str).collect();
            if sorted != owners {
                return Err(format!("  owners: {names:?}\n  wanted: {owners:?}"));
            }
            for (name, fields) in &found {
                same_set(name, fields, &set(wanted[name].as_str().unwrap()))?;
            }
        }
        if let Some(wanted) = case.get("order") {
            let names: Vec<String> = managed.entries.iter().map(owner).collect();
            same_value("order", &json!(names), wanted)?;
        }
        if let Value::Object(wanted) = &case["times"] {
            for entry in &managed.entries {
                let Some(step) = wanted.get(&owner(entry)) else { continue };
                let time = step.as_u64().map(|step| Value::from(time(step as usize)));
                let found = entry.time.clone().map_or(Value::Null, Value::from);
                same_value("time", &found, &time.unwrap_or(Value::Null))?;
            }
        }
        Ok(())
    }

    fn step(&mut self, at: usize, step: &Value) -> Result<(), String> {
        let time = time(at);
        let request = Request {
            manager: step["by"].as_str().unwrap_or_default(),
            api_version: step["version"].as_str().unwrap_or("v1"),
            subresource: step["sub"].as_str().unwrap_or_default(),
            time: &time,
        };
        let done = self.write(step, &request);
        let (object, changed) = match (done, step["fails"].as_str()) {
            (Ok(done), None) => done,
            (Ok(_), Some(_)) => return Err("it did not fail".to_owned()),
            (Err(error), None) => return Err(error),
            (Err(error), Some(wanted)) => {
                return same_value("error", &error.into(), &wanted.into());
            }
        };
        if let (Some(wanted), Some(changed)) = (step.get("changed"), changed) {
            same_value("changed", &changed.into(), wanted)?;
        }
        self.live = Some(object);
        Ok(())
    }

    fn write(&self, step: &Value, request: &Request<'_>) -> Result<(Value, Option<bool>), String> {
        let live = match &self.live {
            None => None,
            Some(live) if live["apiVersion"] == request.api_version => Some(live.clone()),
            Some(live) => {
                let converted = fields::Resource::convert(&self.things, live, request.api_version)?;
                Some(converted.into_owned())
            }
        };
        let live = live.as_ref();
        for (name, force) in [("apply", Force::No), ("force", Force::Yes)] {
            let Some(config) = step.get(name) else { continue };
            let config = whole(config, request);
            let once = apply(&self.things, live, &config, request, force)
                .map_err(|error| error.to_string())?;
            let again = Request { time: "2099-01-01T00:00:00Z", ..*request };
            let twice = apply(&self.things, Some(&once.object), &config, &again, force)
                .map_err(|error| format!("again: {error}"))?;
            same_value("applied again", &twice.object, &once.object)?;
            return Ok((once.object, Some(once.changed)));
        }
        let mut new = match (step.get("update"), step.get("patch")) {
            (Some(object), None) => whole(object, request),
            (None, Some(patch)) => {
                let mut object = live.unwrap().clone();
                merge_patch(&mut object, patch);
                object
            }
            _ => panic!("a step is one write"),
        };
        update(&self.things, live, &mut new, request).map_err(|error| error.to_string())?;
        if live.is_none() {
            self.same_the_long_way(&new, request)?;
        }
        Ok((new, None))
    }

    /// What is written in one walk on creation is what comparing gives.
    fn same_the_long_way(&self, new: &Value, request: &Request<'_>) -> Result<(), String> {
        let shape = fields::Resource::shape(&self.things, request.api_version).unwrap();
        let mut bare = new.clone();
        strip(&mut bare);
        let mut wanted = compare(shape, &self.things.empty, &bare).changed();
        wanted = wanted.difference(fields::stripped());
        if let Some(reset) = self.things.reset.get(request.subresource) {
            wanted = wanted.recursive_difference(reset);
        }
        let managed = Managed::of_request(new).unwrap();
        match managed.entries.first().map(|entry| &entry.fields) {
            None => same_set("created", &Set::EMPTY, &wanted),
            Some(Fields::Raw(raw)) => same_value("created", raw, &wanted.to_value()),
            Some(Fields::Decoded(set)) => same_set("created", set, &wanted),
        }
    }
}

fn time(step: usize) -> String {
    format!("2024-01-01T00:00:{step:02}Z")
}

fn owner(entry: &fields::Entry) -> String {
    let identity = &entry.identity;
    let mut name = identity.manager.clone();
    if identity.operation == Operation::Update {
        name.push_str(" update");
    }
    if identity.api_version != "v1" {
        name = format!("{name} {}", identity.api_version);
    }
    if !identity.subresource.is_empty() {
        name = format!("{name} /{}", identity.subresource);
    }
    name
}

/// A case says only what it is about.
fn whole(object: &Value, request: &Request<'_>) -> Value {
    let mut object = object.clone();
    let fields = object.as_object_mut().unwrap();
    fields.entry("apiVersion").or_insert_with(|| request.api_version.into());
    fields.entry("kind").or_insert_with(|| "Thing".into());
    let metadata = fields.entry("metadata").or_insert_with(|| Value::Object(Map::new()));
    metadata["name"] = "a".into();
    object
}

fn merge_patch(object: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        *object = patch.clone();
        return;
    };
    if !object.is_object() {
        *object = Value::Object(Map::new());
    }
    let fields = object.as_object_mut().unwrap();
    for (name, value) in patch {
        if value.is_null() {
            fields.remove(name);
        } else {
            merge_patch(fields.entry(name).or_insert(Value::Null), value);
        }
    }
}
