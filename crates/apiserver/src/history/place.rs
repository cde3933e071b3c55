//! The object or list that a path of the past is about, and who may know of it.

use std::sync::Arc;

use store::{Key, Revision};

use super::{Asked, GROUP};
use crate::identity::User;
use crate::rbac::Attributes;
use crate::request::path::{self, Path, Target};
use crate::resources::Resource;
use crate::server::{Server, store_failure};
use crate::status::Error;

/// What a path is about.
pub struct Place {
    pub resource: Arc<Resource>,
    pub target: Target,
}

impl Place {
    /// Reads what follows the name of the question: `api/v1/namespaces/a/pods/p`.
    pub fn parse(server: &Server, rest: &str) -> Result<Place, Error> {
        let wrong = || {
            let text = format!(
                "{rest:?} is no path of a resource; expected one such as \
                 api/v1/namespaces/default/pods/web"
            );
            Error::bad_request(text)
        };
        let Path::Resource(target) = path::parse(&format!("/{rest}")) else { return Err(wrong()) };
        if target.group == GROUP {
            return Err(wrong());
        }
        let resource = server.registry.lookup(&target).ok_or_else(Error::no_such_resource)?;
        let is_misplaced =
            !target.namespace.is_empty() && !resource.namespaced && resource.kind != "Namespace";
        if is_misplaced || !resource.serves("get") {
            return Err(Error::no_such_resource());
        }
        if !matches!(target.subresource.as_str(), "" | "status") {
            let text = format!(
                "{}/{} has no past of its own; ask for the object",
                target.resource, target.subresource
            );
            return Err(Error::bad_request(text));
        }
        Ok(Place { resource, target })
    }

    /// The same, of one object.
    pub fn one(server: &Server, rest: &str) -> Result<Place, Error> {
        let place = Place::parse(server, rest)?;
        if place.target.name.is_empty() {
            let text = format!("{rest:?} is a list; name one object of it");
            return Err(Error::bad_request(text));
        }
        Ok(place)
    }

    pub fn key(&self) -> Result<Key, Error> {
        self.resource.key(&self.target.namespace, &self.target.name)
    }

    /// All objects of the resource in the namespace.
    pub fn nameless(&self) -> Place {
        let target = Target { name: String::new(), ..self.target.clone() };
        Place { resource: self.resource.clone(), target }
    }

    /// Whether somebody may do something to what it is about.
    pub fn authorize(&self, server: &Server, user: &User, verb: &str) -> Result<(), Error> {
        server.decide(user, &self.attributes(verb))
    }

    fn attributes<'a>(&'a self, verb: &'a str) -> Attributes<'a> {
        let target = &self.target;
        Attributes {
            verb,
            group: &target.group,
            resource: &target.resource,
            subresource: &target.subresource,
            namespace: &target.namespace,
            name: &target.name,
            path: None,
        }
    }

    /// Whether somebody may ask a question of ours about it.
    pub fn authorize_question(
        &self,
        server: &Server,
        asked: &Asked,
        (verb, question): (&str, &str),
    ) -> Result<(), Error> {
        let attributes = Attributes {
            verb,
            group: GROUP,
            resource: question,
            namespace: &self.target.namespace,
            ..Default::default()
        };
        server.decide(&asked.user, &attributes)
    }

    /// From when on somebody may know of it. Who has rights in one namespace has them since that
    /// namespace is there: another of its name may have been somebody else's.
    pub async fn since(&self, server: &Server, user: &User, verb: &str) -> Result<Revision, Error> {
        let namespace = &self.target.namespace;
        if namespace.is_empty() || !self.resource.namespaced {
            return Ok(Revision::ZERO);
        }
        let everywhere = Attributes { namespace: "", name: "", ..self.attributes(verb) };
        if server.decide(user, &everywhere).is_ok() {
            return Ok(Revision::ZERO);
        }
        let key = Key::new(format!("namespaces/{namespace}"));
        let key = key.map_err(|error| Error::bad_request(error.to_string()))?;
        let entry = server.store.get(&key, None).await.map_err(store_failure)?;
        Ok(entry.map_or(server.store.revision().next(), |entry| entry.created))
    }

    /// Refuses a revision that is older than what somebody may know of.
    pub fn refuse_before(&self, since: Revision, revision: Revision) -> Result<(), Error> {
        if revision >= since {
            return Ok(());
        }
        let namespace = &self.target.namespace;
        let text = format!(
            "the namespace {namespace:?} was made after revision {revision}; what was in another \
             of its name is for those who may read all namespaces"
        );
        Err(Error::forbidden(self.resource.about(), &self.target.name, &text))
    }
}

/// What a key of the store is about.
pub fn of_key(server: &Server, key: &Key) -> Option<Place> {
    let registry = server.registry.now();
    let text = key.as_str();
    let ends = text.match_indices('/').map(|(at, _)| at + 1);
    let resource = ends.filter_map(|end| registry.stored_at(&text[..end])).next()?;
    let (namespace, name) = match resource.namespaced {
        true => resource.relative(key).split_once('/')?,
        false => ("", resource.relative(key)),
    };
    let target = Target {
        group: resource.group.clone(),
        version: resource.version.clone(),
        namespace: namespace.to_owned(),
        resource: resource.plural.clone(),
        name: name.to_owned(),
        ..Default::default()
    };
    Some(Place { resource, target })
}
