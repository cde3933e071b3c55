//! Which resources are served: everything an endpoint needs to know about one.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};

use serde_json::Value;
use store::{Key, KeyRange};

use crate::conversion::{self, Conversion};
use crate::facts::{self, Type, TypeId};
use crate::field_ownership::Shape;
use crate::history;
use crate::registry::builtin;
use crate::registry::custom;
use crate::registry::strategy::Strategy;
use crate::request::path::Target;
use crate::selectors::field_table;
use crate::status::{About, Error};

/// A served resource in one version.
#[derive(Clone)]
pub struct Resource {
    pub group: String,
    pub version: String,
    pub kind: String,
    pub list_kind: String,
    pub plural: String,
    pub singular: String,
    pub short_names: Vec<String>,
    pub categories: Vec<String>,
    pub namespaced: bool,
    pub verbs: &'static [&'static str],
    pub subresources: Vec<Subresource>,
    /// Where its objects are in the store: `pods/`.
    pub prefix: String,
    /// Where what is stored is another version than this.
    pub conversion: Option<Conversion>,
    pub origin: Origin,
}

/// Where the rules of a resource come from.
#[derive(Clone)]
pub enum Origin {
    Builtin {
        type_id: TypeId,
        strategy: &'static dyn Strategy,
    },
    /// A CustomResourceDefinition.
    Custom(Arc<custom::Version>),
}

/// A part of a resource with a path of its own: `pods/log`.
#[derive(Clone, Debug)]
pub struct Subresource {
    pub name: &'static str,
    /// What its bodies are; the group and version are the resource's own for most.
    pub group: String,
    pub version: String,
    pub kind: String,
    pub verbs: &'static [&'static str],
    /// None where the kind is only query parameters, and where it is a custom resource itself.
    pub type_id: Option<TypeId>,
}

impl From<&facts::Subresource> for Subresource {
    fn from(facts: &facts::Subresource) -> Subresource {
        Subresource {
            name: facts.name,
            group: facts.group.to_owned(),
            version: facts.version.to_owned(),
            kind: facts.kind.to_owned(),
            verbs: facts.verbs,
            type_id: facts.type_id,
        }
    }
}

impl Resource {
    fn builtin(kind: &'static facts::Kind) -> Resource {
        let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        Resource {
            group: kind.group.to_owned(),
            version: kind.version.to_owned(),
            kind: kind.kind.to_owned(),
            list_kind: format!("{}List", kind.kind),
            plural: kind.plural.to_owned(),
            singular: kind.singular.to_owned(),
            short_names: texts(kind.short_names),
            categories: texts(kind.categories),
            namespaced: kind.namespaced,
            verbs: kind.verbs,
            subresources: kind.subresources.iter().map(Subresource::from).collect(),
            // Built-in plurals are unique, but for kinds that are one storage in two groups.
            prefix: format!("{}/", kind.plural),
            conversion: conversion::builtin(kind.group, kind.version, kind.kind),
            origin: Origin::Builtin {
                type_id: kind.type_id,
                strategy: builtin::strategy(kind.group, kind.kind),
            },
        }
    }

    /// The type of a built-in kind.
    pub fn builtin_type(&self) -> Option<&'static Type> {
        match &self.origin {
            Origin::Builtin { type_id, .. } => Some(type_id.get()),
            Origin::Custom(_) => None,
        }
    }

    /// The version of a definition that this is, with its compiled schema.
    pub fn custom(&self) -> Option<&Arc<custom::Version>> {
        match &self.origin {
            Origin::Builtin { .. } => None,
            Origin::Custom(version) => Some(version),
        }
    }

    /// What is special about the kind.
    pub fn strategy(&self) -> &dyn Strategy {
        match &self.origin {
            Origin::Builtin { strategy, .. } => *strategy,
            Origin::Custom(version) => &**version,
        }
    }

    /// What an object, as it is stored, has in the fields that can be selected by.
    pub fn field_values(&self, object: &Value) -> Vec<(&str, String)> {
        match &self.origin {
            Origin::Builtin { .. } => field_table::values(&self.group, &self.kind, object),
            Origin::Custom(version) => version.stored_fields(object),
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
        self.verbs.contains(&verb)
    }

    pub fn subresource(&self, name: &str) -> Option<&Subresource> {
        self.subresources.iter().find(|one| one.name == name)
    }

    /// How its objects are merged, and so what of them can be owned.
    pub fn shape(&self) -> Shape<'_> {
        match &self.origin {
            Origin::Builtin { type_id, .. } => Shape::of_type(*type_id),
            Origin::Custom(version) => Shape::Custom(&version.schema().root),
        }
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

/// Something that is asked for below a group and is no kind of object: only discovery knows it.
#[derive(Clone, Copy, Debug)]
pub struct Listed {
    pub group: &'static str,
    pub version: &'static str,
    pub plural: &'static str,
    pub kind: &'static str,
    pub verbs: &'static [&'static str],
}

/// The registry as it is now. Readers take it whole and keep what they took.
pub struct Served(RwLock<Arc<Registry>>);

impl Served {
    pub fn new(registry: Registry) -> Served {
        Served(RwLock::new(Arc::new(registry)))
    }

    pub fn now(&self) -> Arc<Registry> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub fn replace(&self, registry: Registry) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(registry);
    }

    pub fn lookup(&self, target: &Target) -> Option<Arc<Resource>> {
        self.now().lookup(target)
    }

    pub fn find(&self, group: &str, plural: &str) -> Option<Arc<Resource>> {
        self.now().find(group, plural)
    }
}

type Path = (String, String, String);

/// All served resources.
#[derive(Default)]
pub struct Registry {
    resources: BTreeMap<Path, Arc<Resource>>,
    /// The versions of the same objects: those that are stored at one place. Every write asks.
    together: BTreeMap<String, Vec<Arc<Resource>>>,
}

impl Registry {
    pub fn builtin() -> Registry {
        Registry::default()
            .with(facts::kinds().iter().map(|kind| Arc::new(Resource::builtin(kind))))
    }

    /// The same with other resources beside it. What is built in cannot be replaced.
    pub fn with(&self, others: impl IntoIterator<Item = Arc<Resource>>) -> Registry {
        let mut resources = self.resources.clone();
        for one in others {
            let path = (one.group.clone(), one.version.clone(), one.plural.clone());
            resources.entry(path).or_insert(one);
        }
        let mut together: BTreeMap<String, Vec<Arc<Resource>>> = BTreeMap::new();
        for one in resources.values() {
            together.entry(one.prefix.clone()).or_default().push(one.clone());
        }
        Registry { resources, together }
    }

    /// Every version of the objects that are stored where those of this resource are.
    pub fn versions_of(&self, resource: &Resource) -> &[Arc<Resource>] {
        self.together.get(&resource.prefix).map_or(&[], Vec::as_slice)
    }

    /// The resource whose objects are stored below a prefix, in its preferred version.
    pub fn stored_at(&self, prefix: &str) -> Option<Arc<Resource>> {
        let versions = self.together.get(prefix)?;
        // Where what is stored is served as it is, that is the version to read it by.
        let as_stored = versions.iter().find(|one| one.conversion.is_none());
        as_stored.or(versions.first()).cloned()
    }

    /// What is asked for below groups without being a resource.
    pub fn listed(&self) -> &'static [Listed] {
        history::LISTED
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
        let is_listed = |one: &Listed| one.group == group && one.version == version;
        self.listed().iter().any(is_listed)
            || self.all().any(|one| one.group == group && one.version == version)
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
        for listed in self.listed() {
            if groups.iter().all(|(group, _)| group != listed.group) {
                groups.push((listed.group.to_owned(), vec![listed.version.to_owned()]));
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
