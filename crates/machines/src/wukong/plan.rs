//! What a Wukong does next: networks, then disks, then, when both are there, the machine; and what
//! is told of it. A disk that cannot be does not keep networks from being made, nor the other way
//! round; a machine waits for all of them.

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use reconcile::act::finalizer_patch;
use reconcile::conditions::{self, Truth};
use reconcile::plan::Target;
use reconcile::{Error, Object, Plan, Step, Wake};

use super::disks::{self, Disks};
use super::exposure::{self, Exposure};
use super::machine::{self, Start};
use super::networks::{self, Networks};
use super::observe::{Keys, Observed};
use super::restore::{self, Restore};
use super::spec::{FINALIZER, Wukong};
use super::status::{
    EXPANDED, EXPOSED, NETWORK_FAILED, NETWORKS, READY, RESTORED, SERVICE_FAILED, Status, VOLUMES,
};
use super::{deletion, validate};
use crate::add_ons::definition_name;
use crate::kinds::{ATTACHMENT, CLAIM, DATA_VOLUME, MACHINE, POLICY, RESTORE, SERVICE, WUKONG};

/// When is looked again though nothing changed: at what is being made, at what failed, at what is
/// wrong.
pub const CREATING: Duration = Duration::from_secs(10);
pub const ERROR_LOOK: Duration = Duration::from_secs(30);
const INVALID_LOOK: Duration = Duration::from_secs(60);

pub fn plan(object: &Object, observed: &Observed, now: Timestamp) -> Plan {
    let (mut plan, status) = decide(object, observed, now);
    if let Some(status) = status {
        plan.notices.extend(status.notice());
        plan.status = Some(status.done());
    }
    plan
}

/// What is told when a step was refused.
pub fn refused(object: &Object, observed: &Observed, error: &Error, now: Timestamp) -> Plan {
    let (_, Some(mut status)) = decide(object, observed, now) else { return Plan::nothing() };
    let Error::Request { what, .. } = error else { return Plan::nothing() };
    let is_about =
        |kinds: &[reconcile::Kind]| kinds.iter().any(|kind| what.contains(&format!(" {kind} ")));
    let why = error.said();
    if is_about(&[ATTACHMENT, POLICY]) {
        status.set(NETWORKS, Truth::False, NETWORK_FAILED, &why);
    } else if is_about(&[CLAIM]) && what.starts_with("patch ") {
        // A disk that does not grow is no reason to call the machine broken.
        status.set(EXPANDED, Truth::False, "ExpansionFailed", &why);
        return told(status);
    } else if is_about(&[CLAIM, DATA_VOLUME]) {
        status.set(VOLUMES, Truth::False, "VolumeFailed", &why);
    } else if is_about(&[RESTORE]) {
        status.set(RESTORED, Truth::False, "RestoreFailed", &why);
        return told(status);
    } else if is_about(&[SERVICE]) {
        status.set(EXPOSED, Truth::False, SERVICE_FAILED, &why);
        return told(status);
    } else if is_about(&[MACHINE]) {
        status.set(READY, Truth::False, "VMFailed", &why);
    }
    status.phase("Error");
    told(status)
}

fn told(status: Status<'_>) -> Plan {
    let notices = status.notice().into_iter().collect();
    Plan { notices, status: Some(status.done()), ..Plan::nothing() }
}

fn decide<'a>(
    object: &'a Object,
    observed: &Observed,
    now: Timestamp,
) -> (Plan, Option<Status<'a>>) {
    let wukong = Wukong::of(object);
    let mut plan = Plan::nothing();
    let mut status = Status::of(wukong, now);
    if object.is_terminating() {
        return deletion::decide(&wukong, observed, status);
    }
    if observed.is_gone {
        return (plan, None);
    }
    if let Some(patch) = finalizer_patch(object, FINALIZER, true) {
        plan.patch(Target::unchanged(WUKONG, object), patch);
        return (plan, None);
    }
    let wrong = validate::spec(wukong.spec(), observed.classes.default());
    if !wrong.is_empty() {
        status.phase("Error");
        status.set(READY, Truth::False, "InvalidSpec", &wrong.join("; "));
        plan.wake = Wake::After(INVALID_LOOK);
        return (plan, Some(status));
    }
    if wukong.phase().is_empty() {
        status.phase("Pending");
        return (plan, Some(status));
    }
    go_on(&mut plan, &wukong, observed, &mut status);
    (plan, Some(status))
}

fn go_on(plan: &mut Plan, wukong: &Wukong<'_>, observed: &Observed, status: &mut Status<'_>) {
    let mut networks = networks::look(wukong, observed);
    let mut disks = disks::look(wukong, observed);
    let mut restores = Vec::new();
    let restore = restore::look(&mut restores, wukong, observed);
    let mut exposing = Vec::new();
    let exposure = exposure::look(&mut exposing, wukong, observed);
    let (machine, instance) = (observed.machine.as_deref(), observed.instance.as_deref());
    status.networks(&networks, instance);
    status.volumes(&disks);
    status.restore(&restore);
    status.exposure(&exposure);
    status.add_ons(&missing(observed, (&networks, &restore), wukong));
    plan.wake = status.machine(machine, instance);
    if matches!(restore, Restore::UnderWay(_)) {
        // Disks come and go meanwhile, and none of that is ours to mend.
        plan.steps = restores;
        plan.wake = plan.wake.or_earlier(Wake::After(CREATING));
        return;
    }
    let steps = [std::mem::take(&mut networks.steps), std::mem::take(&mut disks.steps)];
    let [first, second] = match failed_before(wukong) {
        // What was refused would be again, and keep the disks from being made.
        true => {
            let [networks, disks] = steps;
            [disks, networks]
        }
        false => steps,
    };
    plan.steps.extend(first.into_iter().chain(second));
    plan.steps.extend(restores);
    let start = if matches!(restore, Restore::IsHeld(_)) { Start::Held } else { Start::AsAsked };
    go_on_with_machine(plan, wukong, (observed, &networks, &disks, start), status);
    plan.steps.append(&mut disks.expansions);
    // That it is refused stops nothing else.
    plan.steps.append(&mut exposing);
    let waits = !matches!(restore, Restore::NotAsked | Restore::Done(_));
    let grows = matches!(disks.expansion, disks::Expansion::UnderWay(_));
    let is_in_the_way = matches!(exposure, Exposure::Failed(_));
    if waits || grows || is_in_the_way {
        plan.wake = plan.wake.or_earlier(Wake::After(ERROR_LOOK));
    }
}

/// Whether the networks of this very specification were refused.
fn failed_before(wukong: &Wukong<'_>) -> bool {
    let found = conditions::find(wukong.status(), NETWORKS);
    found.is_some_and(|one| {
        one["reason"] == NETWORK_FAILED
            && one["observedGeneration"].as_i64() == Some(wukong.object.generation())
    })
}

fn go_on_with_machine(
    plan: &mut Plan,
    wukong: &Wukong<'_>,
    (observed, networks, disks, start): (&Observed, &Networks, &Disks, Start),
    status: &mut Status<'_>,
) {
    let has_failed = matches!(networks.state, networks::State::Failed(_))
        || matches!(disks.state, disks::State::Failed(_));
    if has_failed {
        status.phase("Error");
        plan.wake = plan.wake.or_earlier(Wake::After(ERROR_LOOK));
        return;
    }
    let is_ready = networks.state == networks::State::Ready && disks.state == disks::State::Bound;
    if !is_ready || !observed.add_ons.kubevirt {
        if observed.machine.is_none() {
            status.phase("Creating");
        }
        let wait = if observed.add_ons.kubevirt { CREATING } else { ERROR_LOOK };
        plan.wake = plan.wake.or_earlier(Wake::After(wait));
        return;
    }
    if let (Keys::Missing(why), None) = (&observed.keys, &observed.machine) {
        status.phase("Creating");
        status.set(READY, Truth::False, "KeysMissing", why);
        plan.wake = Wake::After(CREATING);
        return;
    }
    match machine::step(wukong, networks, observed, start) {
        Ok(step) => {
            status.value["vmName"] = wukong.machine_name().into();
            if matches!(step, Some(Step::Create { .. })) {
                plan.wake = plan.wake.or_earlier(Wake::After(CREATING));
            }
            plan.steps.extend(step);
        }
        Err(why) => {
            status.phase("Error");
            status.set(READY, Truth::False, "VMFailed", &why);
            plan.wake = Wake::After(ERROR_LOOK);
        }
    }
}

/// The definitions that this object would need.
fn missing(
    observed: &Observed,
    (networks, restore): (&Networks, &Restore),
    wukong: &Wukong<'_>,
) -> Vec<String> {
    let has_image = wukong.disks().iter().any(|disk| !disk.image.is_empty());
    let needs = [
        (MACHINE, !observed.add_ons.kubevirt),
        (DATA_VOLUME, has_image && !observed.add_ons.importer),
        (ATTACHMENT, !networks.fallen_back.is_empty()),
        (RESTORE, *restore != Restore::NotAsked && !observed.add_ons.snapshots),
    ];
    let missing = needs.into_iter().filter(|(_, is_missing)| *is_missing);
    missing.map(|(kind, _)| definition_name(kind)).collect()
}
