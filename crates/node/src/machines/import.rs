//! Fills the claims of DataVolumes that are on this node, and says how far it is in annotations of
//! the claim, as CDI's workers do.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hypervisor::images::{self, Fault, Idle, Import, Source};
use reconcile::plan::Target;
use reconcile::{Name, Object, Wake};
use serde_json::{Value, json};

use super::Shared;
use super::failure::Failure;
use super::held::Purpose;
use super::instance::machine::claim_of;
use super::kinds::{CLAIM, DATA_VOLUME, INSTANCE};
use super::upload::{TAKEN, taken};
use super::volumes::{self, Claimed, LINKED_TO, list, text};

const PHASE: &str = "cdi.kubevirt.io/storage.pod.phase";
const PROGRESS: &str = "cdi.kubevirt.io/storage.populator.progress";
const RESTARTS: &str = "cdi.kubevirt.io/storage.pod.restarts";
const MESSAGE: &str = "cdi.kubevirt.io/storage.condition.running.message";
/// Whether what is made of a claim has all of it, or is linked to it.
const CLONE_TYPE: &str = "setpoint.dev/clone-type";
/// How often it is said how far it is.
const TELL: Duration = Duration::from_secs(2);
/// In parts of which progress is counted.
const PARTS: f64 = 10_000.0;

/// Where what a claim is to hold comes from.
enum From {
    Image(Source, Option<String>),
    Nowhere,
    Claim(Name),
    /// What differs from a claim: nothing yet.
    Link(Name),
    /// Somebody sends it; the checksum once it was taken.
    Sender(Option<String>),
}

pub async fn look(shared: Arc<Shared>, name: Name) -> Result<Wake, Failure> {
    let Some(volume) = shared.context.cache(DATA_VOLUME).get(&name) else {
        return Ok(Wake::OnChange);
    };
    let claimed = match volumes::find(&shared.context, &name, &shared.options.node).await {
        Ok(claimed) => claimed,
        Err(failure @ Failure::Server(_)) => return Err(failure),
        // It is not bound, or on another node: its change is seen.
        Err(Failure::Because(_)) => return Ok(Wake::OnChange),
    };
    // One of the same name that is gone may have left its claim.
    let is_of = claimed.claim.controller() == Some(&volume.uid);
    let is_over = matches!(claimed.claim.annotation(PHASE), Some("Succeeded" | "Failed"));
    if !is_of || is_over || volume.is_terminating() {
        return Ok(Wake::OnChange);
    }
    let from = match source(&shared, &volume, &claimed.claim) {
        Ok(from) => from,
        Err(why) => return end(&shared, &claimed.claim, Err(Unfilled::For(why))).await,
    };
    let mut begun = json!({PHASE: "Running"});
    if !matches!(from, From::Sender(_)) {
        let is_ours = !lock(&shared.filling).insert(claimed.claim.uid.clone());
        if let (false, Some("Running")) = (is_ours, claimed.claim.annotation(PHASE)) {
            // Whoever filled it before is gone: it is begun again.
            begun[RESTARTS] = json!(restarts(&claimed.claim));
        }
    }
    annotate(&shared, &claimed.claim, begun).await?;
    if matches!(from, From::Sender(None)) {
        // That it was sent is a change of the claim.
        return Ok(Wake::OnChange);
    }
    let filled = fill(&shared, &claimed, from).await;
    let ended = end(&shared, &claimed.claim, filled).await;
    // As long as its end is not told it is ours, however often that takes.
    if ended.is_ok() {
        lock(&shared.filling).remove(&claimed.claim.uid);
    }
    ended
}

/// Why a claim is not filled.
enum Unfilled {
    /// For ever.
    For(String),
    /// So far.
    Yet(Failure),
}

impl Unfilled {
    fn of(fault: Fault) -> Unfilled {
        match fault.is_final() {
            true => Unfilled::For(fault.to_string()),
            false => Unfilled::Yet(fault.to_string().into()),
        }
    }
}

fn source(shared: &Shared, volume: &Object, claim: &Object) -> Result<From, String> {
    let source = &volume.value["spec"]["source"];
    if source["http"].is_object() {
        let url = text(&source["http"]["url"]).to_owned();
        let checksum = source["http"]["checksum"].as_str().filter(|sum| !sum.is_empty());
        let http = Source::Http { url, reach: shared.options.reach };
        return Ok(From::Image(http, checksum.map(str::to_owned)));
    }
    if source["registry"].is_object() {
        let secret = text(&source["registry"]["secretRef"]);
        if !secret.is_empty() {
            return Err(format!(
                "spec.source.registry.secretRef: this node reads images that anybody may read: \
                 leave {secret} out"
            ));
        }
        let url = text(&source["registry"]["url"]).to_owned();
        return Ok(From::Image(Source::Registry { url, reach: shared.options.reach }, None));
    }
    if source["blank"].is_object() {
        return Ok(From::Nowhere);
    }
    if source["pvc"].is_object() {
        let own = &volume.name.namespace;
        let namespace = text(&source["pvc"]["namespace"]);
        // Who may make volumes here need not be allowed to read those that are elsewhere.
        if !namespace.is_empty() && namespace != &**own {
            return Err(format!(
                "spec.source.pvc.namespace: a claim can be copied within its namespace only: make \
                 the DataVolume in {namespace}"
            ));
        }
        let of = Name::new(own.clone(), text(&source["pvc"]["name"]));
        return Ok(match volume.annotation(CLONE_TYPE) {
            Some("linked") => From::Link(of),
            _ => From::Claim(of),
        });
    }
    if source["upload"].is_object() {
        return Ok(From::Sender(claim.annotation(TAKEN).map(str::to_owned)));
    }
    let kinds = source.as_object().into_iter().flatten().map(|(kind, _)| kind.as_str());
    let kinds: Vec<&str> = kinds.collect();
    Err(format!("this node fills no volumes from {}", kinds.join(", ")))
}

async fn fill(shared: &Arc<Shared>, claimed: &Claimed, from: From) -> Result<(), Unfilled> {
    let (disk, bytes) = (claimed.disk.clone(), claimed.bytes);
    match from {
        From::Nowhere => images::blank(&disk, bytes).map_err(Unfilled::of),
        From::Link(base) => link(shared, claimed, &base).await,
        From::Claim(source) => {
            let found = idle_source(shared, &source).await?;
            if found.base.is_some() {
                let why = format!("PVC {source} is a linked clone: clone what it is linked to");
                return Err(Unfilled::For(why));
            }
            let hold = shared.held.take([found.disk.as_path()].into_iter(), Purpose::Copy);
            let _hold = hold.map_err(|why| Unfilled::Yet(why.into()))?;
            let copied = tokio::task::spawn_blocking(move || {
                let _idle = Idle::hold(&found.disk)?;
                images::copy(&found.disk, &disk, bytes)
            });
            let copied = copied.await.map_err(|error| Unfilled::Yet(error.to_string().into()))?;
            copied.map_err(Unfilled::of)
        }
        From::Sender(checksum) => {
            let file = taken(&disk);
            let order = Import { source: Source::File(file.clone()), checksum, disk, bytes };
            let filled = bring_in(shared, &claimed.claim, order).await;
            if !matches!(filled, Err(Unfilled::Yet(_))) {
                let _ = std::fs::remove_file(file);
            }
            filled
        }
        From::Image(source, checksum) => {
            let order = Import { source, checksum, disk, bytes };
            bring_in(shared, &claimed.claim, order).await
        }
    }
}

/// A claim that nobody writes, to be copied or linked to.
async fn idle_source(shared: &Shared, source: &Name) -> Result<Claimed, Unfilled> {
    let found = volumes::find(&shared.context, source, &shared.options.node).await;
    let found = found.map_err(Unfilled::Yet)?;
    match user_of(shared, source) {
        None => Ok(found),
        Some(user) => {
            let why = format!("PVC {source} is in use by VirtualMachineInstance {user}");
            Err(Unfilled::Yet(why.into()))
        }
    }
}

/// Makes what a claim holds the differences to another, of which nobody may be writing. That it is
/// linked is said before it is, so that whoever would write the other hears of it.
async fn link(shared: &Shared, claimed: &Claimed, base: &Name) -> Result<(), Unfilled> {
    let found = idle_source(shared, base).await?;
    if found.base.is_some() {
        let why = format!("PVC {base} is a linked clone itself: nothing can be linked to it");
        return Err(Unfilled::For(why));
    }
    if !found.disk.exists() {
        return Err(Unfilled::Yet(format!("PVC {base} is not filled yet").into()));
    }
    let hold = shared.held.take([found.disk.as_path()].into_iter(), Purpose::Copy);
    let _hold = hold.map_err(|why| Unfilled::Yet(why.into()))?;
    let _idle = Idle::hold(&found.disk).map_err(Unfilled::of)?;
    let length = std::fs::metadata(&found.disk).map_or(0, |file| file.len());
    if length > claimed.bytes {
        return Err(Unfilled::of(Fault::TooLarge { image: length, available: claimed.bytes }));
    }
    let linked = json!({LINKED_TO: *base.name});
    annotate(shared, &claimed.claim, linked).await.map_err(Unfilled::Yet)?;
    let linked = volumes::find(&shared.context, &claimed.claim.name, &shared.options.node).await;
    let linked = linked.map_err(Unfilled::Yet)?;
    images::link(&linked.disk, claimed.bytes).map_err(Unfilled::of)
}

/// Whose machine runs with a claim.
fn user_of(shared: &Shared, claim: &Name) -> Option<Name> {
    let all = shared.context.cache(INSTANCE).in_namespace(&claim.namespace);
    let uses = |instance: &&Arc<Object>| {
        let phase = text(&instance.value["status"]["phase"]);
        let mut volumes = list(&instance.value["spec"]["volumes"]).iter();
        !["Succeeded", "Failed"].contains(&phase)
            && volumes.any(|volume| claim_of(volume) == Some(&claim.name))
    };
    all.iter().find(uses).map(|instance| instance.name.clone())
}

/// Brings an image in, says how far it is, and stops when nobody wants it any more.
async fn bring_in(shared: &Arc<Shared>, claim: &Object, order: Import) -> Result<(), Unfilled> {
    let done = Arc::new(AtomicU64::new(0));
    let told = done.clone();
    let progress: images::Progress = Arc::new(move |part| {
        told.store((part * PARTS) as u64, Ordering::Relaxed);
    });
    let import = images::import(order, progress);
    let mut import = std::pin::pin!(import);
    loop {
        tokio::select! {
            imported = import.as_mut() => return imported.map_err(Unfilled::of),
            () = tokio::time::sleep(TELL) => {}
        }
        let volume = shared.context.cache(DATA_VOLUME).get(&claim.name);
        if volume.is_none_or(|volume| volume.is_terminating()) {
            return Err(Unfilled::For("the DataVolume is gone".to_owned()));
        }
        let parts = done.load(Ordering::Relaxed);
        let text = format!("{}.{:02}%", parts / 100, parts % 100);
        // That it cannot be told stops nothing.
        let _ = annotate(shared, claim, json!({PROGRESS: text})).await;
    }
}

async fn end(
    shared: &Shared,
    claim: &Object,
    filled: Result<(), Unfilled>,
) -> Result<Wake, Failure> {
    match filled {
        Ok(()) => {
            let done = json!({PHASE: "Succeeded", PROGRESS: "100.0%", MESSAGE: "Import Complete"});
            annotate(shared, claim, done).await?;
        }
        Err(Unfilled::For(why)) => {
            annotate(shared, claim, json!({PHASE: "Failed", MESSAGE: why})).await?;
        }
        Err(Unfilled::Yet(failure @ Failure::Server(_))) => return Err(failure),
        Err(Unfilled::Yet(failure)) => {
            let told = json!({RESTARTS: restarts(claim), MESSAGE: failure.said()});
            annotate(shared, claim, told).await?;
            return Err(failure);
        }
    }
    Ok(Wake::OnChange)
}

/// How often a claim was begun again, with this time.
fn restarts(claim: &Object) -> String {
    let count = claim.annotation(RESTARTS).and_then(|count| count.parse::<u64>().ok());
    count.unwrap_or(0).saturating_add(1).to_string()
}

fn lock<T>(held: &Mutex<T>) -> MutexGuard<'_, T> {
    held.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn annotate(shared: &Shared, claim: &Object, annotations: Value) -> Result<(), Failure> {
    let patch = json!({"metadata": {"annotations": annotations}});
    match shared.requests().patch(&Target::of(CLAIM, claim), &patch).await {
        Err(error) if !error.is_not_found() => Err(error.into()),
        _ => Ok(()),
    }
}
