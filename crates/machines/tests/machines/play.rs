//! Plays the add-ons: what machines, volumes, policies and snapshots become, by their status alone.
//!
//! | where | word | means |
//! |---|---|---|
//! | the URL of an image | `slow` | the import takes its time |
//! | | `broken` | the import fails |
//! | the name of a storage class | `waits` | claims are bound when a machine uses them |
//! | | `never` | claims are never bound |
//! | | `later` | claims are bound later |
//! | the name of a machine | `crashes` | its instance fails |
//! | | `slowly` | its instance takes time to run |
//! | the interface of a policy | `none` | the policy is degraded |
//! | the name of a snapshot | `bad` | it fails |

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use machines::kinds::{
    CLAIM, DATA_VOLUME, INSTANCE, MACHINE, POLICY, RESTORE, SNAPSHOT, STORAGE_CLASS,
};
use machines::value::{list, text};
use reconcile::act::finalizer_patch;
use reconcile::plan::Target;
use reconcile::{
    Context, Error, Kind, Name, Object, Plan, Reconciler, Wake, Watches, conditions, owners,
};
use serde_json::{Value, json};

const FINALIZER: &str = "kubevirt.io/virtualMachineControllerFinalize";
/// How long an import takes that takes its time.
pub const SLOW: Duration = Duration::from_secs(300);
/// What is later than at once.
const LATER: Duration = Duration::from_secs(5);

/// What is left of a time since an object was made.
fn left(object: &Object, of: Duration, now: Timestamp) -> Duration {
    let age = object.created().map_or(0, |made| now.as_second() - made.as_second());
    of.saturating_sub(Duration::from_secs(age.unsigned_abs()))
}

fn later(left: Duration) -> Plan {
    Plan { wake: Wake::After(left), ..Plan::nothing() }
}

/// Never returns.
pub async fn play(context: Context) {
    tokio::join!(play_add_ons(context.clone()), controllers::garbage_collector::run(context));
}

/// The same where nobody collects what has lost its owner: that follows every kind there is, and
/// an operator must not count on it.
pub async fn play_add_ons(context: Context) {
    tokio::join!(
        reconcile::run::run(context.clone(), Machines),
        reconcile::run::run(context.clone(), Instances),
        reconcile::run::run(context.clone(), Imports),
        reconcile::run::run(context.clone(), Claims),
        reconcile::run::run(context.clone(), Policies),
        reconcile::run::run(context.clone(), Snapshots),
        reconcile::run::run(context.clone(), Restores),
        reconcile::run::run(context, controllers::volume_protection::Claims),
    );
}

fn status(status: Value) -> Plan {
    Plan { status: Some(status), ..Plan::nothing() }
}

/// Starts and stops instances, as machines are wanted to run.
struct Machines;

impl Reconciler for Machines {
    type Observed = Option<Arc<Object>>;
    const NAME: &'static str = "played-machines";
    const KIND: Kind = MACHINE;

    fn watches(&self, watches: &mut Watches) {
        watches.owned(INSTANCE, MACHINE);
    }

    async fn observe(
        &self,
        context: &Context,
        machine: &Arc<Object>,
    ) -> Result<Option<Arc<Object>>, Error> {
        Ok(context.cache(INSTANCE).get(&machine.name))
    }

    fn plan(
        &self,
        machine: &Object,
        instance: &Option<Arc<Object>>,
        _: Timestamp,
    ) -> Result<Plan, Error> {
        let mut plan = Plan::nothing();
        let strategy = text(&machine.value["spec"]["runStrategy"]);
        let is_wanted = matches!(strategy, "Always" | "RerunOnFailure" | "Once");
        if machine.is_terminating() {
            match instance {
                Some(instance) if !instance.is_terminating() => {
                    plan.delete(Target::of(INSTANCE, instance));
                }
                Some(_) => {}
                None => {
                    let patch = finalizer_patch(machine, FINALIZER, false);
                    patch
                        .into_iter()
                        .for_each(|patch| plan.patch(Target::of(MACHINE, machine), patch));
                }
            }
            return Ok(plan);
        }
        if let Some(patch) = finalizer_patch(machine, FINALIZER, true) {
            plan.patch(Target::unchanged(MACHINE, machine), patch);
            return Ok(plan);
        }
        match instance {
            None if is_wanted => {
                let name = &machine.name.name;
                let mut made = owners::child(INSTANCE, name, MACHINE, machine);
                made["spec"] = machine.value["spec"]["template"]["spec"].clone();
                plan.create(INSTANCE, made);
            }
            Some(instance) if strategy == "Halted" && !instance.is_terminating() => {
                plan.delete(Target::of(INSTANCE, instance));
            }
            _ => {}
        }
        let phase = instance.as_ref().map_or("", |one| text(&one.value["status"]["phase"]));
        let printed = match (phase, is_wanted) {
            ("Running", _) => "Running",
            ("", false) => "Stopped",
            _ => "Starting",
        };
        plan.status = Some(json!({"printableStatus": printed, "created": !phase.is_empty(),
            "ready": phase == "Running"}));
        Ok(plan)
    }
}

/// Takes instances through their phases.
struct Instances;

impl Reconciler for Instances {
    type Observed = ();
    const NAME: &'static str = "played-instances";
    const KIND: Kind = INSTANCE;

    async fn observe(&self, _: &Context, _: &Arc<Object>) -> Result<(), Error> {
        Ok(())
    }

    fn plan(&self, instance: &Object, (): &(), now: Timestamp) -> Result<Plan, Error> {
        let crashes = instance.name.name.contains("crashes");
        let is_slow = instance.name.name.contains("slowly");
        let left = left(instance, if is_slow { LATER } else { Duration::ZERO }, now);
        let phase = match text(&instance.value["status"]["phase"]) {
            "" => "Pending",
            "Pending" => "Scheduling",
            "Scheduling" => "Scheduled",
            "Scheduled" if !left.is_zero() => return Ok(later(left)),
            "Scheduled" if crashes => "Failed",
            "Scheduled" => "Running",
            _ => return Ok(Plan::nothing()),
        };
        let mut now = json!({"phase": phase});
        if ["Scheduled", "Running"].contains(&phase) {
            now["nodeName"] = json!("played-node");
        }
        if phase == "Running" {
            let interfaces = list(&instance.value["spec"]["domain"]["devices"]["interfaces"]);
            let told = interfaces.iter().enumerate().map(|(at, one)| {
                json!({"name": one["name"], "mac": one["macAddress"],
                    "ipAddress": format!("10.0.{at}.2"), "interfaceName": format!("eth{at}")})
            });
            now["interfaces"] = told.collect();
        }
        Ok(status(now))
    }
}

/// Fills volumes.
struct Imports;

impl Reconciler for Imports {
    type Observed = Option<Arc<Object>>;
    const NAME: &'static str = "played-imports";
    const KIND: Kind = DATA_VOLUME;

    fn watches(&self, watches: &mut Watches) {
        watches.owned(CLAIM, DATA_VOLUME);
    }

    async fn observe(
        &self,
        context: &Context,
        volume: &Arc<Object>,
    ) -> Result<Option<Arc<Object>>, Error> {
        Ok(context.cache(CLAIM).get(&volume.name))
    }

    fn plan(
        &self,
        volume: &Object,
        claim: &Option<Arc<Object>>,
        now: Timestamp,
    ) -> Result<Plan, Error> {
        let mut plan = Plan::nothing();
        let Some(claim) = claim else {
            let mut made = owners::child(CLAIM, &volume.name.name, DATA_VOLUME, volume);
            made["spec"] = volume.value["spec"]["pvc"].clone();
            plan.create(CLAIM, made);
            return Ok(plan);
        };
        let url = volume.value["spec"]["source"].to_string();
        let is_bound = claim.value["status"]["phase"] == "Bound";
        let waits = text(&claim.value["spec"]["storageClassName"]).contains("waits");
        let left = left(volume, SLOW, now);
        let (phase, progress) = match text(&volume.value["status"]["phase"]) {
            "Succeeded" | "Failed" => return Ok(plan),
            _ if !is_bound && waits => ("WaitForFirstConsumer", "N/A"),
            _ if !is_bound => ("Pending", "N/A"),
            "ImportInProgress" if url.contains("broken") => ("Failed", "N/A"),
            "ImportInProgress" if url.contains("slow") && !left.is_zero() => {
                plan.wake = Wake::After(left);
                ("ImportInProgress", "45.34%")
            }
            "ImportInProgress" => ("Succeeded", "100.0%"),
            "ImportScheduled" => ("ImportInProgress", "N/A"),
            _ => ("ImportScheduled", "N/A"),
        };
        plan.status = Some(json!({"phase": phase, "progress": progress,
            "claimName": &*volume.name.name}));
        Ok(plan)
    }
}

/// Binds claims, and lets them grow.
struct Claims;

impl Reconciler for Claims {
    /// Whether a machine uses the claim.
    type Observed = bool;
    const NAME: &'static str = "played-claims";
    const KIND: Kind = CLAIM;

    fn watches(&self, watches: &mut Watches) {
        watches.by(INSTANCE, |change| {
            let of = change.object();
            let volumes = list(&of.value["spec"]["volumes"]).iter();
            let named =
                volumes.filter_map(|one| one["persistentVolumeClaim"]["claimName"].as_str());
            named.map(|name| Name::new(of.name.namespace.clone(), name)).collect()
        });
        watches.reads(STORAGE_CLASS);
    }

    async fn observe(&self, context: &Context, claim: &Arc<Object>) -> Result<bool, Error> {
        let instances = context.cache(INSTANCE).in_namespace(&claim.name.namespace);
        let name = &*claim.name.name;
        Ok(instances.iter().any(|one| {
            let mut volumes = list(&one.value["spec"]["volumes"]).iter();
            volumes.any(|volume| volume["persistentVolumeClaim"]["claimName"] == name)
        }))
    }

    fn plan(&self, claim: &Object, is_used: &bool, now: Timestamp) -> Result<Plan, Error> {
        if claim.value["status"]["phase"] == "Lost" {
            return Ok(Plan::nothing());
        }
        let class = text(&claim.value["spec"]["storageClassName"]);
        let is_late = class.contains("never") || (class.contains("waits") && !is_used);
        let is_bound = claim.value["status"]["phase"] == "Bound";
        let left = left(claim, LATER, now);
        if class.contains("later") && !is_bound && !left.is_zero() {
            return Ok(later(left));
        }
        if is_late && !is_bound {
            return Ok(status(json!({"phase": "Pending"})));
        }
        let size = &claim.value["spec"]["resources"]["requests"]["storage"];
        Ok(status(json!({"phase": "Bound", "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": size}})))
    }
}

struct Policies;

impl Reconciler for Policies {
    type Observed = ();
    const NAME: &'static str = "played-policies";
    const KIND: Kind = POLICY;

    async fn observe(&self, _: &Context, _: &Arc<Object>) -> Result<(), Error> {
        Ok(())
    }

    fn plan(&self, policy: &Object, (): &(), now: Timestamp) -> Result<Plan, Error> {
        let is_broken = policy.value["spec"].to_string().contains("\"none\"");
        let kind = if is_broken { "Degraded" } else { "Available" };
        let mut conditions = list(&policy.value["status"]["conditions"]).to_vec();
        let condition = conditions::Condition {
            kind,
            status: conditions::Truth::True,
            reason: "Played",
            message: "no such interface",
            observed_generation: None,
        };
        conditions::set(&mut conditions, &condition, now);
        Ok(status(json!({"conditions": conditions})))
    }
}

struct Snapshots;

impl Reconciler for Snapshots {
    type Observed = ();
    const NAME: &'static str = "played-snapshots";
    const KIND: Kind = SNAPSHOT;

    async fn observe(&self, _: &Context, _: &Arc<Object>) -> Result<(), Error> {
        Ok(())
    }

    fn plan(&self, snapshot: &Object, (): &(), now: Timestamp) -> Result<Plan, Error> {
        let is_bad = text(&snapshot.value["spec"]["source"]["name"]).contains("bad");
        Ok(match text(&snapshot.value["status"]["phase"]) {
            "" => status(json!({"phase": "InProgress", "readyToUse": false})),
            "InProgress" if is_bad => status(json!({"phase": "Failed", "readyToUse": false,
                "error": {"message": "the disk is full"}})),
            "InProgress" => status(json!({"phase": "Succeeded", "readyToUse": true,
                "creationTime": conditions::time(now)})),
            _ => Plan::nothing(),
        })
    }
}

struct Restores;

impl Reconciler for Restores {
    type Observed = ();
    const NAME: &'static str = "played-restores";
    const KIND: Kind = RESTORE;

    async fn observe(&self, _: &Context, _: &Arc<Object>) -> Result<(), Error> {
        Ok(())
    }

    fn plan(&self, restore: &Object, (): &(), now: Timestamp) -> Result<Plan, Error> {
        Ok(match &restore.value["status"]["complete"] {
            Value::Null => status(json!({"complete": false})),
            Value::Bool(false) => {
                status(json!({"complete": true, "restoreTime": conditions::time(now)}))
            }
            _ => Plan::nothing(),
        })
    }
}
