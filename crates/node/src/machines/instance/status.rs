//! What is told of an instance. Pure.

use hypervisor::qemu::arguments::OWN_ADDRESS;
use hypervisor::{Kind, Machine, Network, Pause};
use k8s_openapi::jiff::Timestamp;
use reconcile::Object;
use reconcile::conditions::{self, Condition, Truth};
use serde_json::{Value, json};

use super::super::volumes::{list, text};

/// What a machine is seen to do.
pub struct Seen<'a> {
    pub phase: &'static str,
    /// Why it is so, where a phase alone does not say.
    pub reason: &'a str,
    pub pause: Option<Pause>,
    pub machine: Option<&'a Machine>,
    pub kind: Kind,
}

/// The whole status of an instance that does this.
pub fn status(instance: &Object, seen: &Seen<'_>, now: Timestamp) -> Value {
    let mut status = instance.value["status"].clone();
    if !status.is_object() {
        status = json!({});
    }
    if status["phase"] != seen.phase {
        status["phase"] = json!(seen.phase);
        let mut times = list(&status["phaseTransitionTimestamps"]).to_vec();
        times.push(json!({"phase": seen.phase, "phaseTransitionTimestamp": conditions::time(now)}));
        status["phaseTransitionTimestamps"] = json!(times);
    }
    match seen.reason {
        "" => drop(status.as_object_mut().and_then(|status| status.remove("reason"))),
        reason => status["reason"] = json!(reason),
    }
    if let Some(machine) = seen.machine {
        status["interfaces"] = json!(interfaces(machine));
        status["volumeStatus"] = json!(volumes(instance, &status));
    }
    let mut all = list(&status["conditions"]).to_vec();
    for condition in conditions_of(seen) {
        conditions::set(&mut all, &condition, now);
    }
    let is_paused = seen.pause.is_some();
    all.retain(|one| is_paused || one["type"] != "Paused");
    all.retain(|one| seen.kind == Kind::Software || one["type"] != "SoftwareEmulation");
    status["conditions"] = json!(all);
    status
}

fn conditions_of(seen: &Seen<'_>) -> Vec<Condition<'static>> {
    let make = |kind, status, reason, message| Condition {
        kind,
        status,
        reason,
        message,
        observed_generation: None,
    };
    let mut all = Vec::new();
    match (seen.phase, seen.pause) {
        ("Running", None) => all.push(make("Ready", Truth::True, "", "")),
        ("Running", Some(_)) => {
            all.push(make(
                "Ready",
                Truth::False,
                "GuestNotRunning",
                "Guest VM is not reported as running",
            ));
        }
        (_, _) => {
            let message = "virt-launcher pod is terminating or has terminated";
            all.push(make("Ready", Truth::False, "PodTerminating", message));
        }
    }
    match seen.pause {
        Some(Pause::Asked) => {
            all.push(make("Paused", Truth::True, "PausedByUser", "VMI was paused by user"));
        }
        Some(Pause::Failing) => {
            let message = "VMI was paused, low-level IO error detected";
            all.push(make("Paused", Truth::True, "PausedIOError", message));
        }
        None => {}
    }
    if seen.kind == Kind::Software {
        let message = "the processors of this node cannot run machines: a program plays them";
        all.push(make("SoftwareEmulation", Truth::True, "NoHardwareVirtualization", message));
    }
    let why = "the disks of the machine are on its node";
    all.push(make("LiveMigratable", Truth::False, "DisksNotLiveMigratable", why));
    all.push(make("Synchronized", Truth::True, "", ""));
    all
}

/// That a machine could not be made to be as it should.
pub fn unsynchronized(instance: &Object, why: &str, now: Timestamp) -> Value {
    let mut status = instance.value["status"].clone();
    let mut all = list(&status["conditions"]).to_vec();
    let condition = Condition {
        kind: "Synchronized",
        status: Truth::False,
        reason: "Synchronizing with the Domain failed.",
        message: why,
        observed_generation: None,
    };
    conditions::set(&mut all, &condition, now);
    status["conditions"] = json!(all);
    status
}

/// Interfaces with the addresses that are known: those that we give, and those that the guest was
/// told to take.
fn interfaces(machine: &Machine) -> Vec<Value> {
    let told = machine.seed.as_ref().and_then(|seed| seed.network_config.as_deref());
    let told: Value =
        told.and_then(|text| serde_saphyr::from_str(text).ok()).unwrap_or(Value::Null);
    let all = machine.interfaces.iter().map(|interface| {
        let mut shown = json!({"name": interface.name, "mac": interface.hardware_address,
            "infoSource": "domain"});
        let address = match interface.network {
            Network::Own => Some(OWN_ADDRESS.to_owned()),
            Network::Bridge(_) => static_address(&told, &interface.hardware_address),
        };
        if let Some(address) = address {
            shown["ipAddress"] = json!(address);
            shown["ipAddresses"] = json!([address]);
        }
        shown
    });
    all.collect()
}

/// The address that an interface is told to take.
fn static_address(told: &Value, hardware_address: &str) -> Option<String> {
    let mut all = told["ethernets"].as_object()?.values();
    let own = all.find(|one| text(&one["match"]["macaddress"]) == hardware_address)?;
    let address = own["addresses"][0].as_str()?;
    Some(address.split('/').next().unwrap_or_default().to_owned())
}

/// Volumes in their order; what was plugged in while the machine runs says so.
fn volumes(instance: &Object, status: &Value) -> Vec<Value> {
    let known = list(&status["volumeStatus"]);
    let mut letters = (b'a'..=b'z').map(char::from);
    let all = list(&instance.value["spec"]["volumes"]).iter().map(|volume| {
        let name = text(&volume["name"]);
        let found = known.iter().find(|one| one["name"] == name).cloned();
        let target = letters.next().map(|letter| format!("vd{letter}")).unwrap_or_default();
        found.unwrap_or_else(|| {
            let mut told = json!({"name": name, "target": target});
            if is_plugged(volume) {
                told["hotplugVolume"] = json!({});
                told["phase"] = json!("Ready");
            }
            told
        })
    });
    all.collect()
}

/// Whether a volume may come and go while the machine runs.
pub fn is_plugged(volume: &Value) -> bool {
    ["persistentVolumeClaim", "dataVolume"]
        .iter()
        .any(|source| volume[*source]["hotpluggable"] == true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_that_the_guest_is_told_to_take_is_shown() {
        let told = "version: 2\nethernets:\n  lan:\n    \
            match: {macaddress: '02:00:00:00:00:01'}\n    \
            addresses: [10.1.2.3/24]\n";
        let told: Value = serde_saphyr::from_str(told).unwrap();
        assert_eq!(static_address(&told, "02:00:00:00:00:01").unwrap(), "10.1.2.3");
        assert_eq!(static_address(&told, "02:00:00:00:00:02"), None);
        assert_eq!(static_address(&Value::Null, ""), None);
    }

    #[test]
    fn a_paused_machine_is_running_and_not_ready_and_times_move_with_phases_only() {
        let at = |second| Timestamp::from_second(second).unwrap();
        let seen = |pause| Seen {
            phase: "Running",
            reason: "",
            pause,
            machine: None,
            kind: Kind::Software,
        };
        let instance =
            |status: Value| Object::new(json!({"metadata": {"name": "a"}, "status": status}));
        let first = status(&instance(json!({"phase": "Scheduled"})), &seen(None), at(10));
        assert!(conditions::is_true(&first, "Ready"));
        assert!(conditions::is_true(&first, "SoftwareEmulation"));
        let second = status(&instance(first.clone()), &seen(Some(Pause::Asked)), at(20));
        assert_eq!(second["phaseTransitionTimestamps"], first["phaseTransitionTimestamps"]);
        assert_eq!(conditions::find(&second, "Paused").unwrap()["reason"], "PausedByUser");
        assert!(!conditions::is_true(&second, "Ready"));
        let third = status(&instance(second), &seen(None), at(30));
        assert!(conditions::find(&third, "Paused").is_none());
    }
}
