//! An object as a write left it: for the answer, and for those in the process who follow its kind.

use std::sync::Arc;

use bytes::Bytes;
use serde_json::Value;
use store::{Mutation, Revision};

use super::Request;
use super::get::represent;
use super::representations::write_metadata_of;
use super::write::encode;
use crate::answer::Answer;
use crate::object;
use crate::persist::Stored;
use crate::request::negotiate::Representation;
use crate::server::Server;
use crate::status::Error;

pub struct Saved {
    /// Without the owners of its fields and, if it was written, its revision.
    object: Arc<Value>,
    owners: Option<Value>,
    /// None if nothing was written.
    revision: Option<Revision>,
    /// What is stored of it, where it is stored as it is served.
    stored: Option<Bytes>,
}

impl Saved {
    /// An object that is answered as it is.
    pub fn whole(object: Value) -> Saved {
        Saved { object: Arc::new(object), owners: None, revision: None, stored: None }
    }

    /// What is to be stored of an object. Those who follow its kind are offered it at once: they
    /// may see the commit before the writer does.
    pub async fn prepare(
        server: &Server,
        request: &Request,
        mut object: Value,
    ) -> Result<(Mutation, Saved), Error> {
        let mutation = encode(request, &object).await?;
        let owners = object::remove_meta(&mut object, "managedFields");
        let object = Arc::new(object);
        let stored = match &mutation {
            Mutation::Put(bytes) if request.resource.conversion.is_none() => Some(bytes.clone()),
            _ => None,
        };
        if let (Some(bytes), false) = (&stored, request.options.dry_run) {
            server.offers.offer(&request.resource.prefix, bytes, &object);
        }
        Ok((mutation, Saved { object, owners, revision: None, stored }))
    }

    pub fn at(self, revision: Revision) -> Saved {
        Saved { revision: Some(revision), ..self }
    }

    pub fn object(&self) -> &Value {
        &self.object
    }

    /// The whole object.
    pub fn into_value(self) -> Value {
        let mut object = Arc::unwrap_or_clone(self.object);
        if let Some(owners) = self.owners {
            object::set_meta(&mut object, "managedFields", owners);
        }
        if let Some(revision) = self.revision {
            object::set_meta(&mut object, "resourceVersion", revision.to_string());
        }
        object
    }

    /// The object in the representation that was asked for.
    pub fn represent(self, server: &Server, request: &Request, code: u16) -> Answer {
        let (Some(revision), Some(bytes)) = (self.revision, &self.stored) else {
            return represent(server, request, code, &self.into_value());
        };
        if request.carried.wants_object() {
            return Answer::handed(code, (self.object, revision.0));
        }
        let stored = Stored::read(bytes);
        match request.representation {
            Representation::Object(_) => Answer::json(code, stored.json(revision)),
            Representation::Metadata { stage, .. } => {
                let mut text = Vec::with_capacity(stored.length());
                write_metadata_of(&stored, revision, stage, &mut text);
                Answer::json(code, text)
            }
            _ => represent(server, request, code, &self.into_value()),
        }
    }
}
