//! A VirtualMachine has an instance while it is to run. When that is, its run strategy says.
//!
//! Upstream: kubevirt/kubevirt, pkg/virt-controller/watch/vm

mod make;
mod printable;
mod start_failure;
pub mod strategy;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use k8s_openapi::jiff::Timestamp;
use reconcile::conditions::{self, Condition, Truth};
use reconcile::plan::{Notice, Target};
use reconcile::{Context, Error, Kind, Name, Object, Plan, Reconciler, Wake, Watches, owners};
use serde_json::{Value, json};

use self::strategy::{Move, Strategy};
use crate::kinds::{CLAIM, DATA_VOLUME, INSTANCE, MACHINE, RESTORE};
use crate::value::{list, text};

pub const NAME: &str = "virtualmachine-controller";
/// A machine goes after its instance.
const FINALIZER: &str = "kubevirt.io/virtualMachineControllerFinalize";

pub struct Controller;

#[derive(Default)]
pub struct Observed {
    /// The instance of its name, whoever made it.
    pub instance: Option<Arc<Object>>,
    /// The volumes that fill its claims, and the claims.
    pub fillers: Vec<Arc<Object>>,
    pub claims: Vec<(String, Option<Arc<Object>>)>,
    /// Whether its disks are being brought back.
    pub is_restored: bool,
}

impl Reconciler for Controller {
    type Observed = Observed;
    const NAME: &'static str = NAME;
    const KIND: Kind = MACHINE;

    fn watches(&self, watches: &mut Watches) {
        watches.by(INSTANCE, |change| vec![change.object().name.clone()]);
        watches.by(RESTORE, |change| {
            let restore = change.object();
            let target = text(&restore.value["spec"]["target"]["name"]);
            vec![Name::new(restore.name.namespace.clone(), target)]
        });
        let machines = watches.cache(MACHINE);
        for kind in [DATA_VOLUME, CLAIM] {
            let machines = machines.clone();
            watches.by(kind, move |change| {
                let of = &change.object().name;
                let all = machines.in_namespace(&of.namespace);
                let uses = all.iter().filter(|one| claims(one).any(|claim| claim == &*of.name));
                uses.map(|one| one.name.clone()).collect()
            });
        }
    }

    async fn observe(&self, context: &Context, machine: &Arc<Object>) -> Result<Observed, Error> {
        // What is started or ended is never decided by what is only remembered.
        let instance = context.get_live(INSTANCE, &machine.name).await?.map(Arc::new);
        let namespace = &machine.name.namespace;
        let named = |claim: &str| Name::new(namespace.clone(), claim);
        let claimed = claims(machine)
            .map(|claim| (claim.to_owned(), context.cache(CLAIM).get(&named(claim))));
        let fillers =
            claims(machine).filter_map(|claim| context.cache(DATA_VOLUME).get(&named(claim)));
        let restores = context.cache(RESTORE).in_namespace(namespace);
        let is_restored = restores.iter().any(|restore| {
            restore.value["spec"]["target"]["name"] == *machine.name.name
                && restore.value["status"]["complete"] != true
                && !conditions::is_true(&restore.value["status"], "Failure")
        });
        Ok(Observed {
            instance,
            fillers: fillers.collect(),
            claims: claimed.collect(),
            is_restored,
        })
    }

    fn plan(&self, machine: &Object, observed: &Observed, now: Timestamp) -> Result<Plan, Error> {
        Ok(plan(machine, observed, now))
    }
}

/// The claims that a machine's volumes are.
fn claims(machine: &Object) -> impl Iterator<Item = &str> {
    let volumes = &machine.value["spec"]["template"]["spec"]["volumes"];
    list(volumes).iter().filter_map(|volume| {
        let claim = volume["persistentVolumeClaim"]["claimName"].as_str();
        claim.or(volume["dataVolume"]["name"].as_str())
    })
}

pub fn plan(machine: &Object, observed: &Observed, now: Timestamp) -> Plan {
    let mut plan = Plan::nothing();
    let has_finalizer = machine.finalizers().any(|one| one == FINALIZER);
    let own = observed.instance.as_deref().filter(|it| it.controller() == Some(&machine.uid));
    if machine.is_terminating() {
        end(&mut plan, machine, own);
        plan.status = Some(status(machine, observed, &Outcome::of(machine, now), now));
        return plan;
    }
    if !has_finalizer {
        let mut all: Vec<&str> = machine.finalizers().collect();
        all.push(FINALIZER);
        let patch = json!({"metadata": {"finalizers": all}});
        plan.patch(Target::unchanged(MACHINE, machine), patch);
        return plan;
    }
    make::data_volumes(&mut plan, machine, observed);
    let mut outcome = Outcome::of(machine, now);
    start_failure::count(&mut outcome.start_failure, outcome.strategy, own, now);
    match (observed.instance.as_deref(), own) {
        (Some(_), None) => {
            let why = format!("VirtualMachineInstance {} belongs to another owner", machine.name);
            plan.notices.push(Notice::warning("FailedCreate", why));
        }
        (_, own) => step(&mut plan, machine, (own, observed), &mut outcome),
    }
    plan.status = Some(status(machine, observed, &outcome, now));
    plan
}

/// What a look comes to, beside what is done.
struct Outcome {
    now: Timestamp,
    strategy: Strategy,
    /// What was asked for and is not done yet.
    requests: Vec<Value>,
    start_failure: Value,
    is_starting: bool,
    /// A start that has to wait. Until it comes, the strategy is as new as it was.
    is_deferred: bool,
}

impl Outcome {
    fn of(machine: &Object, now: Timestamp) -> Outcome {
        let status = &machine.value["status"];
        Outcome {
            now,
            strategy: Strategy::of(machine),
            requests: list(&status["stateChangeRequests"]).to_vec(),
            start_failure: status["startFailure"].clone(),
            is_starting: false,
            is_deferred: false,
        }
    }
}

/// Deletes the instance, and lets the machine go when it is gone.
fn end(plan: &mut Plan, machine: &Object, instance: Option<&Object>) {
    match instance {
        Some(instance) if instance.is_terminating() => {}
        Some(instance) => plan.delete(Target::of(INSTANCE, instance)),
        None => {
            let left: Vec<&str> = machine.finalizers().filter(|one| *one != FINALIZER).collect();
            if left.len() != machine.finalizers().count() {
                let patch = json!({"metadata": {"finalizers": left}});
                plan.patch(Target::unchanged(MACHINE, machine), patch);
            }
        }
    }
}

fn step(
    plan: &mut Plan,
    machine: &Object,
    (instance, observed): (Option<&Object>, &Observed),
    outcome: &mut Outcome,
) {
    let before = text(&machine.value["status"]["runStrategy"]);
    let is_new = before != outcome.strategy.name();
    let decided = strategy::decide(outcome.strategy, instance, &mut outcome.requests, is_new);
    match decided {
        Move::Stay => {
            if let Some(instance) = instance {
                make::plug(plan, machine, instance);
            }
        }
        Move::Flip(to) => {
            let patch = json!({"spec": {"runStrategy": to.name(), "running": null}});
            plan.patch(Target::unchanged(MACHINE, machine), patch);
        }
        Move::Delete => {
            if let Some(instance) = instance.filter(|instance| !instance.is_terminating()) {
                plan.delete(Target::of(INSTANCE, instance));
                let what = format!(
                    "Stopped the virtual machine by deleting the virtual machine instance {}",
                    instance.uid
                );
                plan.notices.push(Notice::normal("SuccessfulDelete", what));
            }
        }
        Move::Start => {
            outcome.is_starting = true;
            if observed.is_restored {
                outcome.is_deferred = true;
                return;
            }
            match start_failure::left(&outcome.start_failure, outcome.now) {
                Some(left) => {
                    outcome.is_deferred = true;
                    plan.wake = Wake::After(left);
                }
                None => {
                    plan.create(INSTANCE, make::instance(machine));
                    outcome.requests.retain(|one| one["action"] != "Start");
                    let what = format!(
                        "Started the virtual machine by creating the new virtual machine \
                         instance {}",
                        machine.name.name
                    );
                    plan.notices.push(Notice::normal("SuccessfulCreate", what));
                }
            }
        }
    }
}

fn status(machine: &Object, observed: &Observed, outcome: &Outcome, now: Timestamp) -> Value {
    let instance = observed.instance.as_deref();
    let instance = instance.filter(|it| it.controller() == Some(&machine.uid));
    let mut status = machine.value["status"].clone();
    if !status.is_object() {
        status = json!({});
    }
    let of = instance.map_or(&Value::Null, |instance| &instance.value["status"]);
    status["created"] = json!(instance.is_some());
    status["ready"] = json!(conditions::is_true(of, "Ready"));
    if !outcome.is_deferred {
        status["runStrategy"] = json!(outcome.strategy.name());
    }
    status["observedGeneration"] = json!(machine.generation());
    status["desiredGeneration"] = json!(machine.generation());
    status["printableStatus"] =
        json!(printable::status(machine, instance, observed, outcome.is_starting));
    for (field, value) in [
        ("stateChangeRequests", json!(outcome.requests)),
        ("startFailure", outcome.start_failure.clone()),
    ] {
        let is_empty = value.is_null() || value.as_array().is_some_and(Vec::is_empty);
        match is_empty {
            true => drop(status.as_object_mut().and_then(|status| status.remove(field))),
            false => status[field] = value,
        }
    }
    status["conditions"] = json!(conditions_of(machine, instance, now));
    status
}

fn conditions_of(machine: &Object, instance: Option<&Object>, now: Timestamp) -> Vec<Value> {
    let before = list(&machine.value["status"]["conditions"]);
    let mut all: Vec<Value> = Vec::new();
    let mut set = |kind: &str, status: Truth, reason: &str, message: &str| {
        // The time of the last change is that of before.
        if let Some(known) = before.iter().find(|one| one["type"] == kind) {
            all.push(known.clone());
        }
        let condition = Condition { kind, status, reason, message, observed_generation: None };
        conditions::set(&mut all, &condition, now);
    };
    let of = instance.map_or(&Value::Null, |instance| &instance.value["status"]);
    match (instance, conditions::find(of, "Ready")) {
        (None, _) => set("Ready", Truth::False, "VMINotExists", "VMI does not exist"),
        (Some(_), None) => {
            let message = "VMI is missing the Ready condition";
            set("Ready", Truth::False, "VMIConditionMissing", message);
        }
        (Some(_), Some(_)) => {}
    }
    for condition in list(&of["conditions"]) {
        let status = match text(&condition["status"]) {
            "True" => Truth::True,
            "False" => Truth::False,
            _ => Truth::Unknown,
        };
        let of = |field: &str| text(&condition[field]);
        set(of("type"), status, of("reason"), of("message"));
    }
    if let Some(message) = instance.and_then(|instance| make::needs_restart(machine, instance)) {
        set("RestartRequired", Truth::True, "RestartRequired", message);
    }
    all
}

/// Whose instance it is.
pub fn owner(instance: &Object) -> Option<Name> {
    owners::controller_name(instance, MACHINE)
}
