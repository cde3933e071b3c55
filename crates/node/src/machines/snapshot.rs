//! Copies of the disks of a machine, kept and brought back: all disks of it or none.
//!
//! A copy is a directory that gets its name when it is whole. What is brought back is laid beside
//! the disks first and put in their place when all is there; until the object says that it is
//! complete, that is done again.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hypervisor::images::Idle;
use hypervisor::qemu::memory::{fits, note_of};
use hypervisor::{Copied, Machine, Quiet, State, images};
use reconcile::conditions::{self, Condition, Truth};
use reconcile::plan::Target;
use reconcile::{Kind, Name, Object, Wake};
use serde_json::{Value, json};

use super::Shared;
use super::failure::Failure;
use super::held::Purpose;
use super::instance::machine::{check_name, claim_of};
use super::kinds::{INSTANCE, MACHINE, RESTORE, SNAPSHOT};
use super::volumes::{self, Claimed, list, text};

/// How long what goes wrong is tried again, as KubeVirt does unless a snapshot says otherwise.
const PATIENCE_SECONDS: i64 = 300;
/// Beside copies during which the guest held its file systems still.
const FROZEN: &str = "frozen";

/// Beside copies that were made with the memory of the machine.
const MEMORY: &str = "memory";
/// What a snapshot says that is to have memory.
const INCLUDE_MEMORY: &str = "setpoint.dev/include-memory";

const RUNS: &str = "Restore target VMI must be powered off before restore operation";

/// A volume of a machine and its claim.
type Volume = (String, Claimed);

/// Makes the copies that a snapshot asks for.
pub async fn keep(shared: Arc<Shared>, name: Name) -> Result<Wake, Failure> {
    let Some(snapshot) = shared.context.cache(SNAPSHOT).get(&name) else {
        sweep(&shared);
        return Ok(Wake::OnChange);
    };
    let status = &snapshot.value["status"];
    let is_over = status["readyToUse"] == true || status["phase"] == "Failed";
    if is_over || snapshot.is_terminating() {
        return Ok(Wake::OnChange);
    }
    let source = &snapshot.value["spec"]["source"];
    let of = Name::new(name.namespace.clone(), text(&source["name"]));
    let machine = live(&shared, MACHINE, &of).await?;
    let Some(machine) = machine else {
        return fail(&shared, SNAPSHOT, &snapshot, format!("VirtualMachine {of} is not found"))
            .await;
    };
    let disks = match disks(&shared, &machine).await {
        Ok(disks) => disks,
        Err(failure @ Failure::Server(_)) => return Err(failure),
        Err(Failure::Because(why)) if is_elsewhere(&why) => return Ok(Wake::OnChange),
        Err(Failure::Because(why)) => return fail(&shared, SNAPSHOT, &snapshot, why).await,
    };
    let instance = live(&shared, INSTANCE, &of).await?;
    let runs = match &instance {
        Some(one) => runs(&shared, one).await.then_some(one),
        None => None,
    };
    let place = shared.options.snapshots.join(&snapshot.uid);
    if !place.exists() {
        let with_memory = snapshot.annotation(INCLUDE_MEMORY) == Some("true");
        let running = runs.map(|one| Running { id: &one.uid, with_memory });
        let copied = copy(&shared, &disks, running, &place).await;
        if let Err(why) = copied {
            return stumble(&shared, SNAPSHOT, &snapshot, why).await;
        }
    }
    let has = |name: &str| place.join(name).exists();
    let indications = match (runs, has(MEMORY), has(FROZEN)) {
        (_, true, _) => json!(["Online", "Memory"]),
        (None, ..) => json!([]),
        (Some(_), _, true) => json!(["Online", "GuestAgent"]),
        (Some(_), _, false) => json!(["Online", "NoGuestAgent"]),
    };
    let names: Vec<&str> = disks.iter().map(|(name, _)| name.as_str()).collect();
    let now = shared.context.environment.now();
    let mut told = json!({
        "phase": "Succeeded", "readyToUse": true, "sourceUID": machine.uid,
        "creationTime": conditions::time(now),
        "indications": indications, "error": null,
        "snapshotVolumes": {"includedVolumes": names},
    });
    told["conditions"] = ready(&snapshot, "Operation complete", now);
    write(&shared, SNAPSHOT, &snapshot, told).await
}

/// Whether it is for another node to do.
fn is_elsewhere(why: &str) -> bool {
    why.contains("is on another node")
}

/// Whether a machine runs here, whatever is told of it.
async fn runs(shared: &Shared, instance: &Object) -> bool {
    let state = shared.options.hypervisor.state(&instance.uid).await;
    matches!(state, State::Running | State::Paused(_))
}

/// Holds disks still that no machine has.
fn still(disks: &[Volume]) -> Result<Vec<Idle>, String> {
    // One that was never started with a disk has none.
    let there = disks.iter().filter(|(_, claimed)| claimed.disk.exists());
    let held = there.map(|(_, claimed)| Idle::hold(&claimed.disk));
    held.collect::<Result<Vec<Idle>, images::Fault>>().map_err(|fault| fault.to_string())
}

fn files(disks: &[Volume]) -> impl Iterator<Item = &Path> {
    disks.iter().map(|(_, claimed)| claimed.disk.as_path())
}

/// A machine that runs while it is copied.
struct Running<'a> {
    id: &'a str,
    with_memory: bool,
}

async fn copy(
    shared: &Shared,
    disks: &[Volume],
    running: Option<Running<'_>>,
    place: &Path,
) -> Result<(), String> {
    let part = place.with_extension("part");
    let said = |error: std::io::Error| format!("could not keep a copy: {error}");
    let _ = fs::remove_dir_all(&part);
    fs::create_dir_all(&part).map_err(said)?;
    let file = |name: &str| part.join(format!("{name}.img"));
    match running {
        Some(Running { id, with_memory }) => {
            let memory = with_memory.then(|| part.join(MEMORY));
            let copies =
                disks.iter().map(|(disk, _)| Copied { disk: disk.clone(), to: file(disk) });
            let copies: Vec<Copied> = copies.collect();
            let done = shared.options.hypervisor.copy(id, &copies, memory.as_deref()).await;
            if done.map_err(|error| error.chain())? == Quiet::Frozen {
                fs::write(part.join(FROZEN), "").map_err(said)?;
            }
        }
        None => {
            let _hold = shared.held.take(files(disks), Purpose::Copy)?;
            let _still = still(disks)?;
            for (name, claimed) in disks {
                copy_file(claimed.disk.clone(), file(name), claimed.bytes).await?;
            }
        }
    }
    fs::rename(&part, place).map_err(said)
}

async fn copy_file(from: PathBuf, to: PathBuf, bytes: u64) -> Result<(), String> {
    let copied = tokio::task::spawn_blocking(move || {
        let length = fs::metadata(&from).map_or(0, |file| file.len());
        images::copy(&from, &to, bytes.max(length))
    });
    let copied = copied.await.map_err(|error| error.to_string())?;
    copied.map_err(|fault| fault.to_string())
}

/// Puts the disks of a machine back as a snapshot has them.
pub async fn bring_back(shared: Arc<Shared>, name: Name) -> Result<Wake, Failure> {
    let Some(restore) = shared.context.cache(RESTORE).get(&name) else { return Ok(Wake::OnChange) };
    let has_failed = conditions::is_true(&restore.value["status"], "Failure");
    if restore.value["status"]["complete"] == true || has_failed || restore.is_terminating() {
        return Ok(Wake::OnChange);
    }
    let spec = &restore.value["spec"];
    let named = |field: &Value| Name::new(name.namespace.clone(), text(field));
    let of = named(&spec["target"]["name"]);
    let snapshot = live(&shared, SNAPSHOT, &named(&spec["virtualMachineSnapshotName"])).await?;
    let machine = live(&shared, MACHINE, &of).await?;
    let failed = |why: String| fail(&shared, RESTORE, &restore, why);
    let (Some(snapshot), Some(machine)) = (snapshot, machine) else {
        return failed("the machine or the snapshot is not found".to_owned()).await;
    };
    if snapshot.value["status"]["sourceUID"] != *machine.uid {
        let why = format!(
            "VirtualMachineSnapshot {} is not of VirtualMachine {of}: only the machine that it was \
             made of can be brought back to it",
            snapshot.name
        );
        return failed(why).await;
    }
    if snapshot.value["status"]["readyToUse"] != true {
        return failed(format!("VirtualMachineSnapshot {} is not ready", snapshot.name)).await;
    }
    if live(&shared, INSTANCE, &of).await?.is_some() {
        return failed(RUNS.to_owned()).await;
    }
    let disks = match disks(&shared, &machine).await {
        Ok(disks) => disks,
        Err(failure @ Failure::Server(_)) => return Err(failure),
        Err(Failure::Because(why)) if is_elsewhere(&why) => return Ok(Wake::OnChange),
        Err(Failure::Because(why)) => return failed(why).await,
    };
    let place = shared.options.snapshots.join(&snapshot.uid);
    if let Some((lost, _)) = disks.iter().find(|(one, _)| !kept(&place, one).exists()) {
        return failed(format!("the snapshot has no copy of the disk {lost}")).await;
    }
    match put_back(&shared, &machine, &disks, &place).await {
        Ok(()) => {}
        Err(Failure::Because(why)) => return stumble(&shared, RESTORE, &restore, why).await,
        Err(failure) => return Err(failure),
    }
    let now = shared.context.environment.now();
    let restored = disks.iter().map(|(disk, claimed)| {
        json!({"volumeName": disk, "persistentVolumeClaim": &*claimed.claim.name.name})
    });
    let restored: Vec<Value> = restored.collect();
    let mut told = json!({"complete": true, "restoreTime": conditions::time(now),
        "restores": restored, "error": null});
    told["conditions"] = ready(&restore, "Operation complete", now);
    write(&shared, RESTORE, &restore, told).await
}

/// Puts all disks in their place, while no machine can begin to use them.
async fn put_back(
    shared: &Shared,
    machine: &Object,
    disks: &[Volume],
    place: &Path,
) -> Result<(), Failure> {
    let _hold = shared.held.take(files(disks), Purpose::Own)?;
    let _still = still(disks)?;
    for (_, claimed) in disks {
        volumes::check_writable(&shared.context, &claimed.claim.name).await?;
    }
    // Memory of before fits none of what is put back.
    forget_memory(shared, &machine.uid)?;
    let laid = |claimed: &Claimed| claimed.disk.with_extension("restored");
    for (disk, claimed) in disks {
        copy_file(kept(place, disk), laid(claimed), claimed.bytes).await?;
    }
    // That took a while.
    if live(shared, INSTANCE, &machine.name).await?.is_some() {
        return Err(RUNS.to_owned().into());
    }
    for (_, claimed) in disks {
        let put = fs::rename(laid(claimed), &claimed.disk);
        put.map_err(|error| format!("could not put a disk back: {error}"))?;
    }
    lay_memory(shared, &machine.uid, place).await
}

/// Where memory waits for the next start of a machine: outside of its volumes, which others may
/// write into.
fn memory_of(shared: &Shared, machine: &str) -> PathBuf {
    shared.options.snapshots.with_file_name("memory").join(machine)
}

fn forget_memory(shared: &Shared, machine: &str) -> Result<(), Failure> {
    match fs::remove_dir_all(memory_of(shared, machine)) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(format!("could not forget the memory of a machine: {error}").into())
        }
        _ => Ok(()),
    }
}

/// Has the next start of a machine go on from the memory that was kept with its disks, if it was.
async fn lay_memory(shared: &Shared, machine: &str, place: &Path) -> Result<(), Failure> {
    let kept = place.join(MEMORY);
    if !kept.exists() {
        return Ok(());
    }
    let to = memory_of(shared, machine);
    let part = to.with_extension("part");
    let said = |error: std::io::Error| format!("could not put memory back: {error}");
    let _ = fs::remove_dir_all(&part);
    fs::create_dir_all(&part).map_err(said)?;
    copy_file(kept.clone(), part.join(MEMORY), 0).await?;
    fs::copy(note_of(&kept), note_of(&part.join(MEMORY))).map_err(said)?;
    fs::rename(&part, &to).map_err(said)?;
    Ok(())
}

/// Forgets memory that the machine of an instance could not take up.
pub fn drop_memory(shared: &Shared, instance: &Object) {
    if let Some(owner) = instance.controller()
        && let Err(failure) = forget_memory(shared, owner)
    {
        tracing::warn!(machine = %instance.name, why = failure.said(), "memory is kept");
    }
}

/// The memory that a machine is to go on from when it starts, if there is some.
///
/// # Errors
/// Says why it is of no use; it is gone then.
pub fn memory_for(
    shared: &Shared,
    instance: &Object,
    machine: &Machine,
) -> Result<Option<PathBuf>, String> {
    let Some(owner) = instance.controller() else { return Ok(None) };
    let file = memory_of(shared, owner).join(MEMORY);
    if !file.exists() {
        return Ok(None);
    }
    fits(&file, machine).inspect_err(|_| drop(forget_memory(shared, owner)))?;
    Ok(Some(file))
}

fn kept(place: &Path, disk: &str) -> PathBuf {
    place.join(format!("{disk}.img"))
}

/// The disks of a machine that are on this node, each behind a claim.
async fn disks(shared: &Shared, machine: &Object) -> Result<Vec<Volume>, Failure> {
    let spec = &machine.value["spec"]["template"]["spec"];
    let mut disks = Vec::new();
    for volume in list(&spec["volumes"]) {
        let Some(claim) = claim_of(volume) else { continue };
        check_name(text(&volume["name"]))?;
        let claim = Name::new(machine.name.namespace.clone(), claim);
        let claimed = volumes::find(&shared.context, &claim, &shared.options.node).await?;
        if claimed.base.is_some() {
            return Err(format!(
                "the disk {} is a linked clone, of which no snapshots are kept: use a full clone",
                text(&volume["name"])
            )
            .into());
        }
        disks.push((text(&volume["name"]).to_owned(), claimed));
    }
    Ok(disks)
}

/// Removes copies that belong to no snapshot, and memory that belongs to no machine.
pub fn sweep(shared: &Shared) {
    let snapshots = shared.options.snapshots.as_path();
    let known = shared.context.cache(SNAPSHOT).all();
    sweep_directory(snapshots, |uid| known.iter().any(|snapshot| snapshot.uid == uid));
    let known = shared.context.cache(MACHINE).all();
    let memory = snapshots.with_file_name("memory");
    sweep_directory(&memory, |uid| known.iter().any(|machine| machine.uid == uid));
}

fn sweep_directory(directory: &Path, is_known: impl Fn(&str) -> bool) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if !is_known(name.trim_end_matches(".part")) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

async fn live(shared: &Shared, kind: Kind, name: &Name) -> Result<Option<Object>, Failure> {
    Ok(shared.context.get_live(kind, name).await?)
}

fn ready(object: &Object, reason: &str, now: k8s_openapi::jiff::Timestamp) -> Value {
    let mut all = list(&object.value["status"]["conditions"]).to_vec();
    for (kind, status) in [("Progressing", Truth::False), ("Ready", Truth::True)] {
        let condition = Condition { kind, status, reason, message: "", observed_generation: None };
        conditions::set(&mut all, &condition, now);
    }
    json!(all)
}

async fn fail(shared: &Shared, kind: Kind, object: &Object, why: String) -> Result<Wake, Failure> {
    let now = shared.context.environment.now();
    let mut all = list(&object.value["status"]["conditions"]).to_vec();
    for (of, status) in [("Failure", Truth::True), ("Ready", Truth::False)] {
        let condition = Condition {
            kind: of,
            status,
            reason: "Operation failed",
            message: &why,
            observed_generation: None,
        };
        conditions::set(&mut all, &condition, now);
    }
    let error = json!({"message": why, "time": conditions::time(now)});
    let told = match kind == SNAPSHOT {
        true => json!({"phase": "Failed", "readyToUse": false, "error": error, "conditions": all}),
        false => json!({"complete": false, "error": error, "conditions": all}),
    };
    write(shared, kind, object, told).await
}

/// Tells what went wrong. It is tried again for a while, and then has failed.
async fn stumble(
    shared: &Shared,
    kind: Kind,
    object: &Object,
    why: String,
) -> Result<Wake, Failure> {
    let now = shared.context.environment.now();
    let since = object.created().map_or(0, |at| now.as_second().saturating_sub(at.as_second()));
    if since >= PATIENCE_SECONDS {
        return fail(shared, kind, object, why).await;
    }
    // What is told already is no news: that would be a reason to look again at once.
    if object.value["status"]["error"]["message"] != why.as_str() {
        let mut told = json!({"error": {"message": why, "time": conditions::time(now)}});
        if kind == SNAPSHOT {
            told["phase"] = json!("InProgress");
            told["readyToUse"] = json!(false);
        }
        write(shared, kind, object, told).await?;
    }
    Err(why.into())
}

async fn write(shared: &Shared, kind: Kind, object: &Object, told: Value) -> Result<Wake, Failure> {
    let target = Target::of(kind, object).part("status");
    match shared.requests().patch(&target, &json!({"status": told})).await {
        Err(error) if !error.is_not_found() => Err(error.into()),
        _ => Ok(Wake::OnChange),
    }
}
