//! How a Wukong goes: the machine, then its disks, then its networks, and the finalizer last. Each
//! waits until what comes before it has gone.

use std::sync::Arc;

use reconcile::act::finalizer_patch;
use reconcile::conditions::Truth;
use reconcile::plan::Target;
use reconcile::{Kind, Object, Plan, Wake};

use super::observe::Observed;
use super::plan::CREATING;
use super::spec::{FINALIZER, Wukong};
use super::status::{READY, Status};
use crate::kinds::{
    ATTACHMENT, CLAIM, DATA_VOLUME, INSTANCE, MACHINE, POLICY, RESTORE, SERVICE, WUKONG,
};

/// What goes together, in order.
const STAGES: [&[Kind]; 4] =
    [&[MACHINE, RESTORE, SERVICE], &[DATA_VOLUME], &[CLAIM], &[ATTACHMENT, POLICY]];

pub fn decide<'a>(
    wukong: &Wukong<'a>,
    observed: &Observed,
    mut status: Status<'a>,
) -> (Plan, Option<Status<'a>>) {
    let mut plan = Plan::nothing();
    let Some(patch) = finalizer_patch(wukong.object, FINALIZER, false) else {
        return (plan, None);
    };
    let Some(waits_for) = next(&mut plan, wukong, observed) else {
        plan.patch(Target::unchanged(WUKONG, wukong.object), patch);
        return (plan, None);
    };
    let message = format!("waiting until {waits_for} is gone");
    status.set(READY, Truth::False, "Deleting", &message);
    plan.wake = Wake::After(CREATING);
    (plan, Some(status))
}

/// Deletes what is of the first stage that has anything left; says what is waited for.
fn next(plan: &mut Plan, wukong: &Wukong<'_>, observed: &Observed) -> Option<String> {
    for (number, stage) in STAGES.iter().enumerate() {
        let left: Vec<&(Kind, Arc<Object>)> =
            observed.owned.iter().filter(|(kind, _)| stage.contains(kind)).collect();
        for (kind, object) in left.iter().filter(|(_, object)| !object.is_terminating()) {
            plan.delete(Target::of(*kind, object));
        }
        if let Some((kind, object)) = left.first() {
            return Some(format!("{} {}", kind.kind, object.name));
        }
        // A machine is gone when nothing of it runs.
        if let (0, Some(instance)) = (number, &observed.instance)
            && is_of_machine(wukong, observed, instance)
        {
            return Some(format!("{} {}", INSTANCE.kind, instance.name));
        }
    }
    None
}

/// Whether an instance is, or was, of a machine of ours.
fn is_of_machine(wukong: &Wukong<'_>, observed: &Observed, instance: &Object) -> bool {
    let of = reconcile::owners::controller_name(instance, MACHINE);
    let is_named = of.is_some_and(|of| *of.name == *wukong.machine_name());
    is_named && observed.machine.as_ref().is_none_or(|machine| wukong.owns(machine))
}
