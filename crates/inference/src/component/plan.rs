//! What a component does next.

use k8s_openapi::jiff::Timestamp;
use reconcile::act::finalizer_patch;
use reconcile::plan::{About, Notice, Repeat, Target};
use reconcile::{Object, Plan};

use super::children;
use super::facts::Facts;
use super::observe::{Observed, is_alone_of_many};
use super::status;
use crate::backends::{Deployer, Role};
use crate::discovery_account;
use crate::kinds::{COMPONENT, DEPLOYMENT, INGRESS, LEADER_WORKER_SET, SERVICE, VIRTUAL_SERVICE};
use crate::multinode;
use crate::names;
use crate::pods::{Given, has_legacy_type};
use crate::settings::{Discovery, Settings};
use crate::sync_resource::{Decision, Sync};

pub fn plan(settings: &Settings, object: &Object, observed: &Observed, now: Timestamp) -> Plan {
    let mut plan = Plan::nothing();
    let is_wanted = !object.is_terminating();
    if let Some(patch) = finalizer_patch(object, names::FINALIZER, is_wanted) {
        plan.patch(Target::unchanged(COMPONENT, object), patch);
        return plan;
    }
    if !is_wanted {
        return plan;
    }
    let facts = Facts::of(object);
    let is_set = settings.gates.leader_worker_set && facts.nodes() > 1;
    let decision = match sync(&mut plan, settings, &facts, observed) {
        Ok(decision) => decision,
        Err(why) => return failed(object, &why, now),
    };
    if !status::has_conditions(object) {
        let message = "Starting to reconcile DynamoComponentDeployment";
        plan.notices.push(Notice::normal("Reconciling", message));
    }
    let live = match is_set {
        true => status::Live::Set(observed.set.as_deref()),
        false => status::Live::Deployment(observed.deployment.as_deref()),
    };
    // What was changed just now has not been observed yet.
    let is_current = !matches!(decision, Decision::Create | Decision::Update);
    plan.status = Some(status::status(&facts, &live, is_current, now));
    plan
}

/// Keeps all objects of the component; returns what became of the one that runs its pods.
fn sync(
    plan: &mut Plan,
    settings: &Settings,
    facts: &Facts<'_>,
    observed: &Observed,
) -> Result<Decision, String> {
    let is_set = settings.gates.leader_worker_set && facts.nodes() > 1;
    let template = match is_set {
        true => "/spec/leaderWorkerTemplate/leaderTemplate/metadata/labels",
        false => "/spec/template/metadata/labels",
    };
    let live = if is_set { &observed.set } else { &observed.deployment };
    let labels = live.as_ref().and_then(|live| live.value.pointer(template));
    let given = Given {
        settings,
        facts,
        role: if is_set { Role::Leader } else { Role::Main },
        deployer: Deployer::LeaderWorkerSet,
        secrets: &observed.secrets,
        account: &observed.account,
        is_legacy: labels.is_some_and(|labels| has_legacy_type(labels, facts)),
    };
    let workload = match is_set {
        true => children::leader_worker_set(&given)?,
        false => children::deployment(&given)?,
    };
    let (service, model) = (children::service(&given, is_set), children::model_service(facts));
    let ingress = children::ingress(facts, settings);
    if is_alone_of_many(facts, settings) {
        multinode::sync(plan, settings, (COMPONENT, facts.object), &observed.multinode);
    }
    let mut sync = Sync::new(plan, Some((COMPONENT, facts.object)));
    let is_alone = facts.graph().is_none() && facts.discovery(settings) == Discovery::Kubernetes;
    if is_alone {
        let (namespace, own) = (facts.namespace(), facts.own_name());
        discovery_account::sync(&mut sync, namespace, own, &observed.discovery);
    }
    let decision = match is_set {
        true => sync.keep(LEADER_WORKER_SET, observed.set.as_deref(), workload),
        false => sync.keep(DEPLOYMENT, observed.deployment.as_deref(), workload),
    };
    sync.bring(SERVICE, observed.service.as_deref(), service);
    if let Some(model) = model {
        sync.keep(SERVICE, observed.model_service.as_deref(), model);
    }
    let own_ingress = observed.ingress.as_deref();
    let own_ingress = own_ingress.filter(|one| one.controller() == Some(&facts.object.uid));
    sync.bring(INGRESS, own_ingress, ingress);
    if !settings.ingress.gateway.is_empty() {
        let route = children::virtual_service(facts, settings);
        sync.bring(VIRTUAL_SERVICE, observed.route.as_deref(), route);
    }
    let is_modified = sync.is_modified;
    tell(plan, facts, is_modified);
    Ok(decision)
}

/// What is said of every look; once is enough.
fn tell(plan: &mut Plan, facts: &Facts<'_>, is_modified: bool) {
    let mut say = |reason: &'static str, message: String| {
        let (name, uid) = (facts.object.name.clone(), Some(facts.object.uid.clone()));
        let (notice, repeat) = (Notice::normal(reason, message), Repeat::Never);
        plan.about.push(About { kind: COMPONENT, name, uid, notice, repeat });
    };
    if !is_modified {
        let message = format!("No changes to dynamo deployment {}", facts.own_name());
        say("UpdateDynamoGraphDeployment", message);
    }
    say("Update", "All resources updated!".to_owned());
}

/// Nothing was done, and why.
pub fn failed(object: &Object, why: &str, now: Timestamp) -> Plan {
    Plan {
        status: Some(status::failed(object, why, now)),
        notices: vec![Notice::failure("ReconcileError", why)],
        ..Plan::nothing()
    }
}
