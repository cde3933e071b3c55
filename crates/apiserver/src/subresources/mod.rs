//! Parts of objects with paths and rules of their own.

pub mod binding;
pub mod connect;
pub mod eviction;
mod log;
pub mod proxy;
pub mod scale;
mod scale_apply;
mod stream;
pub mod token;

use serde_json::json;

use crate::answer::Answer;

/// The answer to a deed that leaves nothing to show.
fn success() -> Answer {
    Answer::value(
        201,
        &json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201,
        }),
    )
}
