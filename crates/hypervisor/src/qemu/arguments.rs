//! The arguments of QEMU for a machine. Pure: what is opened by name here is made elsewhere.
//!
//! Paths of the machine's own files are relative: QEMU runs in the directory of its machine.

use std::os::fd::RawFd;
use std::path::Path;

use super::accelerator::Accelerator;
use crate::Error;
use crate::machine::{
    DISKS_MAX, Disk, INTERFACES_MAX, Interface, Machine, Media, Network, is_name,
};

pub const SERIAL: &str = "virt-serial0";
pub const SCREEN: &str = "virt-vnc";
pub const AGENT: &str = "agent";
pub const SEED: &str = "seed.iso";
/// Places for devices that come while the machine runs.
const SPARE_PORTS: usize = 8;
const SANDBOX: &str = "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny";
/// The network of a guest that has one of its own, as KubeVirt gives it. Without IPv6, whose
/// addresses would lead to the loopback and the metadata service of the host past its packet rules.
const OWN_NETWORK: &str = "net=10.0.2.0/24,host=10.0.2.1,dhcpstart=10.0.2.2,dns=10.0.2.3,ipv6=off";
/// The address that a guest gets there.
pub const OWN_ADDRESS: &str = "10.0.2.2";

/// What is given to QEMU as open descriptors.
pub struct Given<'a> {
    pub accelerator: Accelerator,
    /// A socket that listens: commands arrive there.
    pub monitor: RawFd,
    /// Of the interfaces that are connected to bridges and devices, in their order.
    pub taps: &'a [RawFd],
    /// The contents of the disks in their order, and of the seed if there is one.
    pub disks: &'a [Contents<RawFd>],
}

/// What a disk is read from: its file, and that of its base if it has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Contents<T> {
    pub file: T,
    pub base: Option<T>,
}

pub fn arguments(machine: &Machine, given: &Given<'_>) -> Result<Vec<String>, Error> {
    check(machine)?;
    let mut all = Arguments::default();
    general(&mut all, machine, given);
    consoles(&mut all, machine);
    let mut ports = Ports::default();
    let mut sets = 0..;
    for (disk, files) in all_disks(machine).iter().zip(given.disks) {
        let port = ports.next(&mut all);
        let of = node(&disk.name);
        let mut give = |file: RawFd| {
            let set: usize = sets.next().unwrap_or_default();
            all.add("-add-fd", format!("fd={file},set={set},opaque={of}"));
            set
        };
        let file = give(files.file);
        let sets = Contents { file, base: files.base.map(give) };
        add_disk(&mut all, disk, (&port, sets));
    }
    let mut taps = given.taps.iter().copied();
    for interface in &machine.interfaces {
        let port = ports.next(&mut all);
        let network = match &interface.network {
            Network::Own => format!("user,{OWN_NETWORK}"),
            Network::Bridge(_) | Network::Device(_) => {
                let tap = taps.next().expect("every interface of this machine was given a tap");
                format!("tap,fd={tap},vhost=off")
            }
        };
        add_interface(&mut all, interface, (&port, &network));
    }
    for _ in 0..SPARE_PORTS {
        ports.next(&mut all);
    }
    Ok(all.0)
}

fn check(machine: &Machine) -> Result<(), Error> {
    let own = machine.interfaces.iter().filter(|one| one.network == Network::Own).count();
    let disks = machine.disks.iter().map(|disk| disk.name.as_str());
    let mut names = disks.chain(machine.interfaces.iter().map(|one| one.name.as_str()));
    if let Some(name) = names.find(|name| !is_name(name)) {
        return Err(Error::Invalid(format!("{name:?} is no name of a disk or an interface")));
    }
    let why = match () {
        () if machine.disks.len() > DISKS_MAX => format!("more than {DISKS_MAX} disks"),
        () if machine.interfaces.len() > INTERFACES_MAX => {
            format!("more than {INTERFACES_MAX} interfaces")
        }
        () if own > 1 => "more than one network of its own".to_owned(),
        () if machine.processors == 0 => "no processor".to_owned(),
        () if machine.memory_bytes < 1 << 20 => "less than 1 MiB of memory".to_owned(),
        () => return Ok(()),
    };
    Err(Error::Invalid(format!("a machine cannot have {why}")))
}

#[derive(Default)]
struct Arguments(Vec<String>);

impl Arguments {
    fn flag(&mut self, flag: &str) {
        self.0.push(flag.to_owned());
    }

    fn add(&mut self, flag: &str, value: impl Into<String>) {
        self.flag(flag);
        self.0.push(value.into());
    }
}

/// Ports of the bus, one device each, so that devices can come and go.
#[derive(Default)]
struct Ports(usize);

impl Ports {
    fn next(&mut self, all: &mut Arguments) -> String {
        let number = self.0;
        self.0 += 1;
        all.add("-device", format!("pcie-root-port,id=rp{number},chassis={}", number + 1));
        format!("rp{number}")
    }
}

/// A comma ends a value unless it is said twice.
fn escape(text: &str) -> String {
    text.replace(',', ",,")
}

fn general(all: &mut Arguments, machine: &Machine, given: &Given<'_>) {
    let accelerator = given.accelerator;
    all.add("-name", format!("guest={},debug-threads=on", escape(&machine.name)));
    all.add("-uuid", machine.uuid.clone());
    all.add("-machine", "q35,usb=off");
    all.add("-accel", accelerator.options());
    all.add("-cpu", accelerator.processor());
    let (count, most) = (machine.processors, machine.processors.max(machine.processors_max));
    all.add("-smp", format!("{count},sockets={most},cores=1,threads=1,maxcpus={most}"));
    all.add("-m", format!("{}M", machine.memory_bytes >> 20));
    all.flag("-nodefaults");
    all.flag("-no-user-config");
    // The process stays when the guest is off, so that we can see why.
    all.flag("-no-shutdown");
    all.add("-sandbox", SANDBOX);
    all.add("-rtc", "base=utc,driftfix=slew");
    all.add("-boot", "strict=on");
    all.add("-chardev", format!("socket,id=qmp,fd={},server=on,wait=off", given.monitor));
    all.add("-mon", "chardev=qmp,mode=control");
    if machine.starts_paused || machine.goes_on_from.is_some() {
        all.flag("-S");
    }
}

fn consoles(all: &mut Arguments, machine: &Machine) {
    if machine.has_serial {
        all.add("-chardev", format!("socket,id=ser,path={SERIAL},server=on,wait=off"));
        all.add("-serial", "chardev:ser");
    }
    all.add("-device", "virtio-serial-pci,id=vs");
    all.add("-chardev", format!("socket,id=qga,path={AGENT},server=on,wait=off"));
    // QEMU says when a guest opens or closes a port only of ports that have a name.
    all.add("-device", "virtserialport,id=qga0,chardev=qga,name=org.qemu.guest_agent.0");
    match machine.has_screen {
        true => {
            // Whether others leave is said by whoever lets viewers in, and not by the viewers.
            all.add("-vnc", format!("unix:{SCREEN},share=ignore"));
            all.add("-device", "VGA,vgamem_mb=16");
        }
        false => all.add("-display", "none"),
    }
    all.add("-device", "virtio-tablet-pci");
    all.add("-device", "virtio-keyboard-pci");
    all.add("-device", "virtio-rng-pci");
    all.add("-device", "virtio-balloon-pci,id=balloon0,free-page-reporting=on");
    all.add("-device", "pvpanic");
}

/// The disks of a machine, and the one that its seed is.
pub fn all_disks(machine: &Machine) -> Vec<Disk> {
    machine.disks.iter().cloned().chain(machine.seed.is_some().then(seed_disk)).collect()
}

fn seed_disk() -> Disk {
    Disk {
        // No disk that is asked for can be called so.
        name: SEED.to_owned(),
        file: Path::new(SEED).to_owned(),
        base: None,
        boot_order: None,
        is_read_only: true,
        media: Media::Disk,
    }
}

/// The name that QEMU knows the contents of a disk by.
pub fn node(disk: &str) -> String {
    // Names of ours may be longer than those of QEMU.
    format!("d{:016x}", fingerprint(disk))
}

/// The name that QEMU knows the device of a disk by.
pub fn device(disk: &str) -> String {
    format!("ua-{disk}")
}

/// Tells names apart; FNV-1a.
pub fn fingerprint(text: &str) -> u64 {
    let offset = 0xcbf2_9ce4_8422_2325;
    text.bytes()
        .fold(offset, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3))
}

/// What QEMU is told of the contents of a disk that it was given as descriptors of these sets: it
/// may not be able to open the files itself. What is a base is said here, never by the file.
pub fn contents(disk: &Disk, sets: Contents<usize>) -> serde_json::Value {
    let file = |set: usize| {
        let name = format!("/dev/fdset/{set}");
        serde_json::json!({"driver": "file", "filename": name, "locking": "on"})
    };
    let mut told = serde_json::json!({
        "driver": "raw", "node-name": node(&disk.name), "read-only": disk.is_read_only,
        "discard": "unmap", "file": file(sets.file),
    });
    if let Some(base) = sets.base {
        told["driver"] = "qcow2".into();
        told["backing"] =
            serde_json::json!({"driver": "raw", "read-only": true, "file": file(base)});
    }
    told
}

fn add_disk(all: &mut Arguments, disk: &Disk, (port, sets): (&str, Contents<usize>)) {
    all.add("-blockdev", contents(disk, sets).to_string());
    let boot = disk.boot_order.map(|order| format!(",bootindex={order}")).unwrap_or_default();
    let (node, device) = (node(&disk.name), device(&disk.name));
    match disk.media {
        Media::Disk => {
            let serial: String = disk.name.chars().take(20).collect();
            let stops = "werror=stop,rerror=stop";
            let what =
                format!("virtio-blk-pci,drive={node},id={device},serial={serial},bus={port}");
            all.add("-device", format!("{what},{stops}{boot}"));
        }
        Media::Cdrom => {
            all.add("-device", format!("ide-cd,drive={node},id={device}{boot}"));
        }
    }
}

/// The name that QEMU knows the network of an interface by.
pub fn network(interface: &str) -> String {
    format!("n{:016x}", fingerprint(interface))
}

/// What begins the names of the devices of interfaces.
pub const CARD: &str = "un-";

/// The name that QEMU knows the device of an interface by: told from a disk of the same name.
pub fn card(interface: &str) -> String {
    format!("{CARD}{interface}")
}

fn add_interface(all: &mut Arguments, interface: &Interface, (port, to): (&str, &str)) {
    let name = &interface.name;
    let id = network(name);
    all.add("-netdev", format!("{to},id={id}"));
    let mac = &interface.hardware_address;
    // No code from the card: it would try the network before the disk.
    let device = card(name);
    let what = format!("virtio-net-pci,netdev={id},mac={mac},id={device},bus={port},romfile=");
    all.add("-device", what);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine() -> Machine {
        let disk = |name: &str, boot_order| Disk {
            name: name.to_owned(),
            file: Path::new("/d").join(name).join("disk,1.img"),
            base: None,
            boot_order,
            is_read_only: false,
            media: Media::Disk,
        };
        let interface = |name: &str, network| Interface {
            name: name.to_owned(),
            hardware_address: "02:00:00:00:00:01".to_owned(),
            network,
        };
        Machine {
            id: "u1".to_owned(),
            name: "default_web,1".to_owned(),
            uuid: "6a1a24a1-4061-4607-8bf4-a3963d0c5895".to_owned(),
            processors: 2,
            processors_max: 8,
            memory_bytes: 256 << 20,
            disks: vec![disk("root", Some(1)), disk("data", None)],
            seed: Some(crate::seed::Seed::default()),
            interfaces: vec![
                interface("default", Network::Own),
                interface("lan", Network::Bridge("br-lan".to_owned())),
            ],
            has_screen: true,
            has_serial: true,
            starts_paused: false,
            goes_on_from: None,
        }
    }

    const DISKS: [Contents<RawFd>; 3] = [
        Contents { file: 9, base: None },
        Contents { file: 10, base: None },
        Contents { file: 11, base: None },
    ];

    fn line_with(machine: &Machine, disks: &[Contents<RawFd>]) -> String {
        let accelerator = Accelerator::Software;
        let given = Given { accelerator, monitor: 7, taps: &[8], disks };
        arguments(machine, &given).unwrap().join(" ")
    }

    fn line(machine: &Machine) -> String {
        line_with(machine, &DISKS)
    }

    #[test]
    fn the_base_of_a_disk_is_said_and_only_read() {
        let mut disks = DISKS;
        disks[0].base = Some(12);
        let line = line_with(&machine(), &disks);
        for part in [
            "-add-fd fd=9,set=0,opaque=d",
            "-add-fd fd=12,set=1,opaque=d",
            "-add-fd fd=10,set=2,opaque=d",
            r#""driver":"qcow2""#,
            r#""backing":{"driver":"raw","file":{"driver":"file","filename":"/dev/fdset/1","#,
            r#""locking":"on"},"read-only":true}"#,
        ] {
            assert!(line.contains(part), "{part} is not in {line}");
        }
    }

    #[test]
    fn a_machine_has_its_disks_in_order_and_its_networks() {
        let line = line(&machine());
        for part in [
            "-name guest=default_web,,1,debug-threads=on",
            "-machine q35,usb=off -accel tcg,tb-size=256 -cpu max \
             -smp 2,sockets=8,cores=1,threads=1,maxcpus=8 -m 256M",
            "-chardev socket,id=qmp,fd=7,server=on,wait=off",
            "-device virtserialport,id=qga0,chardev=qga,",
            "-add-fd fd=9,set=0,opaque=d",
            "\"filename\":\"/dev/fdset/2\",\"locking\":\"on\"",
            "id=ua-root,serial=root,bus=rp0,werror=stop,rerror=stop,bootindex=1",
            "id=ua-data,serial=data,bus=rp1,werror=stop,rerror=stop -",
            "id=ua-seed.iso,serial=seed.iso,bus=rp2",
            "-netdev user,net=10.0.2.0/24,host=10.0.2.1,dhcpstart=10.0.2.2,dns=10.0.2.3,",
            "ipv6=off,id=n",
            "-netdev tap,fd=8,vhost=off,id=n",
            "-sandbox on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny",
            "pcie-root-port,id=rp12,chassis=13",
        ] {
            assert!(line.contains(part), "{part} is not in {line}");
        }
        assert!(!line.contains(" -S"));
    }

    #[test]
    fn a_disk_may_be_called_as_the_seed_or_as_an_interface() {
        let mut machine = machine();
        machine.disks[0].name = "seed".to_owned();
        machine.disks[1].name = "lan".to_owned();
        let line = line(&machine);
        let ids = line.split([' ', ',']).filter(|part| part.starts_with("id="));
        let ids: Vec<&str> = ids.collect();
        let different: std::collections::BTreeSet<&&str> = ids.iter().collect();
        assert_eq!(different.len(), ids.len(), "{ids:?}");
        assert_ne!(node("seed"), node(SEED));
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let given =
            Given { accelerator: Accelerator::Software, monitor: 7, taps: &[8], disks: &DISKS };
        let refused = |change: fn(&mut Machine)| {
            let mut machine = machine();
            change(&mut machine);
            arguments(&machine, &given).unwrap_err().to_string()
        };
        assert_eq!(refused(|it| it.processors = 0), "a machine cannot have no processor");
        let second = |it: &mut Machine| it.interfaces[1].network = Network::Own;
        assert_eq!(refused(second), "a machine cannot have more than one network of its own");
        for name in ["a,b=c", "../a", "", "a.b"] {
            let mut machine = machine();
            machine.disks[0].name = name.to_owned();
            let said = arguments(&machine, &given).unwrap_err().to_string();
            assert_eq!(said, format!("{name:?} is no name of a disk or an interface"));
        }
    }
}
