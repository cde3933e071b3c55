//! A pod that may start from a checkpoint, when it is made: if there is one by then, those who can
//! start it from there are told to; if not, it starts as any other.

use reconcile::{Context, Name};
use serde_json::{Value, json};

use super::{ARTIFACT_VERSION, ID, SOURCE, TARGETS};
use crate::kinds::CHECKPOINT;
use crate::names;
use crate::review::{Answer, Question};
use crate::settings::Settings;
use crate::value::{object_mut, text};

/// Answers an AdmissionReview of a pod that is made.
pub async fn review(settings: &Settings, context: &Context, review: &Value) -> Value {
    let question = Question::of(review);
    let annotations = &question.new["metadata"]["annotations"];
    let name = text(&annotations[names::CHECKPOINT_NAME]);
    if !settings.gates.checkpoints || name.is_empty() {
        return Answer::default().written(review);
    }
    let namespace = text(&review["request"]["namespace"]);
    let found = context.get_live(CHECKPOINT, &Name::new(namespace, name)).await;
    // A pod that starts slowly is better than none.
    let found = found.ok().flatten();
    let made = found.and_then(|found| restored(settings, question.new, &found.value));
    match made {
        Some(made) => Answer::instead(made, question.new).written(review),
        None => Answer::default().written(review),
    }
}

/// The pod as it starts from a checkpoint; nothing if the checkpoint is not ready.
pub fn restored(settings: &Settings, pod: &Value, checkpoint: &Value) -> Option<Value> {
    let id = text(&checkpoint["status"]["checkpointID"]);
    if checkpoint["status"]["phase"] != "Ready" || id.is_empty() {
        return None;
    }
    let target = checkpoint["spec"]["job"]["targetContainerName"].as_str().unwrap_or("main");
    let mut made = pod.clone();
    let labels = object_mut(&mut made["metadata"]["labels"]);
    labels.remove(SOURCE);
    labels.insert(ID.to_owned(), json!(id));
    let annotations = object_mut(&mut made["metadata"]["annotations"]);
    annotations.insert(ARTIFACT_VERSION.to_owned(), json!("1"));
    annotations.entry(TARGETS.to_owned()).or_insert(json!(target));
    if let Some(storage) = &settings.storage {
        storage.mount(&mut made["spec"], target);
    }
    Some(made)
}
