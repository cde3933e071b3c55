//! What a Wukong has: its networks, disks and machine, and what the cluster has for them.
//!
//! What is waited for is read from the server and not from a cache: timers that look again would
//! else see what they saw.

use std::collections::BTreeMap;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use reconcile::{Context, Error, Kind, Name, Object, conditions};
use serde_json::Value;

use super::disks::is_filled;
use super::exposure;
use super::networks::OWNER_LABEL;
use super::spec::{Classes, Wukong};
use crate::add_ons::AddOns;
use crate::kinds::{
    ATTACHMENT, CLAIM, DATA_VOLUME, INSTANCE, MACHINE, POLICY, RESTORE, SECRET, SERVICE,
    STORAGE_CLASS, WUKONG, WUKONG_SNAPSHOT,
};
use crate::value::text;
use crate::{Bridges, Options};

/// Keys are looked for under these names first.
const KEY_NAMES: [&str; 4] = ["ssh-publickey", "id_rsa.pub", "authorized_keys", "publickey"];
/// More keys than anybody logs in with.
const KEYS_MAX: usize = 64;

#[derive(Default)]
pub struct Observed {
    /// It goes or is gone, though the cache does not show that.
    pub is_gone: bool,
    pub add_ons: AddOns,
    pub bridges: Bridges,
    pub classes: Classes,
    /// By their names.
    pub attachments: BTreeMap<String, Arc<Object>>,
    pub policies: BTreeMap<String, Arc<Object>>,
    /// By the names of their disks.
    pub volumes: BTreeMap<String, Arc<Object>>,
    pub claims: BTreeMap<String, Arc<Object>>,
    pub machine: Option<Arc<Object>>,
    pub instance: Option<Arc<Object>>,
    /// What leads to it.
    pub service: Option<Arc<Object>>,
    pub keys: Keys,
    /// The snapshot that it is to be brought back to.
    pub snapshot: Option<Arc<Object>>,
    /// Its restores.
    pub restores: Vec<Arc<Object>>,
    /// Everything of its own that there is; looked at only when it goes.
    pub owned: Vec<(Kind, Arc<Object>)>,
}

#[derive(Debug, Default, PartialEq, Eq)]
pub enum Keys {
    #[default]
    NotAsked,
    Found(Vec<String>),
    Missing(String),
}

pub async fn observe(
    context: &Context,
    object: &Arc<Object>,
    options: &Options,
) -> Result<Observed, Error> {
    let wukong = Wukong::of(object);
    let look = Look { context, namespace: &object.name.namespace };
    let mut found = Observed {
        add_ons: options.add_ons,
        bridges: options.bridges,
        classes: Classes::of(context.cache(STORAGE_CLASS).all()),
        ..Observed::default()
    };
    let name = wukong.machine_name();
    if object.is_terminating() {
        if options.add_ons.kubevirt {
            found.machine = look.live(MACHINE, &look.own(name.clone())).await?;
            found.instance = look.live(INSTANCE, &look.own(name)).await?;
        }
        found.owned = owned(&look, &wukong, options.add_ons).await?;
        return Ok(found);
    }
    if options.add_ons.kubevirt {
        found.machine = look.at(MACHINE, &name, |_| true).await;
        let runs = |one: &Object| one.value["status"]["phase"] == "Running";
        found.instance = look.at(INSTANCE, &name, runs).await;
    }
    networks(&look, &wukong, &mut found).await;
    disks(&look, &wukong, &mut found).await;
    let service = wukong.service_name();
    found.service = match exposure::asked(&wukong) {
        Some(_) => look.at(SERVICE, &service, |_| true).await,
        // Nobody waits for one that is not to be.
        None => look.cached(SERVICE, &look.own(service)),
    };
    if lacks(&wukong, &found) {
        // What is made for one that goes would be left, or be there a second time.
        let live = context.get_live(WUKONG, &object.name).await?;
        found.is_gone = live.is_none_or(|live| live.uid != object.uid || live.is_terminating());
    }
    found.keys = keys(&look, text(&wukong.spec()["sshKeySecret"])).await?;
    if let Some(snapshot) = wukong.restores_from() {
        let is_done = |one: &Object| one.value["status"]["phase"] == "Succeeded";
        found.snapshot = look.at(WUKONG_SNAPSHOT, snapshot, is_done).await;
    }
    if options.add_ons.snapshots {
        found.restores = context.cache(RESTORE).owned_by(wukong.uid());
        if let Some(snapshot) = wukong.restores_from() {
            let is_done = |one: &Object| one.value["status"]["complete"] == true;
            let now = look.at(RESTORE, &wukong.restore_name(snapshot), is_done).await;
            found.restores.retain(|one| now.as_ref().is_none_or(|now| now.uid != one.uid));
            found.restores.extend(now.filter(|now| wukong.owns(now)));
        }
    }
    Ok(found)
}

/// Whether anything of what it needs may have to be made.
fn lacks(wukong: &Wukong<'_>, found: &Observed) -> bool {
    let networks = wukong.networks();
    let others = networks.iter().filter(|network| !network.is_pods());
    let lacks_network = others.clone().any(|network| {
        !found.attachments.contains_key(&wukong.attachment_name(network))
            || !found.policies.contains_key(&wukong.policy_name(network))
    });
    let disks = wukong.disks();
    let lacks_disk = disks.iter().any(|disk| {
        !found.claims.contains_key(disk.name())
            || (!disk.image.is_empty() && !found.volumes.contains_key(disk.name()))
    });
    let lacks_service = exposure::asked(wukong).is_some() && found.service.is_none();
    lacks_service
        || lacks_network
        || lacks_disk
        || found.machine.is_none()
        || wukong.restores_from().is_some()
}

/// Where objects are looked for.
struct Look<'a> {
    context: &'a Context,
    namespace: &'a Arc<str>,
}

impl Look<'_> {
    fn own(&self, name: impl Into<Arc<str>>) -> Name {
        Name::new(self.namespace.clone(), name)
    }

    /// An object as the server has it. What goes for good is not decided by what is remembered.
    async fn live(&self, kind: Kind, name: &Name) -> Result<Option<Arc<Object>>, Error> {
        Ok(self.context.get_live(kind, name).await?.map(Arc::new))
    }

    /// An object: as the cache has it if it is settled, else as the server has it. That the server
    /// cannot be asked leaves what is known.
    async fn at(
        &self,
        kind: Kind,
        name: &str,
        is_settled: impl Fn(&Object) -> bool,
    ) -> Option<Arc<Object>> {
        let namespace = if kind.namespaced { self.namespace.clone() } else { "".into() };
        self.at_name(kind, &Name::new(namespace, name), is_settled).await
    }

    /// An object as the cache holds it in full: of kinds that every controller of a cluster makes
    /// it holds those of Wukongs.
    fn cached(&self, kind: Kind, name: &Name) -> Option<Arc<Object>> {
        match kind {
            CLAIM | SERVICE => self.context.owned_cache(kind).get(name)?.full().cloned(),
            _ => self.context.cache(kind).get(name),
        }
    }

    async fn at_name(
        &self,
        kind: Kind,
        name: &Name,
        is_settled: impl Fn(&Object) -> bool,
    ) -> Option<Arc<Object>> {
        let cached = self.cached(kind, name);
        if cached.as_ref().is_some_and(|cached| is_settled(cached)) {
            return cached;
        }
        match self.context.get_live(kind, name).await {
            Ok(live) => live.map(Arc::new),
            Err(error) => {
                tracing::debug!(%kind, %name, error = %error.chain(), "could not look");
                cached
            }
        }
    }
}

async fn networks(look: &Look<'_>, wukong: &Wukong<'_>, found: &mut Observed) {
    for network in wukong.networks().iter().filter(|network| !network.is_pods()) {
        if found.add_ons.multus {
            let full = wukong.attachment_name(network);
            // A user's own may be of another namespace.
            let (namespace, name) = full.split_once('/').unwrap_or((wukong.namespace(), &full));
            let name = Name::new(namespace, name);
            if let Some(one) = look.at_name(ATTACHMENT, &name, |_| true).await {
                found.attachments.insert(full, one);
            }
        }
        if found.add_ons.nmstate && !network.interface().is_empty() {
            let is_made = |one: &Object| conditions::is_true(&one.value["status"], "Available");
            let name = wukong.policy_name(network);
            if let Some(one) = look.at(POLICY, &name, is_made).await {
                found.policies.insert(name, one);
            }
            let legacy = wukong.legacy_policy_name(network);
            if let Some(one) = look.context.cache(POLICY).get(&Name::new("", legacy.as_str())) {
                found.policies.insert(legacy, one);
            }
        }
    }
}

async fn disks(look: &Look<'_>, wukong: &Wukong<'_>, found: &mut Observed) {
    for disk in wukong.disks() {
        let name = wukong.claim_name(disk.name());
        let is_bound = |one: &Object| one.value["status"]["phase"] == "Bound";
        if let Some(one) = look.at(CLAIM, &name, is_bound).await {
            found.claims.insert(disk.name().to_owned(), one);
        }
        if found.add_ons.importer && !disk.image.is_empty() {
            let is_filled = |one: &Object| one.value["status"]["phase"] == "Succeeded";
            if let Some(one) = look.at(DATA_VOLUME, &name, is_filled).await {
                found.volumes.insert(disk.name().to_owned(), one);
            }
        }
    }
}

/// The keys of a secret. Nobody holds the secrets of a cluster for that: it is asked.
async fn keys(look: &Look<'_>, secret: &str) -> Result<Keys, Error> {
    if secret.is_empty() {
        return Ok(Keys::NotAsked);
    }
    match look.live(SECRET, &look.own(secret)).await {
        Ok(Some(found)) => Ok(keys_in(secret, &found.value["data"])),
        Ok(None) => Ok(Keys::Missing(format!("Secret {secret} is not found"))),
        Err(error) if error.is_refusal() => {
            Ok(Keys::Missing(format!("Secret {secret}: {}", error.said())))
        }
        // Whether it is there nobody knows.
        Err(error) => Err(error),
    }
}

pub fn keys_in(secret: &str, data: &Value) -> Keys {
    let decode = |value: &Value| {
        let bytes = STANDARD.decode(text(value)).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    };
    let named = KEY_NAMES.iter().map(|name| decode(&data[*name]));
    let others = data.as_object().into_iter().flatten().map(|(_, value)| decode(value));
    let found = named.chain(others).find(|text| !text.trim().is_empty()).unwrap_or_default();
    let lines = found.lines().map(str::trim);
    let keys = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    let keys: Vec<String> = keys.take(KEYS_MAX).map(str::to_owned).collect();
    match keys.is_empty() {
        true => Keys::Missing(format!("Secret {secret} has no public key")),
        false => Keys::Found(keys),
    }
}

/// Everything of its own, as the server has it: what goes for good is not decided by caches.
async fn owned(
    look: &Look<'_>,
    wukong: &Wukong<'_>,
    add_ons: AddOns,
) -> Result<Vec<(Kind, Arc<Object>)>, Error> {
    let mut named: Vec<(Kind, Name)> = Vec::new();
    let own = |name: String| look.own(name);
    if add_ons.nmstate {
        // Also of networks that it does not name any more.
        let all = look.context.cache(POLICY).all();
        let known = all.iter().filter(|one| one.label(OWNER_LABEL) == Some(wukong.uid()));
        named.extend(known.map(|one| (POLICY, one.name.clone())));
    }
    for (kind, is_there) in [
        (MACHINE, add_ons.kubevirt),
        (RESTORE, add_ons.snapshots),
        (DATA_VOLUME, add_ons.importer),
        (CLAIM, true),
        (SERVICE, true),
        (ATTACHMENT, add_ons.multus),
    ] {
        if is_there {
            let known = match kind {
                CLAIM | SERVICE => look.context.owned_cache(kind).owned_by(wukong.uid()),
                _ => look.context.cache(kind).owned_by(wukong.uid()),
            };
            named.extend(known.iter().map(|one| (kind, one.name.clone())));
        }
    }
    named.push((MACHINE, own(wukong.machine_name())));
    named.push((SERVICE, own(wukong.service_name())));
    for disk in wukong.disks() {
        let name = own(wukong.claim_name(disk.name()));
        named.extend([(DATA_VOLUME, name.clone()), (CLAIM, name)]);
    }
    for network in wukong.networks() {
        if network.own_attachment().is_none() {
            named.push((ATTACHMENT, own(wukong.attachment_name(&network))));
        }
        named.push((POLICY, Name::new("", wukong.policy_name(&network))));
        named.push((POLICY, Name::new("", wukong.legacy_policy_name(&network))));
    }
    named.retain(|(kind, _)| match *kind {
        MACHINE => add_ons.kubevirt,
        DATA_VOLUME => add_ons.importer,
        ATTACHMENT => add_ons.multus,
        POLICY => add_ons.nmstate,
        _ => true,
    });
    named.sort();
    named.dedup();
    let mut all = Vec::new();
    for (kind, name) in named {
        let Some(found) = look.live(kind, &name).await? else { continue };
        let is_own = match kind {
            POLICY => found.label(OWNER_LABEL) == Some(wukong.uid()),
            CLAIM if is_filled(&found) && add_ons.importer => {
                let volume = look.live(DATA_VOLUME, &name).await?;
                is_left(wukong, volume.as_deref())
            }
            _ => wukong.owns(&found),
        };
        if is_own {
            all.push((kind, found));
        }
    }
    Ok(all)
}

/// Whether the claim of a volume is ours to wait for: that of another's volume is that other's.
fn is_left(wukong: &Wukong<'_>, volume: Option<&Object>) -> bool {
    volume.is_none_or(|volume| wukong.owns(volume))
}
