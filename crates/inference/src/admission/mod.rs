//! What is asked before graphs and components are written: what they lack is added, and what
//! cannot work is refused.

mod checkpoint;
mod component;
mod graph;
mod graph_update;
mod shared;
#[cfg(test)]
mod tests;
pub mod webhooks;

use serde_json::Value;

use crate::request::admission::Discovery;
use crate::review::{Answer, Question};
use crate::settings::Settings;
use crate::{leader_worker_set, model, request};

/// Answers an AdmissionReview for a namespace that is left to others: everything is allowed.
pub fn allow(path: &str, review: &Value) -> Option<Value> {
    let sets = leader_worker_set::admission::review(path, review);
    Some(sets.unwrap_or_else(|| Answer::default().written(review)))
}

/// Answers an AdmissionReview; `None` if nobody knows the path.
pub fn review(settings: &Settings, path: &str, review: &Value) -> Option<Value> {
    let question = Question::of(review);
    // What goes is not judged.
    let is_going = question.new["metadata"]["deletionTimestamp"].is_string();
    let answer = match path {
        _ if is_going => Answer::default(),
        webhooks::DEFAULT_GRAPH => graph::default(settings, &question),
        webhooks::VALIDATE_GRAPH => graph::validate(settings, &question),
        webhooks::DEFAULT_COMPONENT => component::default(&question),
        webhooks::VALIDATE_COMPONENT | webhooks::VALIDATE_COMPONENT_LEGACY => {
            component::validate(settings, &question)
        }
        webhooks::VALIDATE_CHECKPOINT => checkpoint::validate(&question),
        webhooks::VALIDATE_MODEL => model::admission::validate(&question),
        webhooks::DEFAULT_REQUEST => request::admission::default(settings, &question),
        webhooks::VALIDATE_REQUEST => {
            let discovery = if settings.discovers_gpus { Discovery::On } else { Discovery::Off };
            request::admission::validate(&question, discovery)
        }
        _ => return leader_worker_set::admission::review(path, review),
    };
    Some(answer.written(review))
}
