//! The disks of a Wukong: a DataVolume for each that has an image, a claim for the others; which
//! of them are there, and which are to grow.

use amounts::Quantity;
use reconcile::plan::Target;
use reconcile::{Object, Step, conditions, owners};
use serde_json::{Value, json};

use super::observe::Observed;
use super::spec::{Disk, Wukong, in_the_way};
use crate::add_ons::definition_name;
use crate::kinds::{CLAIM, DATA_VOLUME};
use crate::value::text;

/// An image that is the contents of a claim: `pvc://NAME`.
pub const CLAIM_SCHEME: &str = "pvc://";

/// Tells nodes of ours that what is made of a claim is linked to it. CDI copies as it always does.
const CLONE_TYPE: &str = "setpoint.dev/clone-type";

/// How the disks are, and what is to be done for them.
pub struct Disks {
    pub steps: Vec<Step>,
    /// What lets claims grow. It comes last: whether it is refused must not matter to the machine.
    pub expansions: Vec<Step>,
    pub expansion: Expansion,
    pub state: State,
    pub statuses: Vec<Value>,
    pub bound: usize,
}

#[derive(Debug, PartialEq, Eq)]
pub enum State {
    Bound,
    Pending { reason: &'static str, message: String },
    Failed(String),
}

#[derive(Debug, PartialEq, Eq)]
pub enum Expansion {
    NotAsked,
    UnderWay(String),
    Failed(String),
}

pub fn look(wukong: &Wukong<'_>, observed: &Observed) -> Disks {
    let mut found = Disks {
        steps: Vec::new(),
        expansions: Vec::new(),
        expansion: Expansion::NotAsked,
        state: State::Bound,
        statuses: Vec::new(),
        bound: 0,
    };
    for disk in wukong.disks() {
        let state = one(&mut found.steps, wukong, &disk, observed);
        let claim = claim_of(wukong, &disk, observed);
        let mut status = json!({"name": disk.name(), "pvcName": wukong.claim_name(disk.name()),
            "bound": state == State::Bound});
        if let Some(claim) = claim {
            status["size"] = json!(size(claim));
            expand(&mut found, &disk, claim, observed);
        }
        found.statuses.push(status);
        found.bound += usize::from(state == State::Bound);
        let worse = matches!(
            (&found.state, &state),
            (State::Bound, _) | (State::Pending { .. }, State::Failed(_))
        );
        if worse {
            found.state = state;
        }
    }
    found
}

/// The claim of a disk, if it is ours or that of a volume of ours.
fn claim_of<'a>(
    wukong: &Wukong<'_>,
    disk: &Disk<'_>,
    observed: &'a Observed,
) -> Option<&'a Object> {
    let claim = observed.claims.get(disk.name())?;
    let volume = observed.volumes.get(disk.name()).filter(|volume| wukong.owns(volume));
    (wukong.owns(claim) || volume.is_some() && is_filled(claim)).then_some(claim)
}

/// Whether a claim belongs to the volume of its name.
pub fn is_filled(claim: &Object) -> bool {
    owners::controller_name(claim, DATA_VOLUME).is_some_and(|volume| volume == claim.name)
}

/// How large a claim really is, as far as anybody knows.
fn size(claim: &Object) -> &str {
    match text(&claim.value["status"]["capacity"]["storage"]) {
        "" => request(claim),
        capacity => capacity,
    }
}

fn request(claim: &Object) -> &str {
    text(&claim.value["spec"]["resources"]["requests"]["storage"])
}

fn pending(reason: &'static str, message: String) -> State {
    State::Pending { reason, message }
}

fn one(steps: &mut Vec<Step>, wukong: &Wukong<'_>, disk: &Disk<'_>, observed: &Observed) -> State {
    let claim = observed.claims.get(disk.name()).map(|claim| &**claim);
    match disk.image {
        "" => match claim {
            None => {
                let object = wanted_claim(wukong, disk, observed);
                steps.push(Step::Create { kind: CLAIM, object });
                pending("VolumesPending", format!("PVC {} is being made", name(wukong, disk)))
            }
            Some(claim) if !wukong.owns(claim) => State::Failed(in_the_way(CLAIM, claim)),
            Some(claim) => bound(claim, observed),
        },
        _ => imported(steps, wukong, disk, (claim, observed)),
    }
}

fn name(wukong: &Wukong<'_>, disk: &Disk<'_>) -> String {
    format!("{}/{}", wukong.namespace(), wukong.claim_name(disk.name()))
}

fn imported(
    steps: &mut Vec<Step>,
    wukong: &Wukong<'_>,
    disk: &Disk<'_>,
    (claim, observed): (Option<&Object>, &Observed),
) -> State {
    if !observed.add_ons.importer {
        let definition = definition_name(DATA_VOLUME);
        return pending(
            "AddOnMissing",
            format!("disk {} needs {definition}, which the cluster does not have", disk.name()),
        );
    }
    let Some(volume) = observed.volumes.get(disk.name()) else {
        return match claim {
            // What was filled may have lost the volume that filled it.
            Some(claim) if wukong.owns(claim) => bound(claim, observed),
            Some(claim) if is_filled(claim) => {
                pending("VolumesPending", format!("PVC {} has lost its DataVolume", claim.name))
            }
            Some(claim) => State::Failed(in_the_way(CLAIM, claim)),
            None => {
                let object = wanted_volume(wukong, disk, observed);
                steps.push(Step::Create { kind: DATA_VOLUME, object });
                let what = format!("DataVolume {} is being made", name(wukong, disk));
                pending("ImportInProgress", what)
            }
        };
    };
    if !wukong.owns(volume) {
        return State::Failed(in_the_way(DATA_VOLUME, volume));
    }
    let status = &volume.value["status"];
    let class = disk.class(&observed.classes);
    match (text(&status["phase"]), claim) {
        ("Succeeded", Some(claim)) => bound(claim, observed),
        (phase @ ("Failed" | "Error"), _) => State::Failed(format!(
            "DataVolume {} is in {phase} state{}",
            volume.name,
            because(volume)
        )),
        ("WaitForFirstConsumer" | "PendingPopulation", _)
            if observed.classes.waits_for_consumer(class) =>
        {
            State::Bound
        }
        (phase, _) => {
            let phase = if phase.is_empty() { "Pending" } else { phase };
            let progress = match text(&status["progress"]) {
                "" | "N/A" => String::new(),
                progress => format!(", {progress}"),
            };
            let what = format!(
                "DataVolume {} is in {phase} state{progress}{}",
                volume.name,
                because(volume)
            );
            pending("ImportInProgress", what)
        }
    }
}

/// What a volume says of its worker, if that does not run.
fn because(volume: &Object) -> String {
    let running = conditions::find(&volume.value["status"], "Running");
    let message = running.filter(|one| one["status"] != "True").map(|one| text(&one["message"]));
    message.filter(|why| !why.is_empty()).map(|why| format!(": {why}")).unwrap_or_default()
}

fn bound(claim: &Object, observed: &Observed) -> State {
    let class = text(&claim.value["spec"]["storageClassName"]);
    match text(&claim.value["status"]["phase"]) {
        "Bound" => State::Bound,
        "Lost" => State::Failed(format!("PVC {} is in Lost state", claim.name)),
        "Pending" | "" if observed.classes.waits_for_consumer(class) => State::Bound,
        phase => {
            let phase = if phase.is_empty() { "Pending" } else { phase };
            pending("VolumesPending", format!("PVC {} is in {phase} state", claim.name))
        }
    }
}

fn claim_spec(disk: &Disk<'_>, observed: &Observed) -> Value {
    json!({
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": disk.size()}},
        "storageClassName": disk.class(&observed.classes),
    })
}

fn wanted_claim(wukong: &Wukong<'_>, disk: &Disk<'_>, observed: &Observed) -> Value {
    let mut object = wukong.child(CLAIM, &wukong.claim_name(disk.name()));
    object["spec"] = claim_spec(disk, observed);
    object
}

fn wanted_volume(wukong: &Wukong<'_>, disk: &Disk<'_>, observed: &Observed) -> Value {
    let mut object = wukong.child(DATA_VOLUME, &wukong.claim_name(disk.name()));
    object["spec"] =
        json!({"pvc": claim_spec(disk, observed), "source": source(wukong, disk.image)});
    if disk.value["cloneType"] == "linked" {
        object["metadata"]["annotations"] = json!({CLONE_TYPE: "linked"});
    }
    object
}

/// Where an image comes from: a server, a claim of the same namespace, or a registry of containers.
fn source(wukong: &Wukong<'_>, image: &str) -> Value {
    if let Some(claim) = image.strip_prefix(CLAIM_SCHEME) {
        return json!({"pvc": {"namespace": wukong.namespace(), "name": claim}});
    }
    let is_of = |schemes: &[&str]| schemes.iter().any(|scheme| image.starts_with(scheme));
    if is_of(&["http://", "https://"]) {
        return json!({"http": {"url": image}});
    }
    let url = match is_of(&["docker://", "oci-archive://"]) {
        true => image.to_owned(),
        false => format!("docker://{image}"),
    };
    json!({"registry": {"url": url, "pullMethod": "pod"}})
}

/// Lets a claim grow to what its disk asks for.
fn expand(found: &mut Disks, disk: &Disk<'_>, claim: &Object, observed: &Observed) {
    let amount = |text: &str| Quantity::parse(text).ok();
    let (Some(wanted), Some(asked)) = (amount(disk.size()), amount(request(claim))) else {
        return;
    };
    let status = &claim.value["status"];
    let is_more = |one: &Quantity, other: &Quantity| other.minus(one).is_negative();
    if !is_more(&wanted, &asked) {
        let is_resizing = conditions::is_true(status, "Resizing");
        if is_resizing && found.expansion == Expansion::NotAsked {
            let what = format!("PVC {} is being resized to {}", claim.name, request(claim));
            found.expansion = Expansion::UnderWay(what);
        }
        return;
    }
    let class = text(&claim.value["spec"]["storageClassName"]);
    let phase = text(&status["phase"]);
    if !observed.classes.allows_expansion(class) {
        let why = format!("StorageClass {class} does not allow volume expansion");
        found.expansion = Expansion::Failed(why);
    } else if phase != "Bound" {
        let why =
            format!("PVC {} is not bound (current phase: {phase}), cannot expand", claim.name.name);
        found.expansion = Expansion::Failed(why);
    } else {
        let patch = json!({"spec": {"resources": {"requests": {"storage": disk.size()}}}});
        found.expansions.push(Step::Patch { target: Target::of(CLAIM, claim), patch });
        if !matches!(found.expansion, Expansion::Failed(_)) {
            let what = format!("PVC {} grows to {}", claim.name, disk.size());
            found.expansion = Expansion::UnderWay(what);
        }
    }
}
