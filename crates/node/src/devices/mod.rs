//! Devices of this machine that are given to containers one by one.
//!
//! Who has which is kept in a file, so that a restart takes nothing away; a container has its
//! devices for as long as its pod is there. GPUs are the only kind (`gpu.rs`).

mod gpu;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::pod::resources::quantity;
use crate::runtime::Refusal;

/// Devices of one kind that are counted.
const DEVICES_MAX: u32 = 1_024;
const BILLION: i128 = 1_000_000_000;

/// What there is and who has it.
pub struct Devices {
    /// How many there are of each resource, named as in pods.
    counts: BTreeMap<String, u32>,
    /// Resources that are only counted: what the user said this node has.
    named: BTreeMap<String, String>,
    file: PathBuf,
    held: Mutex<Held>,
}

/// What a container sees of the devices of the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sight {
    /// All of them, by the numbers that they have on the machine.
    All,
    /// What it is given, by numbers that begin anew: a container with a root of its own.
    Own,
}

/// What a container is given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Given {
    /// What tells it which devices are its own.
    pub variables: Vec<(&'static str, String)>,
    /// The numbers of GPUs that are there, and not only counted.
    pub gpus: Vec<u32>,
}

/// By resource and number: the pod's UID and the container that has it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Held(BTreeMap<String, BTreeMap<u32, (String, String)>>);

impl Devices {
    /// Looks what there is. What is named counts besides, or instead of what was found.
    pub fn open(directory: &Path, named: &BTreeMap<String, String>) -> Devices {
        let mut counts = BTreeMap::new();
        let found = count_gpus(named);
        if found > 0 || named.contains_key(gpu::RESOURCE) {
            counts.insert(gpu::RESOURCE.to_owned(), found);
        }
        let file = directory.join("devices.json");
        let text = fs::read(&file).unwrap_or_default();
        let held = serde_json::from_slice(&text).unwrap_or_default();
        Devices { counts, named: named.clone(), file, held: Mutex::new(held) }
    }

    /// What tells of the devices among the labels of the node.
    pub fn add_labels(&self, labels: &mut Value) {
        for (name, value) in gpu::labels(gpu::found()) {
            labels[name] = json!(value);
        }
    }

    /// Adds what there is to the capacity of the node.
    pub fn add_to(&self, capacity: &mut Value) {
        for (name, amount) in &self.named {
            capacity[name] = json!(amount);
        }
        for (name, count) in &self.counts {
            capacity[name] = json!(count.to_string());
        }
    }

    /// Gives a container what it asks for. Where there are devices, who asks for none is told so.
    pub fn give(&self, (pod, container): (&str, &Value), sight: Sight) -> Result<Given, Refusal> {
        let Some(count) = self.counts.get(gpu::RESOURCE) else { return Ok(Given::default()) };
        let limits = &container["resources"]["limits"];
        let wanted = quantity(&limits[gpu::RESOURCE]).unwrap_or(0) / BILLION;
        let wanted = usize::try_from(wanted).unwrap_or(0);
        let name = container["name"].as_str().unwrap_or_default();
        if wanted == 0 {
            return Ok(Given { variables: gpu::variables(&[], sight), gpus: Vec::new() });
        }
        let mut held = self.lock();
        let of_kind = held.0.entry(gpu::RESOURCE.to_owned()).or_default();
        let given = assign(of_kind, *count, (pod, name), wanted).ok_or_else(|| Refusal {
            reason: "UnexpectedAdmissionError",
            message: format!(
                "Allocate failed due to requested number of devices unavailable for {}. \
                 Requested: {wanted}, Available: {}",
                gpu::RESOURCE,
                usize::try_from(*count).unwrap_or(0).saturating_sub(of_kind.len())
            ),
        })?;
        self.keep(&held);
        let variables = gpu::variables(&given, sight);
        let is_there = |number: &u32| gpu::found().iter().any(|gpu| gpu.number == *number);
        Ok(Given { variables, gpus: given.into_iter().filter(is_there).collect() })
    }

    /// What the pod had is free for others.
    pub fn release(&self, pod: &str) {
        let mut held = self.lock();
        let before = held.clone();
        held.0.values_mut().for_each(|of_kind| of_kind.retain(|_, (owner, _)| owner != pod));
        if *held != before {
            self.keep(&held);
        }
    }

    /// What pods that are gone had is free for others.
    pub fn retain(&self, pods: &BTreeSet<String>) {
        let mut held = self.lock();
        held.0.values_mut().for_each(|of_kind| of_kind.retain(|_, (pod, _)| pods.contains(pod)));
        self.keep(&held);
    }

    fn keep(&self, held: &Held) {
        if held.0.values().all(BTreeMap::is_empty) {
            let _ = fs::remove_file(&self.file);
            return;
        }
        let draft = self.file.with_extension("draft");
        let text = serde_json::to_vec(held).unwrap_or_default();
        let kept = fs::write(&draft, text).and_then(|()| fs::rename(&draft, &self.file));
        if let Err(error) = kept {
            tracing::warn!(%error, "who has which device is not kept");
        }
    }

    fn lock(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How many GPUs the machine has, or is said to have. This may take seconds the first time.
pub fn count_gpus(named: &BTreeMap<String, String>) -> u32 {
    let said = named.get(gpu::RESOURCE).map(|amount| amount.parse().unwrap_or(0));
    let found = || u32::try_from(gpu::found().len()).unwrap_or(0);
    said.unwrap_or_else(found).min(DEVICES_MAX)
}

/// The numbers that a container has: those it had, or the first that are free. `None` if there are
/// not enough.
fn assign(
    held: &mut BTreeMap<u32, (String, String)>,
    count: u32,
    (pod, container): (&str, &str),
    wanted: usize,
) -> Option<Vec<u32>> {
    let owner = (pod.to_owned(), container.to_owned());
    let own: Vec<u32> =
        held.iter().filter(|(_, it)| **it == owner).map(|(number, _)| *number).collect();
    if own.len() == wanted {
        return Some(own);
    }
    let free: Vec<u32> = (0..count).filter(|it| !held.contains_key(it)).take(wanted).collect();
    if free.len() < wanted {
        return None;
    }
    held.extend(free.iter().map(|number| (*number, owner.clone())));
    Some(free)
}

/// What a node is said to have besides what it has: `nvidia.com/gpu=2,example.com/license=5`.
pub fn parse(text: &str) -> Result<BTreeMap<String, String>, String> {
    let mut named = BTreeMap::new();
    for part in text.split(',').filter(|part| !part.is_empty()) {
        let (name, amount) = part.split_once('=').ok_or_else(|| {
            format!("expected NAME=COUNT such as nvidia.com/gpu=2, found {part:?}")
        })?;
        let name = name.trim();
        // Of what every node has, only the room for pods is a matter of choice.
        let is_named = name.contains('/') || name == "pods";
        if !is_named || amount.parse::<u32>().is_err() {
            return Err(format!(
                "{part:?} is no resource; expected a name with a domain and a whole number, such \
                 as nvidia.com/gpu=2"
            ));
        }
        named.insert(name.to_owned(), amount.to_owned());
    }
    Ok(named)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asks(name: &str, count: &str) -> Value {
        json!({"name": name, "resources": {"limits": {"nvidia.com/gpu": count}}})
    }

    #[test]
    fn everybody_has_devices_of_his_own_and_keeps_them() {
        let name = format!("setpoint-devices-{}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        fs::create_dir_all(&directory).unwrap();
        let named = parse("nvidia.com/gpu=3").unwrap();
        let devices = Devices::open(&directory, &named);
        let visible = |devices: &Devices, pod: &str, container: &Value| {
            let given = devices.give((pod, container), Sight::All);
            let told = given.map_err(|refusal| refusal.message)?.variables;
            let cuda = told.iter().find(|(name, _)| *name == "CUDA_VISIBLE_DEVICES");
            Ok::<_, String>(cuda.unwrap().1.clone())
        };
        assert_eq!(visible(&devices, "a", &asks("x", "2")).unwrap(), "0,1");
        assert_eq!(visible(&devices, "b", &asks("x", "1")).unwrap(), "2");
        assert_eq!(visible(&devices, "c", &json!({"name": "x"})).unwrap(), "");
        // In a root of its own the first of what it has is 0, whatever that is on the machine.
        let own = devices.give(("b", &asks("x", "1")), Sight::Own).unwrap();
        assert_eq!(own.variables, [("NVIDIA_VISIBLE_DEVICES", "2".to_owned())]);
        let none = devices.give(("c", &json!({"name": "x"})), Sight::Own).unwrap();
        assert_eq!(none.variables, [("NVIDIA_VISIBLE_DEVICES", "void".to_owned())]);
        let refusal = visible(&devices, "c", &asks("x", "1")).unwrap_err();
        assert!(refusal.ends_with("Requested: 1, Available: 0"), "{refusal}");
        // A restart takes nothing away, and nobody gets more by asking twice.
        let again = Devices::open(&directory, &named);
        assert_eq!(visible(&again, "a", &asks("x", "2")).unwrap(), "0,1");
        again.release("a");
        assert_eq!(visible(&again, "c", &asks("x", "1")).unwrap(), "0");
        again.retain(&BTreeSet::from(["b".to_owned()]));
        assert_eq!(visible(&again, "d", &asks("x", "2")).unwrap(), "0,1");
        let mut capacity = json!({"cpu": "2"});
        again.add_to(&mut capacity);
        assert_eq!(capacity, json!({"cpu": "2", "nvidia.com/gpu": "3"}));
        fs::remove_dir_all(&directory).unwrap();
    }

    #[test]
    fn what_is_named_has_a_domain_and_a_count() {
        assert!(parse("").unwrap().is_empty());
        for wrong in ["gpu=1", "nvidia.com/gpu", "nvidia.com/gpu=many", "nvidia.com/gpu=-1"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
