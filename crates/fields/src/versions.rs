//! An object before and after a write, at every version that a manager uses.

use serde_json::Value;

use crate::{
    error::Error,
    resource::{Request, Resource},
    set::Set,
    stripped::stripped,
    walk::compare::{Comparison, compare},
};

/// What a write changes, as seen at one version.
pub struct Change {
    api_version: String,
    pub comparison: Comparison,
    /// What was modified or added.
    pub changed: Set,
}

impl Change {
    pub fn is_empty(&self) -> bool {
        self.comparison.is_empty()
    }
}

/// The change at each version asked for so far.
pub struct Changes<'a, R> {
    resource: &'a R,
    request: &'a Request<'a>,
    live: &'a Value,
    new: &'a Value,
    known: Vec<Change>,
}

impl<'a, R: Resource> Changes<'a, R> {
    /// The change at the version of the request, which is the first of [`Changes`].
    pub fn new(
        resource: &'a R,
        request: &'a Request<'a>,
        live: &'a Value,
        new: &'a Value,
    ) -> Result<Changes<'a, R>, Error> {
        let mut changes = Changes { resource, request, live, new, known: Vec::new() };
        let api_version = request.api_version;
        let Some(first) = changes.compared(api_version, live, new) else {
            return Err(Error::Unserved { api_version: api_version.to_owned() });
        };
        changes.known.push(first);
        Ok(changes)
    }

    /// At the version of the request.
    pub fn own(&self) -> &Change {
        &self.known[0]
    }

    /// At a version; None where it is not served.
    pub fn at(&mut self, api_version: &str) -> Result<Option<&Change>, Error> {
        if let Some(at) = self.known.iter().position(|one| one.api_version == api_version) {
            return Ok(Some(&self.known[at]));
        }
        if self.resource.shape(api_version).is_none() {
            return Ok(None);
        }
        let convert = |object| {
            self.resource
                .convert(object, api_version)
                .map_err(|reason| Error::Convert { api_version: api_version.to_owned(), reason })
        };
        let (live, new) = (convert(self.live)?, convert(self.new)?);
        let compared = self.compared(api_version, &live, &new);
        self.known.extend(compared);
        Ok(self.known.last())
    }

    fn compared(&self, api_version: &str, live: &Value, new: &Value) -> Option<Change> {
        let mut comparison = compare(self.resource.shape(api_version)?, live, new).less(stripped());
        let reset = self.resource.reset_fields(api_version, self.request.subresource);
        if let Some(reset) = reset {
            comparison = comparison.without(reset);
        }
        let changed = comparison.changed();
        Some(Change { api_version: api_version.to_owned(), comparison, changed })
    }
}
