//! Whether a schema may be part of a definition: everything admission says about it.
//!
//! Upstream: apiextensions-apiserver/pkg/apis/apiextensions/validation/validation.go

mod cost;
mod defaults;
pub(crate) mod field_path;
mod keywords;
mod lists;
mod root;
mod rules;
pub mod version;

use crate::metadata::Embedded;
use crate::node::Schema;
use crate::path::Path;
use crate::rules::Compiler;
use crate::structural::structural;
use crate::violation::Violation;

/// What a schema is checked with.
#[derive(Clone, Copy)]
pub struct Options<'a> {
    /// Where the schema is: `spec.versions[0].schema.openAPIV3Schema`.
    pub path: &'a Path<'a>,
    /// Whether the version has the status subresource.
    pub status_subresource: bool,
    pub compiler: &'a dyn Compiler,
    /// Checks the metadata of embedded resources, for defaults.
    pub metadata: Option<&'a Embedded<'a>>,
}

/// Everything that is wrong with a schema, in the order of upstream; maps are walked by name.
pub fn check(schema: &Schema, options: &Options<'_>) -> Vec<Violation> {
    let mut out = Vec::new();
    if options.status_subresource {
        out.extend(root::check(&schema.root, options.path));
    }
    if schema.root.nullable {
        let at = options.path.field("nullable");
        out.push(Violation::forbidden(&at, "nullable cannot be true at the root"));
    }
    let mut spine = structural(schema, options.path);
    if spine.is_empty() {
        spine = defaults::check(schema, options);
    }
    // Rules are looked at only where types can be relied on.
    let typed = spine.is_empty();
    out.extend(spine);
    out.extend(keywords::check(schema, typed, options));
    out
}
