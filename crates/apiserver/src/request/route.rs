//! Where a request goes: its path, its options and its verb.

use http::Method;
use http::request::Parts;

use super::options::Options;
use super::path::{self, Path, Target};
use crate::status::Error;
use crate::traffic::is_long_running;

/// Where a request goes, as far as it can be told before knowing who asks.
pub struct Route {
    pub path: Path,
    pub options: Result<Options, Error>,
    /// For paths of resources.
    pub verb: Result<&'static str, Error>,
}

impl Route {
    pub fn of(parts: &Parts) -> Route {
        let path = path::parse(parts.uri.path());
        let kind = kind_of_options(&parts.method);
        // What is passed on has a query of its own.
        let query = match &path {
            Path::Resource(target) if target.is_proxied() => "",
            _ => parts.uri.query().unwrap_or_default(),
        };
        let options = Options::parse_as(query, kind);
        let verb = match (&path, &options) {
            (Path::Resource(target), Ok(options)) => verb(&parts.method, target, options),
            _ => Err(Error::method_not_allowed()),
        };
        Route { path, options, verb }
    }

    pub fn is_long_running(&self) -> bool {
        match (&self.path, &self.verb) {
            (Path::Resource(target), Ok(verb)) => is_long_running(verb, &target.subresource),
            _ => false,
        }
    }
}

/// What the options of a request are called in errors.
fn kind_of_options(method: &Method) -> &'static str {
    match method.as_str() {
        "POST" => "CreateOptions",
        "PUT" => "UpdateOptions",
        "PATCH" => "PatchOptions",
        "DELETE" => "DeleteOptions",
        _ => "ListOptions",
    }
}

fn verb(method: &Method, target: &Target, options: &Options) -> Result<&'static str, Error> {
    let has_name = !target.name.is_empty();
    Ok(match method.as_str() {
        "GET" if options.watch => "watch",
        "GET" if has_name => "get",
        "GET" => "list",
        // Elsewhere nobody has an answer without its body.
        "HEAD" if target.is_proxied() => "get",
        "POST" => "create",
        "PUT" => "update",
        "PATCH" => "patch",
        "DELETE" if has_name => "delete",
        "DELETE" => "deletecollection",
        _ => return Err(Error::method_not_allowed()),
    })
}
