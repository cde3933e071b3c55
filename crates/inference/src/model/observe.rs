//! What a model has: servers, and what they said when they were asked.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use reconcile::{Context, Error, Name, Object, Selector};
use serde_json::json;
use tokio::time::Instant;

use super::candidates::{self, Found};
use super::is_lora;
use super::lora::{self, Deed, Outcome};
use crate::digest;
use crate::kinds::{ENDPOINT_SLICE, POD};
use crate::names::{self, FINALIZER};
use crate::value::text;

/// When a server that failed is asked again.
pub const RETRY: Duration = Duration::from_secs(30);
/// Models whose last answers are kept; beyond that servers are asked again.
const MODELS_MAX: usize = 4_096;

#[derive(Debug, Default)]
pub struct Observed {
    pub found: Found,
    /// What came of each candidate; empty if none was asked.
    pub outcomes: Vec<Outcome>,
    /// Whether they were asked just now.
    pub is_fresh: bool,
    /// Until servers that failed are asked again.
    pub retry: Duration,
}

/// What servers answered last, by the UID of the model: a status that is written, or an event that
/// changes nothing, does not make them load again.
#[derive(Debug, Default)]
pub struct Answers(Mutex<BTreeMap<String, Answer>>);

#[derive(Clone, Debug)]
struct Answer {
    deed: Deed,
    found: Found,
    outcomes: Vec<Outcome>,
    at: Instant,
}

pub async fn observe(
    context: &Context,
    model: &Arc<Object>,
    answers: &Answers,
) -> Result<Observed, Error> {
    let mut observed = Observed { found: find(context, model), ..Observed::default() };
    // Before anything is loaded it is certain that it will be unloaded.
    let is_held = model.finalizers().any(|one| one == FINALIZER);
    if !is_lora(model) || !is_held || observed.found.candidates.is_empty() {
        answers.forget(&model.uid);
        return Ok(observed);
    }
    let Some(deed) = deed(model) else { return Ok(observed) };
    if let Some(known) = answers.of(&model.uid, &deed, &observed.found) {
        observed.retry = RETRY.saturating_sub(known.at.elapsed());
        observed.outcomes = known.outcomes;
        return Ok(observed);
    }
    let outcomes = lora::perform(&deed, &observed.found.candidates).await;
    let (found, at) = (observed.found.clone(), Instant::now());
    answers.keep(&model.uid, Answer { deed, found, outcomes: outcomes.clone(), at });
    Ok(Observed { outcomes, is_fresh: true, retry: RETRY, ..observed })
}

fn find(context: &Context, model: &Object) -> Found {
    let hash = digest::short(text(&model.value["spec"]["baseModelName"]));
    let of_model = Selector::of_labels(&json!({names::BASE_MODEL_HASH: hash}));
    let slices = context.cache(ENDPOINT_SLICE).selected(&model.name.namespace, &of_model);
    let mut found = candidates::find(&slices);
    if is_lora(model) {
        let pods = context.cache(POD);
        for candidate in &mut found.candidates {
            let name = Name::new(model.name.namespace.clone(), candidate.pod.as_str());
            candidates::describe(candidate, pods.get(&name).as_deref());
        }
    }
    found
}

/// What servers are to do; nothing if the model does not say where its adapter is.
fn deed(model: &Object) -> Option<Deed> {
    let spec = &model.value["spec"];
    let (name, uri) = (text(&spec["modelName"]).to_owned(), text(&spec["source"]["uri"]));
    if model.is_terminating() {
        return Some(Deed::Unload { model: name });
    }
    (!uri.is_empty()).then(|| Deed::Load { model: name, uri: uri.to_owned() })
}

impl Answers {
    /// What servers said, if they would say the same again.
    fn of(&self, uid: &str, deed: &Deed, found: &Found) -> Option<Answer> {
        let answers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = answers.get(uid).filter(|one| one.deed == *deed && one.found == *found)?;
        let is_done = known.outcomes.iter().all(|outcome| *outcome == Outcome::Done);
        (is_done || known.at.elapsed() < RETRY).then(|| known.clone())
    }

    fn keep(&self, uid: &str, answer: Answer) {
        let mut answers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if answers.len() >= MODELS_MAX {
            answers.clear();
        }
        answers.insert(uid.to_owned(), answer);
    }

    fn forget(&self, uid: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(uid);
    }
}
