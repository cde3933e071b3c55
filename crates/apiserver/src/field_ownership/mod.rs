//! Who owns which field of an object: kept on every write of a client, asked by an apply.
//!
//! The rules are the `fields` crate's. Here is what they have to be told: how the objects of a
//! resource are merged (`Resource::shape`), who writes, and when. What the server itself changes
//! about an object, be it by defaults after the fact, admission or a binding, is nobody's.
//!
//! Upstream: apimachinery/pkg/util/managedfields, apiserver/pkg/endpoints/handlers/fieldmanager

mod apply;
mod kind;
mod reset;
mod shape;
mod unchanged;

pub use apply::{Expected, apply, check, is_apply, refusal};
pub use kind::Kind;
pub use shape::Shape;
pub use unchanged::is_unchanged;

use serde_json::Value;

use crate::endpoints::{Request, bounds};
use crate::server::Server;
use crate::time::rfc3339;

/// The longest name of a manager that a client did not choose.
const MANAGER_BYTES_MAX: usize = 128;

/// Notes what a write that is not an apply changes: `object` has its defaults, and has not been
/// through admission. `live` is what it replaces.
pub fn record(server: &Server, request: &Request, live: Option<&Value>, object: &mut Value) {
    if is_apply(request) {
        // It has said already what it owns.
        return;
    }
    let kind = Kind::of(&request.resource);
    let (manager, time) = (manager(request), rfc3339(server.environment.now()));
    let written = fields::Request {
        manager: &manager,
        api_version: kind.api_version(),
        subresource: &request.target.subresource,
        time: &time,
    };
    if let Err(error) = fields::update(&kind, live, object, &written) {
        // The write is worth more than the record of it.
        tracing::warn!(%error, resource = %request.resource.plural, "owners of fields are lost");
    }
    // A large object is stored without them rather than not at all.
    if object["metadata"].get("managedFields").is_some() && !bounds::leaves_room(object) {
        fields::strip(object);
    }
}

/// The record of who owns what, as it stands in an object.
pub fn owners(object: &Value) -> Option<Value> {
    object["metadata"].get("managedFields").cloned()
}

/// Whether that record can be read.
///
/// # Errors
/// The first entry that cannot.
pub fn check_owners(object: &Value) -> Result<(), fields::Error> {
    fields::Managed::of_request(object).map(|_| ())
}

/// Who owns what is written: named, or what the client calls itself as far as it can be printed.
fn manager(request: &Request) -> String {
    let mut name = String::new();
    for character in request.manager().chars().filter(|character| !character.is_control()) {
        if name.len() + character.len_utf8() > MANAGER_BYTES_MAX {
            break;
        }
        name.push(character);
    }
    name
}
