//! What is told of an instance. Pure.

use hypervisor::qemu::arguments::OWN_ADDRESS;
use hypervisor::{Guest, GuestInterface, Kind, Machine, Network, Pause};
use k8s_openapi::jiff::Timestamp;
use reconcile::Object;
use reconcile::conditions::{self, Condition, Truth};
use serde_json::{Map, Value, json};

use super::super::volumes::{list, text};

/// What a machine is seen to do.
pub struct Seen<'a> {
    pub phase: &'static str,
    /// Why it is so, where a phase alone does not say.
    pub reason: &'a str,
    pub pause: Option<Pause>,
    pub machine: Option<&'a Machine>,
    pub kind: Kind,
    /// What the guest says of itself.
    pub guest: Option<&'a Guest>,
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
        status["interfaces"] = json!(interfaces(machine, seen.guest));
        status["volumeStatus"] = json!(volumes(instance, &status));
    }
    match seen.guest {
        Some(guest) => status["guestOSInfo"] = guest_system(guest),
        None => drop(status.as_object_mut().and_then(|status| status.remove("guestOSInfo"))),
    }
    let mut all = list(&status["conditions"]).to_vec();
    for condition in conditions_of(seen) {
        conditions::set(&mut all, &condition, now);
    }
    let is_paused = seen.pause.is_some();
    all.retain(|one| is_paused || one["type"] != "Paused");
    all.retain(|one| seen.guest.is_some() || one["type"] != "AgentConnected");
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
    if seen.guest.is_some() {
        all.push(make("AgentConnected", Truth::True, "", ""));
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

/// What a guest runs, as it says.
pub fn guest_system(guest: &Guest) -> Value {
    let system = &guest.system;
    let all = [
        ("id", &system.id),
        ("name", &system.name),
        ("prettyName", &system.pretty_name),
        ("version", &system.version),
        ("versionId", &system.version_id),
        ("kernelRelease", &system.kernel_release),
        ("kernelVersion", &system.kernel_version),
        ("machine", &system.machine),
    ];
    let told = all.into_iter().filter(|(_, text)| !text.is_empty());
    told.map(|(field, text)| (field.to_owned(), json!(text))).collect::<Map<_, _>>().into()
}

/// Interfaces with the addresses that are known: those that the guest says it has, that we give,
/// and that it was told to take.
fn interfaces(machine: &Machine, guest: Option<&Guest>) -> Vec<Value> {
    let told = machine.seed.as_ref().and_then(|seed| seed.network_config.as_deref());
    let told: Value =
        told.and_then(|text| serde_saphyr::from_str(text).ok()).unwrap_or(Value::Null);
    let all = machine.interfaces.iter().map(|interface| {
        let mut shown = json!({"name": interface.name, "mac": interface.hardware_address,
            "infoSource": "domain"});
        let address = match interface.network {
            Network::Own => Some(OWN_ADDRESS.to_owned()),
            Network::Bridge(_) | Network::Device(_) => {
                static_address(&told, &interface.hardware_address)
            }
        };
        if let Some(address) = address {
            shown["ipAddress"] = json!(address);
            shown["ipAddresses"] = json!([address]);
        }
        // An interface is known by its own address, which we gave.
        let mut all = guest.iter().flat_map(|guest| &guest.interfaces);
        if let Some(own) = all.find(|one| one.hardware_address == interface.hardware_address) {
            say(&mut shown, own);
        }
        shown
    });
    all.collect()
}

/// What a guest says of an interface; of its addresses those that others can reach come first.
fn say(shown: &mut Value, own: &GuestInterface) {
    shown["interfaceName"] = json!(own.name);
    shown["infoSource"] = json!("domain, guest-agent");
    let mut addresses = own.addresses.clone();
    addresses.sort_by_key(std::net::IpAddr::is_ipv6);
    if let Some(first) = addresses.first() {
        shown["ipAddress"] = json!(first);
        shown["ipAddresses"] = json!(addresses);
    }
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
            match: {macaddress: '02:00:00:00:00:01'}\n    addresses: [10.1.2.3/24]\n";
        let told: Value = serde_saphyr::from_str(told).unwrap();
        assert_eq!(static_address(&told, "02:00:00:00:00:01").unwrap(), "10.1.2.3");
        assert_eq!(static_address(&told, "02:00:00:00:00:02"), None);
        assert_eq!(static_address(&Value::Null, ""), None);
    }

    #[test]
    fn what_a_guest_says_of_itself_is_shown_while_it_does() {
        let own = |name: &str, hardware_address: &str, address: &str| GuestInterface {
            name: name.to_owned(),
            hardware_address: hardware_address.to_owned(),
            addresses: vec!["fe80::1".parse().unwrap(), address.parse().unwrap()],
            ..GuestInterface::default()
        };
        let (ours, other) = ("02:00:00:00:00:01", "02:00:00:00:00:02");
        let guest = Guest {
            system: hypervisor::GuestSystem { id: "debian".to_owned(), ..Default::default() },
            interfaces: vec![own("lo", other, "127.0.0.1"), own("eth0", ours, "10.9.8.7")],
            ..Guest::default()
        };
        let mut shown = json!({"name": "default"});
        say(&mut shown, &guest.interfaces[1]);
        assert_eq!(
            (&shown["ipAddress"], &shown["interfaceName"]),
            (&json!("10.9.8.7"), &json!("eth0"))
        );
        let instance = Object::new(json!({"metadata": {"name": "a"}}));
        let seen = |guest| Seen {
            phase: "Running",
            reason: "",
            pause: None,
            machine: None,
            kind: Kind::Hardware,
            guest,
        };
        let with = status(&instance, &seen(Some(&guest)), Timestamp::UNIX_EPOCH);
        assert_eq!(with["guestOSInfo"], json!({"id": "debian"}));
        assert!(conditions::is_true(&with, "AgentConnected"));
        let instance = Object::new(json!({"metadata": {"name": "a"}, "status": with}));
        let without = status(&instance, &seen(None), Timestamp::UNIX_EPOCH);
        assert!(conditions::find(&without, "AgentConnected").is_none());
        assert!(without["guestOSInfo"].is_null());
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
            guest: None,
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
