//! `pods/eviction`: a deletion that asks the pod's disruption budget.
//!
//! The budget and the pod change in one commit: an eviction that is not performed costs nothing.
//!
//! Upstream: pkg/registry/core/pod/storage/eviction.go

use serde_json::{Value, json};
use store::{Mutation, Operation, PageRequest, Precondition, Revision};

use super::binding::{condition, set_condition};
use super::success;
use crate::admission::resource_quota::Written;
use crate::admission::webhooks::admit_posted;
use crate::answer::Answer;
use crate::endpoints::Request;
use crate::endpoints::delete::{DeleteOptions, Planned, check_preconditions, plan};
use crate::endpoints::write::{Change, Committed, commit_charged, decode_as, encode, read};
use crate::facts;
use crate::object;
use crate::persist::{self, stored};
use crate::registry::edit::{self, int, text};
use crate::resources::Resource;
use crate::selectors::labels::Selector;
use crate::server::{Server, store_failure};
use crate::status::{About, Cause, Error};
use crate::time::rfc3339;

/// How often an eviction is tried again when others write the same objects.
const CONFLICT_RETRIES_MAX: usize = 32;
/// The most evictions that the owner of a budget has not seen yet.
const DISRUPTED_PODS_MAX: usize = 2_000;
const RETRY_SECONDS: u32 = 10;
const BUDGET: About<'static> = About { group: "policy", resource: "poddisruptionbudget" };

pub async fn create(server: &Server, request: &Request) -> Result<Answer, Error> {
    let of =
        facts::type_by_name("io.k8s.api.policy.v1.Eviction").ok_or_else(Error::no_such_resource)?;
    let mut eviction = decode_as(request, of)?;
    let name = object::name(&eviction);
    if !name.is_empty() && name != request.target.name {
        return Err(Error::bad_request("name in URL does not match name in Eviction object"));
    }
    admit_posted(server, request, &mut eviction).await?;
    let options = DeleteOptions::read(request, edit::at(&eviction, &["deleteOptions"]))?;
    let mut of_pod = request.clone();
    of_pod.target.subresource.clear();
    of_pod.options.dry_run |= options.dry_run;
    for _ in 0..CONFLICT_RETRIES_MAX {
        if evict(server, &of_pod, &options).await? {
            return Ok(success());
        }
    }
    let why = "others keep changing it; please try again";
    Err(Error::conflict(request.resource.about(), &request.target.name, why))
}

/// Evicts a pod as it is now; false when somebody else was faster.
async fn evict(server: &Server, request: &Request, options: &DeleteOptions) -> Result<bool, Error> {
    let about = request.resource.about();
    let current = read(server, request).await?;
    let current = current.ok_or_else(|| Error::not_found(about, &request.target.name))?;
    check_preconditions(request, options, &current.object)?;
    let now = rfc3339(server.environment.now());
    let mut extra = Vec::new();
    if !needs_no_budget(&current.object) {
        let budgets = Budgets::of(server, request, &current.object).await?;
        extra.extend(budgets.spend(&current.object, &now)?);
    }
    let mut pod = current.object.clone();
    if let Some(status) = edit::object(&mut pod, "status") {
        let mut target = condition("DisruptionTarget", &now);
        edit::set(&mut target, "reason", "EvictionByEvictionAPI");
        edit::set(&mut target, "message", "Eviction API: evicting");
        set_condition(status, target);
    }
    let (mutation, after) = match plan(server, request, options, &pod) {
        // It is on its way already.
        Planned::Nothing => return Ok(true),
        Planned::Remove(_) => (Mutation::Delete, None),
        Planned::Mark(mut pod) => {
            object::remove_meta(&mut pod, "resourceVersion");
            (encode(request, &pod).await?, Some(pod))
        }
    };
    let change = Change {
        mutation,
        when: Precondition::At(current.revision),
        written: Written { before: Some(&current.object), after: after.as_ref() },
        extra,
    };
    Ok(matches!(commit_charged(server, request, change).await?, Committed::At(_)))
}

/// Whether the pod serves nobody, so that its end is no disruption.
fn needs_no_budget(pod: &Value) -> bool {
    ["Succeeded", "Failed", "Pending"].contains(&text(pod, &["status", "phase"]))
        || object::is_terminating(pod)
}

/// The budgets that select a pod.
struct Budgets {
    resource: std::sync::Arc<Resource>,
    found: Vec<(Value, Revision)>,
}

impl Budgets {
    async fn of(server: &Server, request: &Request, pod: &Value) -> Result<Budgets, Error> {
        let resource = server.registry.find("policy", "poddisruptionbudgets");
        let resource = resource.ok_or_else(Error::no_such_resource)?;
        let range = resource.range(&request.target.namespace);
        let page = server.store.list(&range, PageRequest::all(), None).await;
        let entries = page.map_err(store_failure)?.entries;
        let all = entries.iter().map(|it| (stored(it).object(it.modified), it.modified));
        let selects = |(budget, _): &(Value, Revision)| {
            let selector = edit::at(budget, &["spec", "selector"]);
            let selector = Selector::from_object(Some(selector), "spec.selector");
            selector.is_ok_and(|selector| selector.matches_object(pod))
        };
        Ok(Budgets { resource, found: all.filter(selects).collect() })
    }

    /// What must be written together with the eviction, if it is allowed.
    fn spend(&self, pod: &Value, now: &str) -> Result<Option<Operation>, Error> {
        let (budget, revision) = match &self.found[..] {
            [] => return Ok(None),
            [one] => one,
            _ => {
                return Err(Error::plain(
                    "This pod has more than one PodDisruptionBudget, which the eviction \
                     subresource does not support.",
                ));
            }
        };
        if is_free(budget, pod) {
            return Ok(None);
        }
        let mut budget = spent(budget, object::name(pod), now)?;
        let key = self.resource.key(object::namespace(&budget), object::name(&budget))?;
        object::remove_meta(&mut budget, "resourceVersion");
        let mutation = Mutation::Put(persist::encode(&budget, &[]));
        Ok(Some(Operation { key, mutation, when: Precondition::At(*revision) }))
    }
}

/// A pod that is not ready does not count, so that its end takes nothing away.
fn is_free(budget: &Value, pod: &Value) -> bool {
    let conditions = edit::list(pod, &["status", "conditions"]);
    let ready = |it: &Value| text(it, &["type"]) == "Ready" && text(it, &["status"]) == "True";
    if conditions.iter().any(ready) {
        return false;
    }
    let number = |name: &str| int(budget, &["status", name]).unwrap_or(0);
    text(budget, &["spec", "unhealthyPodEvictionPolicy"]) == "AlwaysAllow"
        || (number("currentHealthy") >= number("desiredHealthy") && number("desiredHealthy") > 0)
}

/// The budget with one disruption less.
fn spent(budget: &Value, pod: &str, now: &str) -> Result<Value, Error> {
    let name = object::name(budget);
    let number = |field: &str| int(budget, &["status", field]).unwrap_or(0);
    let generation = int(budget, &["metadata", "generation"]).unwrap_or(0);
    if number("observedGeneration") < generation {
        let why = format!("The disruption budget {name} is still being processed by the server.");
        return Err(too_many(RETRY_SECONDS, why));
    }
    let allowed = number("disruptionsAllowed");
    if allowed < 0 {
        return Err(Error::forbidden(BUDGET, name, "pdb disruptions allowed is negative"));
    }
    let disrupted = edit::map(budget, &["status", "disruptedPods"]).map_or(0, |map| map.len());
    if disrupted > DISRUPTED_PODS_MAX {
        let why = "DisruptedPods map too big - too many evictions not confirmed by PDB controller";
        return Err(Error::forbidden(BUDGET, name, why));
    }
    if allowed == 0 {
        let why = format!(
            "The disruption budget {name} needs {} healthy pods and has {} currently",
            number("desiredHealthy"),
            number("currentHealthy")
        );
        return Err(too_many(0, why));
    }
    let mut spent = budget.clone();
    if let Some(status) = edit::object(&mut spent, "status") {
        edit::set(status, "disruptionsAllowed", allowed - 1);
        if allowed == 1 {
            set_condition(
                status,
                json!({
                    "type": "DisruptionAllowed", "status": "False", "reason": "InsufficientPods",
                    "message": "", "lastTransitionTime": now, "observedGeneration": generation,
                }),
            );
        }
        if let Some(pods) = edit::object(status, "disruptedPods") {
            edit::set(pods, pod, now);
        }
    }
    Ok(spent)
}

fn too_many(retry_seconds: u32, why: String) -> Error {
    let text = "Cannot evict pod as it would violate the pod's disruption budget.";
    let mut error = Error::too_many_requests(text, retry_seconds);
    if let Some(details) = &mut error.details {
        let (reason, field) = ("DisruptionBudget".to_owned(), String::new());
        details.causes.push(Cause { reason, message: why, field });
    }
    error
}
