//! What an instance asks for, as a machine. Pure: what it refers to was looked up before.

use std::collections::BTreeMap;
use std::path::PathBuf;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use hypervisor::seed::Seed;
use hypervisor::{Disk, Interface, Machine, Media, Network};
use reconcile::Object;
use serde_json::{Value, json};

use super::super::volumes::{bytes, list, text};

/// What a machine gets that says nothing.
const MEMORY_BYTES: u64 = 2 << 30;
const PROCESSORS_MAX: u64 = 512;
/// What an instance may get while it runs, as whoever made it says.
const PROCESSORS_MAX_ANNOTATION: &str = "setpoint.dev/processors-max";

/// What an instance refers to.
#[derive(Default)]
pub struct References {
    /// The file of each volume that is a claim.
    pub files: BTreeMap<String, PathBuf>,
    /// What the files hold the differences to, where they do.
    pub bases: BTreeMap<String, PathBuf>,
    /// How long each is to be.
    pub bytes: BTreeMap<String, u64>,
    /// The texts of secrets that tell a machine how to start, by the name of the secret.
    pub secrets: BTreeMap<String, BTreeMap<String, String>>,
    /// What each network leads to that is not that of pods.
    pub networks: BTreeMap<String, Network>,
}

/// The claim of a volume, if it is one.
pub fn claim_of(volume: &Value) -> Option<&str> {
    let claim = volume["persistentVolumeClaim"]["claimName"].as_str();
    // The claim of a DataVolume has its name.
    claim.or(volume["dataVolume"]["name"].as_str())
}

pub fn machine(instance: &Object, found: &References) -> Result<Machine, String> {
    let spec = &instance.value["spec"];
    let (domain, name) = (&spec["domain"], &instance.name);
    let devices = &domain["devices"];
    let uuid = match text(&domain["firmware"]["uuid"]) {
        "" => instance.uid.as_str(),
        uuid => uuid,
    };
    Ok(Machine {
        id: instance.uid.clone(),
        name: format!("{}_{}", name.namespace, name.name),
        uuid: uuid.to_owned(),
        processors: processors(&domain["cpu"])?,
        processors_max: instance
            .annotation(PROCESSORS_MAX_ANNOTATION)
            .and_then(|most| most.parse().ok())
            .unwrap_or(0),
        memory_bytes: memory(domain),
        disks: disks(spec, found)?,
        seed: seed(instance, found)?,
        interfaces: interfaces(instance, found)?,
        has_screen: devices["autoattachGraphicsDevice"] != false,
        has_serial: devices["autoattachSerialConsole"] != false,
        starts_paused: spec["startStrategy"] == "Paused",
        goes_on_from: None,
    })
}

fn processors(cpu: &Value) -> Result<u32, String> {
    let of = |field: &str| cpu[field].as_u64().unwrap_or(1).max(1);
    let count = ["cores", "sockets", "threads"].into_iter().map(of);
    let count = count.fold(1, u64::saturating_mul);
    match u32::try_from(count) {
        Ok(count) if u64::from(count) <= PROCESSORS_MAX => Ok(count),
        _ => Err(format!("{count} processors are more than {PROCESSORS_MAX}")),
    }
}

fn memory(domain: &Value) -> u64 {
    let said = [
        &domain["memory"]["guest"],
        &domain["resources"]["requests"]["memory"],
        &domain["resources"]["limits"]["memory"],
    ];
    said.into_iter().map(bytes).find(|bytes| *bytes > 0).unwrap_or(MEMORY_BYTES)
}

/// Names of volumes and networks become parts of paths, and of what a hypervisor is told.
pub fn check_name(name: &str) -> Result<(), String> {
    match hypervisor::is_name(name) {
        true => Ok(()),
        false => Err(format!("{name:?} is no name of a volume or a network")),
    }
}

/// The disk of a volume.
pub fn disk(spec: &Value, volume: &Value, found: &References) -> Result<Disk, String> {
    let name = text(&volume["name"]);
    check_name(name)?;
    let file = found.files.get(name).ok_or_else(|| format!("volume {name} is not found"))?;
    let all = list(&spec["domain"]["devices"]["disks"]);
    let device = all.iter().find(|device| device["name"] == name).unwrap_or(&Value::Null);
    let is_cdrom = device["cdrom"].is_object();
    let order = device["bootOrder"].as_u64().and_then(|order| u32::try_from(order).ok());
    Ok(Disk {
        name: name.to_owned(),
        file: file.clone(),
        base: found.bases.get(name).cloned(),
        boot_order: order,
        is_read_only: is_cdrom || volume["persistentVolumeClaim"]["readOnly"] == true,
        media: if is_cdrom { Media::Cdrom } else { Media::Disk },
    })
}

fn disks(spec: &Value, found: &References) -> Result<Vec<Disk>, String> {
    let mut disks = Vec::new();
    for volume in list(&spec["volumes"]) {
        if claim_of(volume).is_some() {
            disks.push(disk(spec, volume, found)?);
        } else if !is_told(volume) {
            let kinds = volume.as_object().into_iter().flatten().map(|(kind, _)| kind.as_str());
            let kinds: Vec<&str> = kinds.filter(|kind| *kind != "name").collect();
            return Err(format!("this node has no volumes of the kind {}", kinds.join(", ")));
        }
    }
    // Without a word on it the first is booted from.
    if disks.iter().all(|disk| disk.boot_order.is_none())
        && let Some(first) = disks.first_mut()
    {
        first.boot_order = Some(1);
    }
    Ok(disks)
}

fn is_told(volume: &Value) -> bool {
    volume["cloudInitNoCloud"].is_object()
}

/// What the guest is told when it first starts.
fn seed(instance: &Object, found: &References) -> Result<Option<Seed>, String> {
    let volumes = list(&instance.value["spec"]["volumes"]);
    let Some(volume) = volumes.iter().find(|volume| is_told(volume)) else { return Ok(None) };
    let told = &volume["cloudInitNoCloud"];
    let user_data = part(told, ("userData", "userDataBase64", "secretRef", "userdata"), found)?;
    let network = part(
        told,
        ("networkData", "networkDataBase64", "networkDataSecretRef", "networkdata"),
        found,
    )?;
    let uuid = match text(&instance.value["spec"]["domain"]["firmware"]["uuid"]) {
        "" => instance.uid.as_str(),
        uuid => uuid,
    };
    let host: String = instance.name.name.split('.').next().unwrap_or_default().to_owned();
    let meta_data = json!({"instance-id": uuid, "local-hostname": host}).to_string();
    let network_config = Some(network).filter(|text| !text.is_empty());
    Ok(Some(Seed { meta_data, user_data, network_config }))
}

/// A text: as it is, encoded, or in a secret.
fn part(
    told: &Value,
    (plain, encoded, secret, key): (&str, &str, &str, &str),
    found: &References,
) -> Result<String, String> {
    if let Some(text) = told[plain].as_str().filter(|text| !text.is_empty()) {
        return Ok(text.to_owned());
    }
    if let Some(text) = told[encoded].as_str().filter(|text| !text.is_empty()) {
        let bytes = BASE64_STANDARD.decode(text).map_err(|_| format!("{encoded} is not base64"))?;
        return String::from_utf8(bytes).map_err(|_| format!("{encoded} is not a text"));
    }
    let Some(name) = told[secret]["name"].as_str() else { return Ok(String::new()) };
    let texts = found.secrets.get(name).ok_or_else(|| format!("secret {name} is not found"))?;
    let camel = if key == "userdata" { "userData" } else { "networkData" };
    let text = texts.get(key).or_else(|| texts.get(camel));
    text.cloned().ok_or_else(|| format!("secret {name} has no {key}"))
}

fn interfaces(instance: &Object, found: &References) -> Result<Vec<Interface>, String> {
    let spec = &instance.value["spec"];
    let devices = &spec["domain"]["devices"];
    let networks = list(&spec["networks"]);
    if networks.is_empty() && devices["autoattachPodInterface"] != false {
        let hardware_address = hardware_address(instance, "default");
        let name = "default".to_owned();
        return Ok(vec![Interface { name, hardware_address, network: Network::Own }]);
    }
    let mut all = Vec::new();
    for network in networks {
        let name = text(&network["name"]);
        check_name(name)?;
        let mut devices = list(&devices["interfaces"]).iter();
        let device = devices.find(|device| device["name"] == name).unwrap_or(&Value::Null);
        // One that is to go while the machine runs is there no more.
        if device["state"] == "absent" {
            continue;
        }
        let hardware_address = match text(&device["macAddress"]) {
            "" => hardware_address(instance, name),
            address => address.to_ascii_lowercase().replace('-', ":"),
        };
        if !is_hardware_address(&hardware_address) {
            return Err(format!("{hardware_address:?} is no address of an interface"));
        }
        let network = match network["multus"].is_object() {
            false => Network::Own,
            true => {
                let none = || format!("network {name} is not found");
                found.networks.get(name).ok_or_else(none)?.clone()
            }
        };
        all.push(Interface { name: name.to_owned(), hardware_address, network });
    }
    Ok(all)
}

/// What has to come and to go so that a machine that runs has the interfaces that it should. That
/// to the network of pods is as it was at the start.
pub fn to_plug(has: &[String], wanted: &[Interface]) -> (Vec<Interface>, Vec<String>) {
    let is_attached = |one: &&Interface| one.network != Network::Own;
    let come = wanted.iter().filter(is_attached).filter(|one| !has.contains(&one.name));
    let gone = has.iter().filter(|name| wanted.iter().all(|one| one.name != **name));
    (come.cloned().collect(), gone.cloned().collect())
}

fn is_hardware_address(text: &str) -> bool {
    let parts: Vec<&str> = text.split(':').collect();
    let is_byte = |part: &&str| part.len() == 2 && part.bytes().all(|it| it.is_ascii_hexdigit());
    parts.len() == 6 && parts.iter().all(is_byte)
}

/// The same each time for an interface of an instance of a name.
fn hardware_address(instance: &Object, network: &str) -> String {
    let whose = format!("{}/{network}", instance.name);
    let hash = hypervisor::qemu::arguments::fingerprint(&whose).to_be_bytes();
    let rest: String = hash[..5].iter().map(|byte| format!(":{byte:02x}")).collect();
    format!("02{rest}")
}

/// What an attachment leads to.
pub fn network_of(config: &str) -> Result<Network, String> {
    let config: Value = serde_json::from_str(config).map_err(|error| error.to_string())?;
    let config = match list(&config["plugins"]) {
        [first, ..] => first,
        [] => &config,
    };
    match (text(&config["type"]), text(&config["bridge"])) {
        ("bridge" | "cnv-bridge", bridge) if !bridge.is_empty() => {
            if let Some(vlan) = config["vlan"].as_i64().filter(|vlan| *vlan != 0) {
                return Err(format!(
                    "this node does not tell virtual networks of a bridge apart: vlan {vlan} of \
                     the bridge {bridge:?} cannot be had"
                ));
            }
            hypervisor::bridge::check(bridge).map_err(|error| error.to_string())?;
            Ok(Network::Bridge(bridge.to_owned()))
        }
        ("macvlan", _) => {
            let (master, mode) = (text(&config["master"]), text(&config["mode"]));
            if !["", "bridge"].contains(&mode) {
                return Err(format!("this node shares a device in the mode bridge, not {mode:?}"));
            }
            hypervisor::bridge::check(master).map_err(|error| error.to_string())?;
            Ok(Network::Device(master.to_owned()))
        }
        (kind @ ("ovs" | "sriov"), _) => Err(format!(
            "this node connects machines to no networks of type {kind:?}: it takes {}; use type \
             bridge or macvlan",
            match kind {
                "ovs" => "a switch of Open vSwitch and its plugin",
                _ => "devices that are split by hardware and its plugin",
            }
        )),
        (kind, _) => Err(format!("this node connects machines to no networks of type {kind:?}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn instance(spec: Value) -> Object {
        Object::new(
            json!({"metadata": {"namespace": "a", "name": "vm.x", "uid": "u"}, "spec": spec}),
        )
    }

    fn found() -> References {
        References {
            files: [("root", "/v/root"), ("data", "/v/data")]
                .map(|(name, path)| (name.to_owned(), path.into()))
                .into(),
            networks: [("lan".to_owned(), Network::Bridge("br-lan".to_owned()))].into(),
            ..References::default()
        }
    }

    #[test]
    fn an_instance_becomes_a_machine() {
        let spec = json!({
            "domain": {
                "cpu": {"cores": 2, "sockets": 2}, "memory": {"guest": "256Mi"},
                "firmware": {"uuid": "f"},
                "devices": {
                    "disks": [{"name": "root", "disk": {}}, {"name": "data", "bootOrder": 1}],
                    "interfaces": [{"name": "lan", "macAddress": "02-AB-00-00-00-01"}],
                },
            },
            "networks": [{"name": "default", "pod": {}}, {"name": "lan", "multus": {}}],
            "volumes": [
                {"name": "root", "persistentVolumeClaim": {"claimName": "c"}},
                {"name": "data", "dataVolume": {"name": "d"}},
                {"name": "told", "cloudInitNoCloud": {"userDataBase64": "aGk="}},
            ],
        });
        let made = machine(&instance(spec), &found()).unwrap();
        assert_eq!((made.processors, made.memory_bytes), (4, 256 << 20));
        let orders: Vec<_> = made.disks.iter().map(|disk| disk.boot_order).collect();
        assert_eq!(orders, [None, Some(1)]);
        let seed = made.seed.unwrap();
        assert_eq!(seed.user_data, "hi");
        assert_eq!(seed.meta_data, r#"{"instance-id":"f","local-hostname":"vm"}"#);
        assert_eq!(made.interfaces[0].network, Network::Own);
        assert_eq!(made.interfaces[1].hardware_address, "02:ab:00:00:00:01");
        assert_eq!(made.interfaces[1].network, Network::Bridge("br-lan".to_owned()));
    }

    #[test]
    fn interfaces_come_and_go_by_name() {
        let absent = json!([{"name": "old", "state": "absent"}]);
        let spec = json!({"domain": {"devices": {"interfaces": absent}},
            "networks": [{"name": "default", "pod": {}}, {"name": "lan", "multus": {}},
                {"name": "old", "multus": {}}]});
        let wanted = machine(&instance(spec), &found()).unwrap().interfaces;
        let named =
            |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let (come, gone) = to_plug(&named(&["default", "old"]), &wanted);
        assert_eq!(come, [wanted[1].clone()]);
        assert_eq!(gone, ["old"]);
        let (come, gone) = to_plug(&named(&["lan"]), &wanted);
        assert_eq!((come, gone), (Vec::new(), Vec::new()), "that of pods does not come");
    }

    #[test]
    fn what_is_not_there_or_not_known_is_said() {
        let said = |spec: Value| machine(&instance(spec), &found()).unwrap_err();
        let volume = |volume: Value| json!({"domain": {}, "volumes": [volume]});
        let gone = volume(json!({"name": "x", "persistentVolumeClaim": {"claimName": "x"}}));
        assert_eq!(said(gone), "volume x is not found");
        let other = volume(json!({"name": "x", "containerDisk": {"image": "i"}}));
        assert_eq!(said(other), "this node has no volumes of the kind containerDisk");
        let many = json!({"domain": {"cpu": {"cores": 1000}}});
        assert_eq!(said(many), "1000 processors are more than 512");
        let secret = volume(json!({"name": "x", "cloudInitNoCloud": {"secretRef": {"name": "s"}}}));
        assert_eq!(said(secret), "secret s is not found");
        let outside = "../../x";
        let path = volume(json!({"name": outside, "persistentVolumeClaim": {"claimName": "c"}}));
        assert_eq!(said(path), r#""../../x" is no name of a volume or a network"#);
        let option = json!({"domain": {}, "networks": [{"name": "a,b=c", "pod": {}}]});
        assert_eq!(said(option), r#""a,b=c" is no name of a volume or a network"#);
    }

    #[test]
    fn attachments_lead_to_bridges_and_devices() {
        let bridge = network_of(r#"{"type": "bridge", "bridge": "br-x"}"#).unwrap();
        assert_eq!(bridge, Network::Bridge("br-x".to_owned()));
        let device = network_of(r#"{"type": "macvlan", "master": "eth1", "mode": "bridge"}"#);
        assert_eq!(device.unwrap(), Network::Device("eth1".to_owned()));
        assert!(network_of("nonsense").is_err());
        let said = |config: &str| network_of(config).unwrap_err();
        for kind in ["ovs", "sriov"] {
            let said = said(&json!({"type": kind, "bridge": "b"}).to_string());
            assert!(said.ends_with("use type bridge or macvlan"), "{said}");
        }
        assert!(said(r#"{"type": "macvlan", "master": "e", "mode": "vepa"}"#).contains("vepa"));
        assert!(said(r#"{"type": "macvlan"}"#).contains("is no name"));
        let tagged = said(r#"{"type": "bridge", "bridge": "br-x", "vlan": 7}"#);
        assert!(tagged.contains("vlan 7"), "{tagged}");
        let outside = said(r#"{"type": "bridge", "bridge": "../../etc/x"}"#);
        assert!(outside.contains("is no name of a bridge"), "{outside}");
    }
}
