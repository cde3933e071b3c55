//! One VirtualMachineInstance of this node: looked at, decided about, and done.
//!
//! The instance says what it asks for, the hypervisor what there is. Nothing is remembered between
//! two looks, so a crash between any two deeds is another look.

mod decide;
pub mod machine;
pub mod status;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use hypervisor::{Error, Machine, Pause, images};
use reconcile::plan::{Notice, Target};
use reconcile::{Name, Object, Wake, owners};
use serde_json::{Value, json};

use self::decide::{Deed, decide};
use self::machine::{References, claim_of};
use self::status::{Seen, is_plugged};
use super::failure::Failure;
use super::held::{Hold, Purpose};
use super::kinds::{ATTACHMENT, CLAIM, DATA_VOLUME, INSTANCE, SECRET};
use super::looks::Looks;
use super::volumes::{self, list, text};
use super::{MANAGER, Shared, snapshot};

/// How often a guest that answers is asked about itself.
const GUEST: Duration = Duration::from_secs(60);
/// And one that does not: it may still be starting.
const GUEST_SILENT: Duration = Duration::from_secs(5);
/// How long a look waits until what it wrote is seen; it may be that nobody sees anything.
const CATCH_UP_MAX: Duration = Duration::from_secs(30);
/// Namespace whose NetworkAttachmentDefinitions virtual machines of all namespaces may use, as with
/// the namespace isolation of Multus.
const SHARED_NAMESPACE: &str = "default";
/// Whoever deletes an instance waits until its machine is gone.
pub const FINALIZER: &str = "kubevirt.io/foregroundDeleteVirtualMachine";

/// Has instances looked at when something happens to their machines, or to their claims.
pub fn listen(shared: &Arc<Shared>, looks: &Arc<Looks>) {
    let (told, cache) = (looks.clone(), shared.context.cache(INSTANCE));
    shared.options.hypervisor.listen(Arc::new(move |id| {
        let all = cache.all();
        if let Some(instance) = all.iter().find(|instance| instance.uid == id) {
            told.add(instance.name.clone());
        }
    }));
    let (told, cache) = (looks.clone(), shared.context.cache(INSTANCE));
    shared.context.cache(CLAIM).subscribe(move |change| {
        let claim = &change.object().name;
        for instance in cache.in_namespace(&claim.namespace) {
            let mut volumes = list(&instance.value["spec"]["volumes"]).iter();
            if volumes.any(|volume| claim_of(volume) == Some(&claim.name)) {
                told.add(instance.name.clone());
            }
        }
    });
}

/// An object that there is not: who looks at it looks for machines whose instances are gone.
pub fn nobody() -> Name {
    Name::new("", "")
}

/// Ends machines whose instances are gone.
///
/// # Errors
/// Says why it is not known which these are: what is remembered may be older than a machine, so
/// the server is asked before one is ended.
pub async fn end_orphans(shared: &Shared) -> Result<(), Failure> {
    let hypervisor = &shared.options.hypervisor;
    let known = shared.context.cache(INSTANCE).all();
    let mut unknown = hypervisor.ids();
    unknown.retain(|id| !known.iter().any(|instance| instance.uid == *id));
    if unknown.is_empty() {
        return Ok(());
    }
    let path = format!("/apis/{}/{}", INSTANCE.api_version(), INSTANCE.plural);
    let live = shared.requests().read(&path).await?;
    let live = list(&live["items"]).iter().map(|one| text(&one["metadata"]["uid"]));
    let live: BTreeSet<&str> = live.collect();
    for id in unknown {
        if live.contains(id.as_str()) {
            continue;
        }
        tracing::info!(machine = id, "nobody asks for it any more");
        let _ = hypervisor.stop(&id, Duration::ZERO).await;
        if let Err(error) = hypervisor.remove(&id).await {
            tracing::warn!(machine = id, error = error.chain(), "not removed");
        }
    }
    Ok(())
}

pub async fn look(shared: Arc<Shared>, name: Name) -> Result<Wake, Failure> {
    let Some(instance) = shared.context.cache(INSTANCE).get(&name) else {
        end_orphans(&shared).await?;
        return Ok(Wake::OnChange);
    };
    if instance.value["status"]["nodeName"] != shared.options.node {
        return Ok(Wake::OnChange);
    }
    let hypervisor = &shared.options.hypervisor;
    let state = hypervisor.state(&instance.uid).await;
    match decide(&instance, &state, shared.context.environment.now()) {
        Deed::Nothing => Ok(Wake::OnChange),
        Deed::Launch => launch(&shared, &instance).await,
        Deed::Keep(pause) => keep(&shared, &instance, pause).await,
        Deed::Press(again) => {
            notice(
                &shared,
                &instance,
                Notice::normal("ShuttingDown", "Signaled Graceful Shutdown"),
            )
            .await;
            // It may be off by now.
            let _ = hypervisor.press(&instance.uid).await;
            Ok(Wake::After(again))
        }
        Deed::Finish { phase, reason } => finish(&shared, &instance, (phase, &reason)).await,
        Deed::Release => release(&shared, &instance).await,
    }
}

async fn launch(shared: &Shared, instance: &Object) -> Result<Wake, Failure> {
    // What ended must not begin again because somebody has not heard of it.
    let live = shared.context.get_live(INSTANCE, &instance.name).await?;
    let is_wanted = live.is_some_and(|live| {
        live.uid == instance.uid
            && !live.is_terminating()
            && live.value["status"]["phase"] == "Scheduled"
            && live.value["status"]["nodeName"] == shared.options.node
    });
    if !is_wanted {
        return Ok(Wake::OnChange);
    }
    let (mut machine, _hold) = match prepare(shared, instance).await {
        Ok(prepared) => prepared,
        Err(failure) => return fail(shared, instance, failure).await,
    };
    match snapshot::memory_for(shared, instance, &machine) {
        Ok(memory) => machine.goes_on_from = memory,
        Err(why) => {
            let message = format!("The machine boots instead of going on where it was: {why}");
            notice(shared, instance, Notice::warning("MemoryNotRestored", message)).await;
        }
    }
    match shared.options.hypervisor.launch(&machine).await {
        Ok(()) | Err(Error::AlreadyRuns { .. }) => {
            let started = Notice::normal("Started", "VirtualMachineInstance started.");
            notice(shared, instance, started).await;
            let pause = machine.starts_paused.then_some(Pause::Asked);
            tell(shared, instance, (("Running", ""), pause, Some(&machine))).await
        }
        // Another still has its disks, or it cannot be helped here.
        Err(error @ (Error::DidNotStart { .. } | Error::Invalid(_))) => {
            let why = error.chain();
            if why.contains("Failed to get \"write\" lock") {
                return fail(shared, instance, why.into()).await;
            }
            if machine.goes_on_from.is_some() {
                // What could not be taken up once would keep the machine from starting for ever.
                snapshot::drop_memory(shared, instance);
                let message = format!("The machine boots the next time: {why}");
                notice(shared, instance, Notice::warning("MemoryNotRestored", message)).await;
            }
            finish(shared, instance, ("Failed", &why)).await
        }
        Err(error) => fail(shared, instance, error.chain().into()).await,
    }
}

/// The machine of an instance, whose disks are as long as they should be, and are nobody else's to
/// touch until it has locked them.
async fn prepare<'a>(
    shared: &'a Shared,
    instance: &Object,
) -> Result<(Machine, Hold<'a>), Failure> {
    let found = references(shared, instance).await?;
    let machine = machine::machine(instance, &found)?;
    let disks = machine.disks.iter().map(|disk| disk.file.as_path());
    let hold = shared.held.take(disks, Purpose::Own)?;
    for volume in list(&instance.value["spec"]["volumes"]) {
        let mut writable = machine.disks.iter().filter(|disk| !disk.is_read_only);
        if let Some(claim) = claim_of(volume)
            && writable.any(|disk| volume["name"] == disk.name.as_str())
        {
            let claim = Name::new(instance.name.namespace.clone(), claim);
            volumes::check_writable(&shared.context, &claim).await?;
        }
    }
    // One that is linked to another grows while the machine runs.
    let whole = machine.disks.iter().filter(|disk| disk.base.is_none());
    for disk in whole.filter(|disk| !disk.is_read_only) {
        let wanted = found.bytes.get(&disk.name).copied().unwrap_or(0);
        images::grow(&disk.file, wanted).map_err(|fault| fault.to_string())?;
    }
    Ok((machine, hold))
}

/// Tells why it does not go on; it is tried again.
async fn fail(shared: &Shared, instance: &Object, failure: Failure) -> Result<Wake, Failure> {
    // What the server did not say is nothing about the machine.
    let Failure::Because(why) = failure else { return Err(failure) };
    let now = shared.context.environment.now();
    notice(shared, instance, Notice::warning("SyncFailed", why.clone())).await;
    write(shared, instance, status::unsynchronized(instance, &why, now)).await?;
    Err(why.into())
}

/// A machine that runs: what grew, came or went meanwhile is made so, and told.
async fn keep(shared: &Shared, instance: &Object, pause: Option<Pause>) -> Result<Wake, Failure> {
    let found = match references(shared, instance).await {
        Ok(found) => found,
        Err(failure @ Failure::Server(_)) => return Err(failure),
        // What it runs with, it has; what is missing is told by whoever takes it away.
        Err(Failure::Because(_)) => {
            return tell(shared, instance, (("Running", ""), pause, None)).await;
        }
    };
    let machine = machine::machine(instance, &found);
    if instance.value["status"]["phase"] == "Running" && !instance.is_terminating() {
        let mut made = plug(shared, instance, &found).await;
        if let (Ok(()), Ok(machine)) = (&made, &machine) {
            made = extend(shared, machine).await;
        }
        if let Err(failure) = made {
            return fail(shared, instance, failure).await;
        }
    }
    tell(shared, instance, (("Running", ""), pause, machine.as_ref().ok())).await
}

/// Makes disks as long as their claims, and has those that may come and go do so.
async fn plug(shared: &Shared, instance: &Object, found: &References) -> Result<(), Failure> {
    let (hypervisor, id) = (&shared.options.hypervisor, instance.uid.as_str());
    let spec = &instance.value["spec"];
    for volume in list(&spec["volumes"]).iter().filter(|volume| claim_of(volume).is_some()) {
        let name = text(&volume["name"]);
        let disk = machine::disk(spec, volume, found)?;
        if is_plugged(volume) {
            hypervisor.attach(id, &disk).await.map_err(|error| error.chain())?;
        }
        let wanted = found.bytes.get(name).copied().unwrap_or(0);
        if disk.is_read_only {
            continue;
        }
        let length = match disk.base {
            None => images::grow(&disk.file, wanted).map_err(|fault| fault.to_string())?,
            Some(_) => wanted,
        };
        // The file may have grown before, and the guest not been told.
        let seen = match hypervisor.disk_bytes(id, name).await {
            Ok(seen) => seen,
            // It does not have it: it sees all of it when it starts with it.
            Err(Error::Invalid(_)) => continue,
            Err(error) => return Err(error.chain().into()),
        };
        if seen < length {
            hypervisor.resize(id, name, length).await.map_err(|error| error.chain())?;
        }
    }
    for told in list(&instance.value["status"]["volumeStatus"]) {
        let name = text(&told["name"]);
        let is_asked = list(&spec["volumes"]).iter().any(|volume| volume["name"] == name);
        if told["hotplugVolume"].is_object() && !is_asked {
            hypervisor.detach(id, name).await.map_err(|error| error.chain())?;
        }
    }
    Ok(())
}

/// Has interfaces come and go, and processors come.
async fn extend(shared: &Shared, machine: &Machine) -> Result<(), Failure> {
    let (hypervisor, id) = (&shared.options.hypervisor, machine.id.as_str());
    let has = hypervisor.interfaces(id).await.map_err(|error| error.chain())?;
    let (come, gone) = machine::to_plug(&has, &machine.interfaces);
    for interface in &come {
        hypervisor.attach_interface(id, interface).await.map_err(|error| error.chain())?;
    }
    for name in &gone {
        hypervisor.detach_interface(id, name).await.map_err(|error| error.chain())?;
    }
    let added = hypervisor.add_processors(id, machine.processors).await;
    added.map_err(|error| error.chain().into())
}

async fn tell(
    shared: &Shared,
    instance: &Object,
    ((phase, reason), pause, machine): ((&'static str, &str), Option<Pause>, Option<&Machine>),
) -> Result<Wake, Failure> {
    let hypervisor = &shared.options.hypervisor;
    let kind = hypervisor.kind().await;
    let guest = match (phase, pause) {
        ("Running", None) => hypervisor.guest(&instance.uid).await,
        _ => Ok(None),
    };
    // What changes inside a guest, nobody tells; and who does not answer yet may later.
    let wake = match &guest {
        Ok(None) => Wake::OnChange,
        Ok(Some(_)) => Wake::After(GUEST),
        Err(_) => Wake::After(GUEST_SILENT),
    };
    let guest = guest.ok().flatten();
    let seen = Seen { phase, reason, pause, machine, kind, guest: guest.as_ref() };
    let now = shared.context.environment.now();
    write(shared, instance, status::status(instance, &seen, now)).await?;
    Ok(wake)
}

async fn finish(
    shared: &Shared,
    instance: &Object,
    (phase, reason): (&'static str, &str),
) -> Result<Wake, Failure> {
    let hypervisor = &shared.options.hypervisor;
    let is_told = instance.value["status"]["phase"] == phase;
    if let Err(error) = hypervisor.stop(&instance.uid, Duration::ZERO).await
        && !matches!(error, Error::NotRunning { .. })
    {
        return Err(error.chain().into());
    }
    if !is_told {
        let notice_of = match phase {
            "Succeeded" => Notice::normal("Stopped", "The VirtualMachineInstance was shut down."),
            _ => {
                Notice::warning("Stopped", format!("The VirtualMachineInstance crashed. {reason}"))
            }
        };
        notice(shared, instance, notice_of).await;
        tell(shared, instance, ((phase, reason), None, None)).await?;
    }
    // What is told is forgotten last: until then it can be told again.
    hypervisor.remove(&instance.uid).await.map_err(|error| error.chain())?;
    // What was told before changes nothing now, and who waits for the end would wait for ever.
    Ok(if is_told { Wake::After(Duration::ZERO) } else { Wake::OnChange })
}

async fn release(shared: &Shared, instance: &Object) -> Result<Wake, Failure> {
    let left: Vec<&str> = instance.finalizers().filter(|one| *one != FINALIZER).collect();
    if left.len() == instance.finalizers().count() {
        return Ok(Wake::OnChange);
    }
    let patch = json!({"metadata": {"finalizers": left}});
    let target = Target::unchanged(INSTANCE, instance);
    match shared.requests().patch(&target, &patch).await {
        Err(error) if !error.is_not_found() => Err(error.into()),
        _ => Ok(Wake::OnChange),
    }
}

/// Writes a status if it says something else. Another's change in between is a failure: what was to
/// be told is told at the next look.
async fn write(shared: &Shared, instance: &Object, status: Value) -> Result<(), Failure> {
    if instance.value["status"] == status {
        return Ok(());
    }
    let mut object: Value = (*instance.value).clone();
    object["status"] = status;
    let target = Target::unchanged(INSTANCE, instance).part("status");
    match shared.requests().replace_by(&target, object).await {
        Ok(written) => {
            // The next look must not rest on less than what this one wrote.
            let cache = shared.context.cache(INSTANCE);
            let _ = tokio::time::timeout(CATCH_UP_MAX, cache.reaches(written.revision)).await;
            Ok(())
        }
        Err(error) if error.is_not_found() => Ok(()),
        Err(error) => Err(error.into()),
    }
}

async fn notice(shared: &Shared, instance: &Object, notice: Notice) {
    let (requests, now) = (shared.requests(), shared.context.environment.now());
    let recorder = &shared.context.recorder;
    debug_assert_eq!(requests.manager, MANAGER);
    recorder.record(&requests, (INSTANCE, instance), &notice, now).await;
}

/// Looks up what an instance refers to.
async fn references(shared: &Shared, instance: &Object) -> Result<References, Failure> {
    let (context, namespace) = (&shared.context, &instance.name.namespace);
    let mut found = References::default();
    for volume in list(&instance.value["spec"]["volumes"]) {
        let name = text(&volume["name"]).to_owned();
        if let Some(claim) = claim_of(volume) {
            let claim = Name::new(namespace.clone(), claim);
            let claimed = volumes::find(context, &claim, &shared.options.node).await?;
            let is_filled = owners::controller_name(&claimed.claim, DATA_VOLUME).is_some();
            if is_filled && !claimed.disk.exists() {
                return Err(format!("PVC {claim} is not filled yet").into());
            }
            // A claim that nobody fills is an empty disk.
            if claimed.base.is_none() {
                images::blank(&claimed.disk, claimed.bytes).map_err(|fault| fault.to_string())?;
            }
            found.bytes.insert(name.clone(), claimed.bytes);
            found.bases.extend(claimed.base.map(|base| (name.clone(), base)));
            found.files.insert(name, claimed.disk);
        }
        for reference in ["secretRef", "networkDataSecretRef"] {
            let Some(secret) = volume["cloudInitNoCloud"][reference]["name"].as_str() else {
                continue;
            };
            let of = Name::new(namespace.clone(), secret);
            let object = context.get_live(SECRET, &of).await?;
            if let Some(object) = object {
                found.secrets.insert(secret.to_owned(), texts(&object));
            }
        }
    }
    for network in list(&instance.value["spec"]["networks"]) {
        let Some(named) = network["multus"]["networkName"].as_str() else { continue };
        let of = match named.split_once('/') {
            Some((namespace, name)) => Name::new(namespace, name),
            None => Name::new(namespace.clone(), named),
        };
        if ![namespace.as_ref(), SHARED_NAMESPACE].contains(&of.namespace.as_ref()) {
            return Err(format!(
                "NetworkAttachmentDefinition {of} is of another namespace: use one of {namespace} \
                 or of {SHARED_NAMESPACE}"
            )
            .into());
        }
        let attachment = context.get_live(ATTACHMENT, &of).await?;
        let none = || format!("NetworkAttachmentDefinition {of} is not found");
        let attachment = attachment.ok_or_else(none)?;
        let of = machine::network_of(text(&attachment.value["spec"]["config"]))?;
        found.networks.insert(text(&network["name"]).to_owned(), of);
    }
    Ok(found)
}

/// The texts of a secret.
fn texts(secret: &Object) -> BTreeMap<String, String> {
    use base64::Engine;
    let decode = |value: &Value| {
        let bytes = base64::prelude::BASE64_STANDARD.decode(text(value)).ok()?;
        String::from_utf8(bytes).ok()
    };
    let data = secret.value["data"].as_object().into_iter().flatten();
    data.filter_map(|(key, value)| Some((key.clone(), decode(value)?))).collect()
}
