//! Discovery: which groups, versions and resources there are, one by one or in one answer.
//!
//! Upstream: apiserver/pkg/endpoints/discovery

use http::header::{ETAG, VARY};
use serde_json::{Value, json};

use crate::answer::Answer;
use crate::request::negotiate::Representation;
use crate::resources::{Listed, Registry, Resource, Subresource};
use crate::status::Error;

/// `/api`, `/apis` and what is below them.
pub fn answer(
    registry: &Registry,
    group: Option<&str>,
    version: Option<&str>,
    representation: Representation,
) -> Result<Answer, Error> {
    if let (Representation::AggregatedDiscovery { beta }, None) = (representation, version)
        && group.is_none_or(str::is_empty)
    {
        return Ok(aggregated(registry, group.is_some(), beta));
    }
    match (group, version) {
        (None, _) => Ok(Answer::value(200, &group_list(registry))),
        (Some(""), None) => Ok(Answer::value(200, &legacy_versions())),
        (Some(group), None) => one_group(registry, group),
        (Some(group), Some(version)) => one_version(registry, group, version),
    }
}

fn legacy_versions() -> Value {
    json!({
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [],
    })
}

fn group_list(registry: &Registry) -> Value {
    let groups = registry.groups();
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

fn one_group(registry: &Registry, group: &str) -> Result<Answer, Error> {
    let groups = registry.groups();
    let found = groups.iter().find(|(known, _)| known == group);
    let (group, versions) = found.ok_or_else(Error::no_such_resource)?;
    let mut description = describe_group(group, versions);
    description["kind"] = json!("APIGroup");
    description["apiVersion"] = json!("v1");
    Ok(Answer::value(200, &description))
}

fn one_version(registry: &Registry, group: &str, version: &str) -> Result<Answer, Error> {
    if !registry.has_group_version(group, version) {
        return Err(Error::no_such_resource());
    }
    let mut resources = Vec::new();
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

fn aggregated(registry: &Registry, legacy: bool, beta: bool) -> Answer {
    let mut items = Vec::new();
    for (group, versions) in registry.groups() {
        if group.is_empty() != legacy {
            continue;
        }
        let describe = |version: &String| aggregated_version(registry, &group, version);
        let versions: Vec<_> = versions.iter().map(describe).collect();
        let mut metadata = json!({"creationTimestamp": null});
        if !group.is_empty() {
            metadata["name"] = json!(group);
        }
        items.push(json!({"metadata": metadata, "versions": versions}));
    }
    let version = if beta { "v2beta1" } else { "v2" };
    let document = json!({
        "kind": "APIGroupDiscoveryList",
        "apiVersion": format!("apidiscovery.k8s.io/{version}"),
        "metadata": {},
        "items": items,
    });
    let body = document.to_string();
    let tag = format!("\"{:016X}\"", fingerprint(body.as_bytes()));
    // The client takes the answer for the old form unless the type is echoed.
    let content_type = if beta {
        "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList"
    } else {
        "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
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
