//! What can be wrong with what a client sends.

use crate::conflict::Conflicts;

/// Why a set of fields, an apply or an update was refused.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A key of FieldsV1 that names no field.
    #[error("could not read the path element {text:?}: {reason}")]
    Element { text: String, reason: String },
    /// FieldsV1 that is not a tree of objects.
    #[error("could not read the set of fields: {reason}")]
    Set { reason: String },
    /// `metadata.managedFields` of an object.
    #[error("{reason}")]
    ManagedFields { reason: String },
    /// The applied configuration carries `metadata.managedFields`.
    #[error("metadata.managedFields must be nil")]
    ManagedFieldsApplied,
    /// The applied configuration is of another version than the request.
    #[error(
        "Incorrect version specified in apply patch. \
         Specified patch version: {specified}, expected: {expected}"
    )]
    Version { specified: String, expected: String },
    /// An object does not fit its schema.
    #[error("failed to create typed {role} object ({object}): {reason}")]
    Untyped { role: &'static str, object: String, reason: String },
    /// The request's own version is not served.
    #[error("no schema for version {api_version}")]
    Unserved { api_version: String },
    /// The object could not be seen at a version that a manager used.
    #[error("failed to convert object to {api_version}: {reason}")]
    Convert { api_version: String, reason: String },
    /// Others own what the apply would change.
    #[error("{0}")]
    Conflicts(Conflicts),
}
