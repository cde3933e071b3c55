//! Discovery: which groups, versions and resources there are, one by one or in one answer.
//!
//! Upstream: apiserver/pkg/endpoints/discovery

use std::sync::Arc;

use http::header::{ETAG, VARY};
use serde_json::{Value, json};

use crate::answer::Answer;
use crate::extension::Extend;
use crate::request::negotiate::{Representation, Stage};
use crate::resources::{Listed, Registry, Resource, Subresource};
use crate::server::Server;
use crate::status::Error;

/// Everything that is served.
struct Served<'a> {
    registry: &'a Registry,
    /// Who else in this process answers for a group.
    extensions: Vec<Arc<dyn Extend>>,
}

impl Served<'_> {
    /// Groups and their versions, those of others last.
    fn groups(&self) -> Vec<(String, Vec<String>)> {
        let mut groups = self.registry.groups();
        let others = self.extensions.iter();
        groups.extend(others.map(|one| (one.group().to_owned(), vec![one.version().to_owned()])));
        groups
    }

    fn extension(&self, group: &str, version: &str) -> Option<&dyn Extend> {
        let mut all = self.extensions.iter().map(|one| &**one);
        all.find(|one| one.group() == group && one.version() == version)
    }
}

/// `/api`, `/apis` and what is below them.
pub fn of(
    server: &Server,
    group: Option<&str>,
    version: Option<&str>,
    representation: Representation,
) -> Result<Answer, Error> {
    let extensions = server.beside.extensions();
    answer(&Served { registry: &server.registry.now(), extensions }, group, version, representation)
}

fn answer(
    served: &Served<'_>,
    group: Option<&str>,
    version: Option<&str>,
    representation: Representation,
) -> Result<Answer, Error> {
    if let (Representation::AggregatedDiscovery { stage }, None) = (representation, version)
        && group.is_none_or(str::is_empty)
    {
        return Ok(aggregated(served, group.is_some(), stage));
    }
    match (group, version) {
        (None, _) => Ok(Answer::value(200, &group_list(served))),
        (Some(""), None) => Ok(Answer::value(200, &legacy_versions())),
        (Some(group), None) => one_group(served, group),
        (Some(group), Some(version)) => one_version(served, group, version),
    }
}

fn legacy_versions() -> Value {
    json!({
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [],
    })
}

fn group_list(served: &Served<'_>) -> Value {
    let groups = served.groups();
    let named = groups.iter().filter(|(group, _)| !group.is_empty());
    let groups: Vec<_> = named.map(|(group, versions)| describe_group(group, versions)).collect();
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
}

fn describe_group(group: &str, versions: &[String]) -> Value {
    let describe = |version: &String| {
        let group_version = format!("{group}/{version}");
        json!({"groupVersion": group_version, "version": version})
    };
    json!({
        "name": group,
        "versions": versions.iter().map(describe).collect::<Vec<_>>(),
        "preferredVersion": versions.first().map(describe),
    })
}

fn one_group(served: &Served<'_>, group: &str) -> Result<Answer, Error> {
    let groups = served.groups();
    let found = groups.iter().find(|(known, _)| known == group);
    let (group, versions) = found.ok_or_else(Error::no_such_resource)?;
    let mut description = describe_group(group, versions);
    description["kind"] = json!("APIGroup");
    description["apiVersion"] = json!("v1");
    Ok(Answer::value(200, &description))
}

fn one_version(served: &Served<'_>, group: &str, version: &str) -> Result<Answer, Error> {
    let (registry, part) = (served.registry, served.extension(group, version));
    if part.is_none() && !registry.has_group_version(group, version) {
        return Err(Error::no_such_resource());
    }
    let mut resources = Vec::new();
    for offered in part.map(Extend::offers).unwrap_or_default() {
        resources.push(json!({
            "name": format!("{}/{}", offered.resource, offered.subresource),
            "singularName": "", "namespaced": true, "kind": offered.kind, "verbs": offered.verbs,
        }));
    }
    for resource in registry.all().filter(|one| one.group == group && one.version == version) {
        resources.push(describe_resource(resource));
        for subresource in &resource.subresources {
            resources.push(describe_subresource(resource, subresource));
        }
    }
    resources.extend(listed(registry, group, version).map(describe_listed));
    let group_version =
        if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
    Ok(Answer::value(
        200,
        &json!({
            "kind": "APIResourceList",
            "apiVersion": "v1",
            "groupVersion": group_version,
            "resources": resources,
        }),
    ))
}

/// What is no resource and is listed with them.
fn listed<'a>(
    registry: &Registry,
    group: &'a str,
    version: &'a str,
) -> impl Iterator<Item = &'static Listed> + use<'a> {
    let is_there = move |one: &&Listed| one.group == group && one.version == version;
    registry.listed().iter().filter(is_there)
}

fn describe_listed(listed: &Listed) -> Value {
    json!({
        "name": listed.plural,
        "singularName": listed.plural,
        "namespaced": true,
        "kind": listed.kind,
        "verbs": listed.verbs,
    })
}

fn describe_resource(resource: &Resource) -> Value {
    let mut description = json!({
        "name": resource.plural,
        "singularName": resource.singular,
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": resource.verbs,
    });
    if !resource.short_names.is_empty() {
        description["shortNames"] = json!(resource.short_names);
    }
    if !resource.categories.is_empty() {
        description["categories"] = json!(resource.categories);
    }
    description
}

fn describe_subresource(resource: &Resource, subresource: &Subresource) -> Value {
    let mut description = json!({
        "name": format!("{}/{}", resource.plural, subresource.name),
        "singularName": "",
        "namespaced": resource.namespaced,
        "kind": subresource.kind,
        "verbs": subresource.verbs,
    });
    if (&subresource.group, &subresource.version) != (&resource.group, &resource.version) {
        description["group"] = json!(subresource.group);
        description["version"] = json!(subresource.version);
    }
    description
}

fn aggregated(served: &Served<'_>, legacy: bool, stage: Stage) -> Answer {
    let mut items = Vec::new();
    for (group, versions) in served.groups() {
        if group.is_empty() != legacy {
            continue;
        }
        let describe = |version: &String| match served.extension(&group, version) {
            Some(part) => aggregated_part(part),
            None => aggregated_version(served.registry, &group, version),
        };
        let versions: Vec<_> = versions.iter().map(describe).collect();
        let mut metadata = json!({"creationTimestamp": null});
        if !group.is_empty() {
            metadata["name"] = json!(group);
        }
        items.push(json!({"metadata": metadata, "versions": versions}));
    }
    let version = match stage {
        Stage::Stable => "v2",
        Stage::Beta => "v2beta1",
    };
    let document = json!({
        "kind": "APIGroupDiscoveryList",
        "apiVersion": format!("apidiscovery.k8s.io/{version}"),
        "metadata": {},
        "items": items,
    });
    let body = document.to_string();
    let tag = format!("\"{:016X}\"", fingerprint(body.as_bytes()));
    // The client takes the answer for the old form unless the type is echoed.
    let content_type = match stage {
        Stage::Stable => "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
        Stage::Beta => "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList",
    };
    Answer::of(200, content_type, body).with(ETAG, tag).with(VARY, "Accept")
}

fn aggregated_version(registry: &Registry, group: &str, version: &str) -> Value {
    let served = registry.all().filter(|one| one.group == group && one.version == version);
    let listed = listed(registry, group, version).map(aggregated_listed);
    let resources: Vec<_> =
        served.map(|resource| aggregated_resource(resource)).chain(listed).collect();
    json!({"version": version, "freshness": "Current", "resources": resources})
}

/// A part has no objects of its own, only something of those of others.
fn aggregated_part(part: &dyn Extend) -> Value {
    let (group, version) = (part.group(), part.version());
    let mut resources: Vec<Value> = Vec::new();
    for offered in part.offers() {
        let described = json!({
            "subresource": offered.subresource,
            "responseKind": kind_of(group, version, offered.kind),
            "verbs": offered.verbs,
        });
        match resources.last_mut() {
            Some(last) if last["resource"] == offered.resource => {
                if let Some(all) = last["subresources"].as_array_mut() {
                    all.push(described);
                }
            }
            _ => resources.push(json!({
                "resource": offered.resource, "responseKind": kind_of("", "", ""),
                "scope": "Namespaced", "singularResource": "", "verbs": null,
                "subresources": [described],
            })),
        }
    }
    json!({"version": version, "freshness": "Current", "resources": resources})
}

fn aggregated_listed(listed: &Listed) -> Value {
    json!({
        "resource": listed.plural,
        "responseKind": kind_of(listed.group, listed.version, listed.kind),
        "scope": "Namespaced",
        "singularResource": listed.plural,
        "verbs": listed.verbs,
    })
}

fn aggregated_resource(resource: &Resource) -> Value {
    let mut description = json!({
        "resource": resource.plural,
        "responseKind": kind_of(&resource.group, &resource.version, &resource.kind),
        "scope": if resource.namespaced { "Namespaced" } else { "Cluster" },
        "singularResource": resource.singular,
        "verbs": resource.verbs,
    });
    if !resource.short_names.is_empty() {
        description["shortNames"] = json!(resource.short_names);
    }
    if !resource.categories.is_empty() {
        description["categories"] = json!(resource.categories);
    }
    if !resource.subresources.is_empty() {
        let describe = |one: &Subresource| {
            json!({
                "subresource": one.name,
                "responseKind": kind_of(&one.group, &one.version, &one.kind),
                "verbs": one.verbs,
            })
        };
        description["subresources"] = resource.subresources.iter().map(describe).collect();
    }
    description
}

fn kind_of(group: &str, version: &str, kind: &str) -> Value {
    json!({"group": group, "version": version, "kind": kind})
}

/// A hash for entity tags (FNV-1a): equal documents have equal tags, which is all that is asked.
pub fn fingerprint(bytes: &[u8]) -> u64 {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, step)
}

/// Every path that is told of at the root.
pub fn paths(server: &Server) -> Vec<String> {
    let mut paths = vec!["/api".to_owned(), "/api/v1".to_owned(), "/apis".to_owned()];
    for (group, versions) in server.registry.now().groups() {
        if group.is_empty() {
            continue;
        }
        paths.push(format!("/apis/{group}"));
        paths.extend(versions.iter().map(|version| format!("/apis/{group}/{version}")));
    }
    let others =
        ["/debug/tasks", "/healthz", "/livez", "/metrics", "/openapi/v3", "/readyz", "/version"];
    paths.extend(others.map(str::to_owned));
    paths.sort();
    paths
}
