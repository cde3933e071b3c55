//! Which resources are served: everything an endpoint needs to know about one.

use std::collections::BTreeMap;
use std::sync::Arc;

use store::{Key, KeyRange};

use crate::conversion::{self, Conversion};
use crate::facts;
use crate::field_ownership::Shape;
use crate::request::path::Target;
use crate::status::{About, Error};

/// A served resource in one version.
#[derive(Clone, Debug)]
pub struct Resource {
    pub group: String,
    pub version: String,
    pub kind: String,
    pub plural: String,
    pub namespaced: bool,
    /// Where its objects are in the store: `pods/`.
    pub prefix: String,
    /// Where what is stored is another version than this.
    pub conversion: Option<Conversion>,
    /// For built-in kinds.
    pub facts: &'static facts::Kind,
}

impl Resource {
    fn builtin(kind: &'static facts::Kind) -> Resource {
        Resource {
            group: kind.group.to_owned(),
            version: kind.version.to_owned(),
            kind: kind.kind.to_owned(),
            plural: kind.plural.to_owned(),
            namespaced: kind.namespaced,
            // Built-in plurals are unique, but for kinds that are one storage in two groups.
            prefix: format!("{}/", kind.plural),
            conversion: conversion::builtin(kind.group, kind.version, kind.kind),
            facts: kind,
        }
    }

    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.clone()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    pub fn about(&self) -> About<'_> {
        About { group: &self.group, resource: &self.plural }
    }

    pub fn serves(&self, verb: &str) -> bool {
        self.facts.verbs.contains(&verb)
    }

    pub fn subresource(&self, name: &str) -> Option<&'static facts::Subresource> {
        self.facts.subresources.iter().find(|one| one.name == name)
    }

    /// How its objects are merged, and so what of them can be owned.
    pub fn shape(&self) -> Shape {
        Shape::of_type(self.facts.type_id)
    }

    /// The key of one object.
    pub fn key(&self, namespace: &str, name: &str) -> Result<Key, Error> {
        let text = if self.namespaced {
            format!("{}{namespace}/{name}", self.prefix)
        } else {
            format!("{}{name}", self.prefix)
        };
        Key::new(text).map_err(|error| Error::bad_request(error.to_string()))
    }

    /// The keys of all objects, or of those in a namespace.
    pub fn range(&self, namespace: &str) -> KeyRange {
        if self.namespaced && !namespace.is_empty() {
            KeyRange::prefix(&format!("{}{namespace}/", self.prefix))
        } else {
            KeyRange::prefix(&self.prefix)
        }
    }

    /// What of a key comes after the prefix: `namespace/name` or `name`.
    pub fn relative<'a>(&self, key: &'a Key) -> &'a str {
        key.as_str().strip_prefix(&self.prefix).unwrap_or(key.as_str())
    }
}

type Path = (String, String, String);

/// All served resources.
#[derive(Default)]
pub struct Registry {
    resources: BTreeMap<Path, Arc<Resource>>,
}

impl Registry {
    pub fn builtin() -> Registry {
        let mut registry = Registry::default();
        for kind in facts::kinds() {
            let resource = Arc::new(Resource::builtin(kind));
            let path = (resource.group.clone(), resource.version.clone(), resource.plural.clone());
            registry.resources.insert(path, resource);
        }
        registry
    }

    pub fn lookup(&self, target: &Target) -> Option<Arc<Resource>> {
        let path = (target.group.clone(), target.version.clone(), target.resource.clone());
        self.resources.get(&path).cloned()
    }

    pub fn find(&self, group: &str, plural: &str) -> Option<Arc<Resource>> {
        // Asked by many writes: only the group is looked through, and the core group is the first.
        let start = (group.to_owned(), String::new(), String::new());
        let of_group = self.resources.range(start..).take_while(|((of, ..), _)| of == group);
        of_group.map(|(_, one)| one).find(|one| one.plural == plural).cloned()
    }

    pub fn all(&self) -> impl Iterator<Item = &Arc<Resource>> {
        self.resources.values()
    }

    pub fn has_group_version(&self, group: &str, version: &str) -> bool {
        self.all().any(|one| one.group == group && one.version == version)
    }

    /// Groups with their versions, the core group first, the preferred version first.
    pub fn groups(&self) -> Vec<(String, Vec<String>)> {
        let mut groups: Vec<(String, Vec<String>)> = Vec::new();
        for resource in self.all() {
            match groups.iter_mut().find(|(group, _)| *group == resource.group) {
                Some((_, versions)) if versions.contains(&resource.version) => {}
                Some((_, versions)) => versions.push(resource.version.clone()),
                None => groups.push((resource.group.clone(), vec![resource.version.clone()])),
            }
        }
        for (_, versions) in &mut groups {
            versions.sort_by_key(|version| std::cmp::Reverse(version_rank(version)));
        }
        groups.sort_by_key(|(group, _)| group_rank(group));
        groups
    }
}

/// GA before beta before alpha, then the larger number.
fn version_rank(version: &str) -> (u8, u32, u32) {
    let Some(rest) = version.strip_prefix('v') else { return (0, 0, 0) };
    let digits = rest.find(|character: char| !character.is_ascii_digit()).unwrap_or(rest.len());
    let major = rest[..digits].parse().unwrap_or(0);
    let (stage, minor) = match &rest[digits..] {
        "" => (3, 0),
        rest => match (rest.strip_prefix("beta"), rest.strip_prefix("alpha")) {
            (Some(minor), _) => (2, minor.parse().unwrap_or(0)),
            (_, Some(minor)) => (1, minor.parse().unwrap_or(0)),
            _ => (0, 0),
        },
    };
    (stage, major, minor)
}

/// The order groups are listed in: what resolves an ambiguous short name first.
fn group_rank(group: &str) -> (usize, String) {
    const ORDER: &[&str] = &[
        "",
        "apiregistration.k8s.io",
        "apps",
        "events.k8s.io",
        "authentication.k8s.io",
        "authorization.k8s.io",
        "autoscaling",
        "batch",
        "certificates.k8s.io",
        "networking.k8s.io",
        "policy",
        "rbac.authorization.k8s.io",
        "storage.k8s.io",
        "admissionregistration.k8s.io",
        "apiextensions.k8s.io",
        "scheduling.k8s.io",
        "coordination.k8s.io",
        "node.k8s.io",
        "discovery.k8s.io",
        "resource.k8s.io",
        "flowcontrol.apiserver.k8s.io",
    ];
    let rank = ORDER.iter().position(|known| *known == group).unwrap_or(ORDER.len());
    (rank, group.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_stable_version_comes_first() {
        let mut versions = ["v1beta1", "v2", "v1", "v2alpha1", "v2beta2", "v10"];
        versions.sort_by_key(|version| std::cmp::Reverse(version_rank(version)));
        assert_eq!(versions, ["v10", "v2", "v1", "v2beta2", "v1beta1", "v2alpha1"]);
    }

    #[test]
    fn the_core_group_comes_first() {
        let groups = Registry::builtin().groups();
        assert_eq!(groups[0], (String::new(), vec!["v1".to_owned()]));
        let autoscaling = groups.iter().find(|(group, _)| group == "autoscaling").unwrap();
        assert_eq!(autoscaling.1, ["v2", "v1"]);
    }
}
