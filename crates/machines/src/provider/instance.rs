//! Finds a node for every VirtualMachineInstance, once what it needs is there: its volumes are
//! filled and bound. Volumes that wait for somebody to use them are bound where it will run.

use std::collections::BTreeMap;
use std::sync::Arc;

use amounts::Quantity;
use k8s_openapi::jiff::Timestamp;
use reconcile::conditions::{self, Condition, Truth};
use reconcile::plan::Target;
use reconcile::{Context, Error, Kind, Name, Object, Plan, Reconciler, Watches, owners};
use serde_json::{Value, json};

use super::{INSTANCE_FINALIZER, SCHEDULABLE};
use crate::kinds::{CLAIM, DATA_VOLUME, INSTANCE, STORAGE_CLASS};
use crate::value::{list, text};

pub const NAME: &str = "virtualmachineinstance-controller";
const NODE: Kind = Kind::cluster("", "v1", "Node", "nodes");
const VOLUME: Kind = Kind::cluster("", "v1", "PersistentVolume", "persistentvolumes");
/// What a machine gets that says nothing.
const MEMORY_BYTES: u64 = 2 << 30;
const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";

pub struct Controller;

pub struct Observed {
    pub volumes: Vec<Volume>,
    pub nodes: Vec<Arc<Object>>,
    /// What the other machines of each node take.
    pub load: BTreeMap<String, Load>,
}

/// What machines take of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    pub machines: usize,
    pub memory_bytes: u64,
}

/// A claim that an instance uses.
#[derive(Default)]
pub struct Volume {
    pub claim_name: String,
    pub claim: Option<Arc<Object>>,
    /// What fills it, if something does.
    pub filler: Option<Arc<Object>>,
    /// Where it can be used alone; nowhere in particular if empty.
    pub nodes: Vec<String>,
    pub waits: bool,
}

impl Reconciler for Controller {
    type Observed = Observed;
    const NAME: &'static str = NAME;
    const KIND: Kind = INSTANCE;

    fn watches(&self, watches: &mut Watches) {
        let instances = watches.cache(INSTANCE);
        for kind in [CLAIM, DATA_VOLUME] {
            let instances = instances.clone();
            watches.by(kind, move |change| {
                let of = &change.object().name;
                let all = instances.in_namespace(&of.namespace);
                let uses = all.iter().filter(|one| claims(one).any(|claim| claim == &*of.name));
                uses.map(|one| one.name.clone()).collect()
            });
        }
        let waiting = move || -> Vec<Name> {
            let all = instances.all();
            let waiting =
                all.iter().filter(|one| text(&one.value["status"]["nodeName"]).is_empty());
            waiting.map(|one| one.name.clone()).collect()
        };
        let told = waiting.clone();
        watches.by(NODE, move |_| told());
        // What one that ends had, another may have.
        watches.by(INSTANCE, move |change| match change.new.as_deref().is_none_or(is_final) {
            true => waiting(),
            false => Vec::new(),
        });
        watches.reads(VOLUME);
        watches.reads(STORAGE_CLASS);
    }

    async fn observe(&self, context: &Context, instance: &Arc<Object>) -> Result<Observed, Error> {
        let mut load = BTreeMap::new();
        let all = context.cache(INSTANCE).all();
        for other in all.iter().filter(|one| one.uid != instance.uid && !is_final(one)) {
            let node = text(&other.value["status"]["nodeName"]).to_owned();
            let load: &mut Load = load.entry(node).or_default();
            load.machines += 1;
            load.memory_bytes = load.memory_bytes.saturating_add(memory(other));
        }
        let namespace = &instance.name.namespace;
        let volumes = claims(instance).map(|claim| {
            let name = Name::new(namespace.clone(), claim);
            volume(context, &name)
        });
        let volumes = volumes.collect();
        Ok(Observed { volumes, nodes: context.cache(NODE).all(), load })
    }

    fn plan(&self, instance: &Object, observed: &Observed, now: Timestamp) -> Result<Plan, Error> {
        Ok(plan(instance, observed, now))
    }
}

/// What the guest of an instance has, as its node gives it.
fn memory(instance: &Object) -> u64 {
    let domain = &instance.value["spec"]["domain"];
    let said = [
        &domain["memory"]["guest"],
        &domain["resources"]["requests"]["memory"],
        &domain["resources"]["limits"]["memory"],
    ];
    said.into_iter().filter_map(bytes).find(|bytes| *bytes > 0).unwrap_or(MEMORY_BYTES)
}

fn bytes(quantity: &Value) -> Option<u64> {
    Quantity::read(quantity).and_then(|read| u64::try_from(read.value()).ok())
}

pub fn is_final(instance: &Object) -> bool {
    ["Succeeded", "Failed"].contains(&text(&instance.value["status"]["phase"]))
}

/// The claims that an instance uses.
fn claims(instance: &Object) -> impl Iterator<Item = &str> {
    list(&instance.value["spec"]["volumes"]).iter().filter_map(|volume| {
        let claim = volume["persistentVolumeClaim"]["claimName"].as_str();
        claim.or(volume["dataVolume"]["name"].as_str())
    })
}

fn volume(context: &Context, name: &Name) -> Volume {
    let claim = context.cache(CLAIM).get(name);
    let Some(claim) = claim else {
        return Volume { claim_name: name.name.to_string(), ..Volume::default() };
    };
    let filler = owners::controller_name(&claim, DATA_VOLUME);
    let filler = filler.and_then(|name| context.cache(DATA_VOLUME).get(&name));
    let of = Name::new("", text(&claim.value["spec"]["volumeName"]));
    let bound = context.cache(VOLUME).get(&of);
    let class = Name::new("", text(&claim.value["spec"]["storageClassName"]));
    let class = context.cache(STORAGE_CLASS).get(&class);
    let waits =
        class.is_some_and(|class| class.value["volumeBindingMode"] == "WaitForFirstConsumer");
    let nodes = bound.map(|volume| nodes_of(&volume)).unwrap_or_default();
    Volume { claim_name: name.name.to_string(), claim: Some(claim), filler, nodes, waits }
}

/// The nodes that a volume says it is on.
fn nodes_of(volume: &Object) -> Vec<String> {
    let terms = list(&volume.value["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]);
    let requirements = terms.iter().flat_map(|term| {
        [&term["matchExpressions"], &term["matchFields"]].into_iter().flat_map(list)
    });
    let values = requirements.flat_map(|one| list(&one["values"]));
    values.map(|value| text(value).to_owned()).collect()
}

pub fn plan(instance: &Object, observed: &Observed, now: Timestamp) -> Plan {
    let mut plan = Plan::nothing();
    let is_placed = !text(&instance.value["status"]["nodeName"]).is_empty();
    let has_finalizer = instance.finalizers().any(|one| one == INSTANCE_FINALIZER);
    if instance.is_terminating() {
        // Of one that has a node, its node knows when it is gone.
        if !is_placed && has_finalizer {
            let left: Vec<&str> =
                instance.finalizers().filter(|one| *one != INSTANCE_FINALIZER).collect();
            let patch = json!({"metadata": {"finalizers": left}});
            plan.patch(Target::unchanged(INSTANCE, instance), patch);
        }
        return plan;
    }
    if is_placed || is_final(instance) {
        return plan;
    }
    if !has_finalizer {
        let mut all: Vec<&str> = instance.finalizers().collect();
        all.push(INSTANCE_FINALIZER);
        let patch = json!({"metadata": {"finalizers": all}});
        plan.patch(Target::unchanged(INSTANCE, instance), patch);
        return plan;
    }
    place(&mut plan, instance, observed, now);
    plan
}

/// Hardware that no node of this cluster gives a guest, by its path in the specification of an
/// instance. A guest without it would not be the one that was asked for.
const LACKING: [(&str, &str); 4] = [
    ("/domain/devices/gpus", "GPUs"),
    ("/domain/devices/hostDevices", "devices of their host"),
    ("/domain/devices/tpm", "TPM"),
    ("/domain/firmware/bootloader/efi", "EFI firmware"),
];

/// Returns why no node can run an instance, if it needs hardware that none gives.
fn lacking_hardware(instance: &Object) -> Option<String> {
    let is_wanted = |path: &str| match instance.value["spec"].pointer(path) {
        None | Some(Value::Null) => false,
        Some(Value::Array(all)) => !all.is_empty(),
        Some(_) => true,
    };
    let (path, what) = LACKING.iter().find(|(path, _)| is_wanted(path))?;
    let field = path.replace('/', ".");
    Some(format!("nodes of this cluster give guests no {what}: remove spec{field}"))
}

fn place(plan: &mut Plan, instance: &Object, observed: &Observed, now: Timestamp) {
    if let Some(why) = lacking_hardware(instance) {
        let why = Some(("PodScheduled", "Unschedulable", why.as_str()));
        plan.status = Some(status(instance, "Pending", why, now));
        return;
    }
    let failed = observed.volumes.iter().find(|volume| {
        volume.filler.as_ref().is_some_and(|filler| filler.value["status"]["phase"] == "Failed")
    });
    if let Some(failed) = failed {
        let why = format!("DataVolume {} is in Failed state", failed.claim_name);
        plan.status =
            Some(status(instance, "Failed", Some(("Ready", "DataVolumeError", &why)), now));
        return;
    }
    if let Some(missing) = observed.volumes.iter().find(|volume| volume.claim.is_none()) {
        let why = format!("PVC {} is not found", missing.claim_name);
        let why = Some(("Ready", "FailedPvcNotFound", why.as_str()));
        plan.status = Some(status(instance, "Pending", why, now));
        return;
    }
    let node = match choose(instance, observed) {
        Ok(node) => node,
        Err(why) => {
            let why = Some(("PodScheduled", "Unschedulable", why.as_str()));
            plan.status = Some(status(instance, "Pending", why, now));
            return;
        }
    };
    let mut is_ready = true;
    for volume in &observed.volumes {
        let Some(claim) = &volume.claim else { continue };
        let is_filled = volume
            .filler
            .as_ref()
            .is_none_or(|filler| filler.value["status"]["phase"] == "Succeeded");
        let is_bound = claim.value["status"]["phase"] == "Bound";
        is_ready = is_ready && is_filled && is_bound;
        if !is_bound && volume.waits && claim.annotation(SELECTED_NODE).is_none() {
            let patch = json!({"metadata": {"annotations": {SELECTED_NODE: node}}});
            plan.patch(Target::of(CLAIM, claim), patch);
        }
    }
    if !is_ready {
        let why = Some(("Ready", "GuestNotRunning", "the volumes of the machine are being made"));
        plan.status = Some(status(instance, "Pending", why, now));
        return;
    }
    let mut placed = status(instance, "Scheduled", None, now);
    placed["nodeName"] = json!(node);
    plan.status = Some(placed);
}

/// The node that has the fewest machines, of those that can; else why none can.
fn choose(instance: &Object, observed: &Observed) -> Result<String, String> {
    let spec = &instance.value["spec"];
    let bound: Vec<&Vec<String>> = observed
        .volumes
        .iter()
        .map(|volume| &volume.nodes)
        .filter(|nodes| !nodes.is_empty())
        .collect();
    let selected = observed
        .volumes
        .iter()
        .find_map(|volume| volume.claim.as_ref()?.annotation(SELECTED_NODE).map(str::to_owned));
    let can = |node: &&Arc<Object>| {
        let name = &*node.name.name;
        let host = node.label("kubernetes.io/hostname").unwrap_or(name);
        let is_at = |nodes: &&Vec<String>| nodes.iter().any(|one| one == name || one == host);
        node.label(SCHEDULABLE) == Some("true")
            && conditions::is_true(&node.value["status"], "Ready")
            && node.value["spec"]["unschedulable"] != true
            && is_selected(spec, node)
            && is_tolerated(spec, node)
            && bound.iter().all(is_at)
            && selected.as_ref().is_none_or(|selected| selected == name)
    };
    let load = |node: &Object| observed.load.get(&*node.name.name).copied().unwrap_or_default();
    let all: Vec<&Arc<Object>> = observed.nodes.iter().filter(can).collect();
    if all.is_empty() {
        return Err("no node can run the machine: none is ready for machines, tolerated and \
                    selected, with all of its volumes"
            .to_owned());
    }
    let memory = memory(instance);
    let has_room = |node: &&&Arc<Object>| {
        // Who does not say what he has, has enough.
        let has = bytes(&node.value["status"]["allocatable"]["memory"]).unwrap_or(u64::MAX);
        load(node).memory_bytes.saturating_add(memory) <= has
    };
    let found = all.iter().filter(has_room).min_by_key(|node| load(node).machines);
    found.map(|node| node.name.name.to_string()).ok_or_else(|| {
        format!(
            "no node can run the machine: none of {} has {} MiB of memory left beside its other \
             machines",
            all.len(),
            memory >> 20
        )
    })
}

fn is_selected(spec: &Value, node: &Object) -> bool {
    let mut wanted = spec["nodeSelector"].as_object().into_iter().flatten();
    wanted.all(|(label, value)| node.label(label) == value.as_str())
}

fn is_tolerated(spec: &Value, node: &Object) -> bool {
    let tolerates = |taint: &Value| {
        list(&spec["tolerations"]).iter().any(|one| {
            let of_key = text(&one["key"]).is_empty() || one["key"] == taint["key"];
            let of_value =
                one["operator"] == "Exists" || text(&one["value"]) == text(&taint["value"]);
            let of_effect = text(&one["effect"]).is_empty() || one["effect"] == taint["effect"];
            of_key && of_value && of_effect
        })
    };
    let taints = list(&node.value["spec"]["taints"]).iter();
    let mut hard = taints.filter(|taint| taint["effect"] != "PreferNoSchedule");
    hard.all(tolerates)
}

fn status(
    instance: &Object,
    phase: &str,
    why: Option<(&str, &str, &str)>,
    now: Timestamp,
) -> Value {
    let mut status = instance.value["status"].clone();
    if !status.is_object() {
        status = json!({});
    }
    let mut times = list(&status["phaseTransitionTimestamps"]).to_vec();
    let passed: &[&str] = match phase {
        "Scheduled" => &["Pending", "Scheduling", "Scheduled"],
        "Failed" => &["Pending", "Failed"],
        _ => &["Pending"],
    };
    for passed in passed {
        if !times.iter().any(|one| one["phase"] == *passed) {
            times.push(json!({"phase": passed, "phaseTransitionTimestamp": conditions::time(now)}));
        }
    }
    status["phase"] = json!(phase);
    status["phaseTransitionTimestamps"] = json!(times);
    let mut all = list(&status["conditions"]).to_vec();
    all.retain(|one| {
        one["type"] != "PodScheduled" || why.is_some_and(|(kind, ..)| kind == "PodScheduled")
    });
    if let Some((kind, reason, message)) = why {
        let status = Truth::False;
        let condition = Condition { kind, status, reason, message, observed_generation: None };
        conditions::set(&mut all, &condition, now);
    }
    status["conditions"] = json!(all);
    status
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &str, label: &str) -> Arc<Object> {
        Arc::new(Object::new(json!({
            "metadata": {"name": name, "labels": {SCHEDULABLE: label}},
            "status": {"conditions": [{"type": "Ready", "status": "True"}]}})))
    }

    fn claim(phase: &str, annotations: Value) -> Option<Arc<Object>> {
        Some(Arc::new(Object::new(json!({
            "metadata": {"namespace": "a", "name": "c", "uid": "c1", "annotations": annotations},
            "status": {"phase": phase}}))))
    }

    fn planned(volume: Volume) -> Plan {
        let instance = Object::new(json!({
            "metadata": {"namespace": "a", "name": "i", "uid": "u",
                "finalizers": [INSTANCE_FINALIZER]},
            "spec": {}, "status": {}}));
        let load = [("n1".to_owned(), Load { machines: 3, memory_bytes: 0 })].into();
        let nodes = vec![node("n0", "false"), node("n1", "true"), node("n2", "true")];
        plan(&instance, &Observed { volumes: vec![volume], nodes, load }, Timestamp::UNIX_EPOCH)
    }

    #[test]
    fn an_instance_that_needs_what_nodes_lack_waits_and_says_why() {
        for (domain, why) in [
            (
                json!({"devices": {"gpus": [{"name": "a"}]}}),
                "no GPUs: remove spec.domain.devices.gpus",
            ),
            (json!({"devices": {"tpm": {}}}), "no TPM: remove spec.domain.devices.tpm"),
            (
                json!({"firmware": {"bootloader": {"efi": {"secureBoot": false}}}}),
                "no EFI firmware: remove spec.domain.firmware.bootloader.efi",
            ),
        ] {
            let instance = Object::new(json!({
                "metadata": {"namespace": "a", "name": "i", "uid": "u",
                    "finalizers": [INSTANCE_FINALIZER]},
                "spec": {"domain": domain}, "status": {}}));
            let nodes = vec![node("n1", "true")];
            let (volumes, load) = (Vec::new(), BTreeMap::new());
            let observed = Observed { volumes, nodes, load };
            let plan = plan(&instance, &observed, Timestamp::UNIX_EPOCH);
            let status = plan.status.expect("status was planned");
            assert_eq!(status["phase"], "Pending");
            let found = conditions::find(&status, "PodScheduled").expect("condition was set");
            assert_eq!(found["reason"], "Unschedulable");
            assert!(text(&found["message"]).ends_with(why), "{found}");
        }
    }

    #[test]
    fn volumes_that_wait_are_bound_where_the_machine_will_run_and_it_runs_where_they_are() {
        let waits = Volume { claim: claim("Pending", json!({})), waits: true, ..Volume::default() };
        let plan = planned(waits);
        assert!(plan.to_string().contains(r#"selected-node":"n2""#), "{plan}");
        assert_eq!(plan.status.unwrap()["phase"], "Pending");
        let nodes = vec!["n1".to_owned()];
        let bound = Volume { claim: claim("Bound", json!({})), nodes, ..Volume::default() };
        let status = planned(bound).status.unwrap();
        assert_eq!((text(&status["phase"]), text(&status["nodeName"])), ("Scheduled", "n1"));
        let nodes = vec!["n0".to_owned()];
        let apart = Volume { claim: claim("Bound", json!({})), nodes, ..Volume::default() };
        let status = planned(apart).status.unwrap();
        assert_eq!(status["phase"], "Pending");
        assert_eq!(conditions::find(&status, "PodScheduled").unwrap()["reason"], "Unschedulable");
    }

    #[test]
    fn a_machine_goes_where_there_is_memory_for_it() {
        let asks = |memory: &str| {
            Object::new(json!({
                "metadata": {"namespace": "a", "name": "i", "uid": "u",
                    "finalizers": [INSTANCE_FINALIZER]},
                "spec": {"domain": {"memory": {"guest": memory}}}}))
        };
        let with = |name: &str| {
            let mut node = (*node(name, "true").value).clone();
            node["status"]["allocatable"] = json!({"memory": "4Gi"});
            Arc::new(Object::new(node))
        };
        let taken = Load { machines: 1, memory_bytes: 3 << 30 };
        let placed = |memory: &str| {
            let load = [("n1".to_owned(), taken), ("n2".to_owned(), Load { machines: 2, ..taken })];
            let nodes = vec![with("n1"), with("n2")];
            let observed = Observed { volumes: Vec::new(), nodes, load: load.into() };
            plan(&asks(memory), &observed, Timestamp::UNIX_EPOCH).status.unwrap()
        };
        assert_eq!(placed("1Gi")["nodeName"], "n1");
        let status = placed("1025Mi");
        assert_eq!(status["phase"], "Pending");
        let why = conditions::find(&status, "PodScheduled").unwrap();
        assert_eq!(why["reason"], "Unschedulable");
        assert_eq!(
            why["message"],
            "no node can run the machine: none of 2 has 1025 MiB of memory left beside its other \
             machines"
        );
    }

    #[test]
    fn a_machine_waits_for_its_volumes_to_be_filled() {
        let filler = |phase: &str| {
            Some(Arc::new(Object::new(
                json!({"metadata": {"name": "c"}, "status": {"phase": phase}}),
            )))
        };
        let volume = |phase: &str| Volume {
            claim: claim("Bound", json!({})),
            filler: filler(phase),
            ..Volume::default()
        };
        let phase = |volume| planned(volume).status.unwrap()["phase"].clone();
        assert_eq!(phase(volume("ImportInProgress")), "Pending");
        assert_eq!(phase(volume("Succeeded")), "Scheduled");
        assert_eq!(phase(volume("Failed")), "Failed");
        assert_eq!(phase(Volume::default()), "Pending");
    }
}
