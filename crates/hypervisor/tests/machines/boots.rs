//! The life of one machine: it boots, is looked at and changed while it runs, is found again by
//! another process, is switched off, and boots again with what it wrote.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;
use std::os::unix::fs::FileExt;
use std::time::Duration;

use hypervisor::qemu::Qemu;
use hypervisor::qemu::accelerator::Accelerator;
use hypervisor::{
    Connection, Copied, End, Error, Hypervisor, Interface, Network, Others, Pause, Port, Protocol,
    Quiet, State, images,
};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::Instant;

use crate::console::{Console, Directory, bootable, disk, interface, machine};

const MIB: u64 = 1 << 20;
/// Where the guest writes: behind its kernel.
const BLOCK: u64 = 90_000;
const ANSWER_MAX: Duration = Duration::from_secs(60);
/// Where ports are open for others: an address of this machine that it uses for nothing else.
const PUBLISHED: Ipv4Addr = Ipv4Addr::new(127, 66, 0, 9);

#[tokio::test(flavor = "multi_thread")]
async fn a_machine_boots_is_changed_found_again_and_keeps_its_disk() {
    let directory = Directory::new("boots");
    let root = directory.0.join("disk.img");
    bootable(&root, 64 * MIB).await;
    let qemu = Qemu::open(&directory.0).await.unwrap();
    let order = machine("one", &root, "#cloud-config\n# guest-run: echo the seed ran\n");
    qemu.launch(&order).await.unwrap();
    let pid = qemu.figures("one").await.unwrap().pid;
    let mut console = Console::open(&qemu, "one").await;
    assert!(console.run("cat /seed/user-data").await.contains("guest-run: echo the seed ran"));
    assert!(console.run("cat /seed/meta-data").await.contains("instance-id"));

    tells_of_itself(&qemu).await;
    has_a_user_of_its_own(pid);
    is_reached_at_its_ports(&qemu).await;
    is_watched_by_two(&qemu).await;
    at_most_one_guest(&qemu, &order).await;
    pauses(&qemu).await;
    grows(&qemu, &root, &mut console).await;
    takes_another_disk(&qemu, &directory, &mut console).await;
    let write = format!("echo kept | dd of=/dev/vda bs=512 seek={BLOCK} conv=notrunc; sync");
    console.run(&write).await;
    is_copied_while_it_runs(&qemu, &directory).await;
    let boot = is_kept_with_its_memory(&qemu, &directory, &mut console).await;
    takes_another_interface(&qemu, &mut console).await;
    shares_a_device(&qemu, &mut console).await;
    gets_processors(&qemu, &directory, &mut console).await;
    // Who keeps memory holds the guest for a moment, and could be killed in it.
    qemu.pause("one").await.unwrap();
    std::fs::write(directory.0.join("machines/one/held"), "true").unwrap();
    drop((console, qemu));

    // Killed at the worst moment, it would not even have been written down which process it is.
    std::fs::remove_file(directory.0.join("machines/one/process.json")).unwrap();
    let qemu = Qemu::open(&directory.0).await.unwrap();
    assert_eq!(qemu.state("one").await, State::Running, "it goes on");
    assert_eq!(qemu.figures("one").await.unwrap().pid, pid, "it is the same process");
    let mut console = Console::open(&qemu, "one").await;
    console.run("true").await;
    drop(console);
    has_its_ports_closed(&qemu).await;
    assert_eq!(qemu.stop("one", Duration::from_secs(60)).await.unwrap(), End::Shutdown);
    assert_eq!(qemu.state("one").await, State::Ended(End::Shutdown));
    // Who started it has not waited for it here: it was dropped as if it had been killed.
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    assert!(stat.is_empty() || stat.contains(") Z "), "it does not run any more: {stat}");

    qemu.launch(&order).await.unwrap();
    let mut console = Console::open(&qemu, "one").await;
    let read = format!("dd if=/dev/vda bs=512 skip={BLOCK} count=1 2>/dev/null | head -c4");
    assert!(console.run(&read).await.contains("kept"));
    drop(console);
    assert_eq!(qemu.stop("one", Duration::ZERO).await.unwrap(), End::Killed);
    goes_on_where_it_was(&qemu, &directory, (&order, &boot)).await;
    qemu.remove("one").await.unwrap();
    assert_eq!(qemu.state("one").await, State::Absent);
    assert_eq!(qemu.ids(), [""; 0]);
}

/// The agent of QEMU runs in the guest.
async fn tells_of_itself(qemu: &Qemu) {
    let deadline = Instant::now() + ANSWER_MAX;
    let guest = loop {
        match qemu.guest("one").await {
            Ok(Some(guest)) => break guest,
            other => assert!(Instant::now() < deadline, "no agent answers: {other:?}"),
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    };
    assert_eq!((guest.system.id.as_str(), guest.system.machine.as_str()), ("tiny", "x86_64"));
    assert!(guest.system.kernel_release.contains("cloud"), "{guest:?}");
    assert!(guest.agent_version.starts_with(|first: char| first.is_ascii_digit()), "{guest:?}");
    let mut all = guest.interfaces.iter();
    let own = all.find(|one| one.hardware_address == "02:00:00:00:00:01").expect("its interface");
    assert!(own.addresses.contains(&"10.0.2.2".parse().unwrap()), "{own:?}");
}

/// Should its guest come to command it, the process can do little.
fn has_a_user_of_its_own(pid: u32) {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let field = |name: &str| {
        let mut lines = status.lines();
        lines.find_map(|line| line.strip_prefix(name)).unwrap_or_default().trim().to_owned()
    };
    assert_eq!(field("Seccomp:"), "2", "its calls are filtered");
    let own = std::fs::read_to_string("/proc/self/status").unwrap();
    if own.lines().any(|line| line == "CapEff:\t000001ffffffffff") {
        let user = hypervisor::confinement::user("one", Accelerator::Software).unwrap().number;
        assert_eq!(field("Uid:"), vec![user.to_string(); 4].join("\t"));
        assert_eq!(field("CapEff:"), "0000000000000000");
        assert_eq!((field("NoNewPrivs:").as_str(), field("Groups:").as_str()), ("1", ""));
    }
}

/// A port that is dialled, and one that is open at an address for others until it is closed.
async fn is_reached_at_its_ports(qemu: &Qemu) {
    let mut stream = qemu.dial("one", 22).await.unwrap();
    greets(&mut stream).await;
    let (port, other) = (tcp(22), tcp(80));
    let both = BTreeSet::from([port, other]);
    let opened = qemu.open_ports("one", PUBLISHED, &both).await.unwrap();
    assert_eq!((opened.at.len(), opened.refused.len()), (2, 0), "{opened:?}");
    assert_eq!(qemu.open_ports("one", PUBLISHED, &both).await.unwrap(), opened, "nothing twice");
    let mut stream = TcpStream::connect((PUBLISHED, opened.at[&port])).await.unwrap();
    greets(&mut stream).await;
    let only = BTreeSet::from([port]);
    qemu.close_other_ports("one", PUBLISHED, &only).await.unwrap();
    assert!(TcpStream::connect((PUBLISHED, opened.at[&other])).await.is_err(), "it is closed");
    greets(&mut TcpStream::connect((PUBLISHED, opened.at[&port])).await.unwrap()).await;
    // An address that this machine does not have.
    let away = qemu.open_ports("one", Ipv4Addr::new(192, 0, 2, 1), &only).await.unwrap();
    assert!(away.refused[&port].contains("192.0.2.1 cannot be listened on"), "{away:?}");
    let mut dialled = qemu.dial("one", 22).await.unwrap();
    greets(&mut dialled).await;
}

/// What one process opened, the next one finds and closes.
async fn has_its_ports_closed(qemu: &Qemu) {
    let only = BTreeSet::from([tcp(22)]);
    let opened = qemu.open_ports("one", PUBLISHED, &only).await.unwrap();
    greets(&mut TcpStream::connect((PUBLISHED, opened.at[&tcp(22)])).await.unwrap()).await;
    qemu.close_other_ports("one", PUBLISHED, &BTreeSet::new()).await.unwrap();
    let left = TcpStream::connect((PUBLISHED, opened.at[&tcp(22)])).await;
    assert!(left.is_err(), "nothing of it is left");
}

fn tcp(number: u16) -> Port {
    Port { protocol: Protocol::Tcp, number }
}

async fn greets(stream: &mut (impl AsyncRead + Unpin)) {
    let mut greeting = [0; 8];
    let read = stream.read_exact(&mut greeting);
    tokio::time::timeout(ANSWER_MAX, read).await.expect("a greeting in time").unwrap();
    assert_eq!(&greeting, b"SSH-2.0-");
}

/// Two who look at the screen both see it, whatever they say of each other, unless the second was
/// to be alone: then the first is gone.
async fn is_watched_by_two(qemu: &Qemu) {
    let mut viewers = vec![watch(qemu, Others::Leave).await, watch(qemu, Others::Stay).await];
    for viewer in &mut viewers {
        // One pixel, as it is now.
        viewer.write_all(&[3, 0, 0, 0, 0, 0, 0, 1, 0, 1]).await.unwrap();
        let mut first = [0xff];
        let read = viewer.read_exact(&mut first);
        tokio::time::timeout(ANSWER_MAX, read).await.expect("a picture in time").unwrap();
        assert_eq!(first, [0], "it is shown something");
    }
    let mut last = watch(qemu, Others::Leave).await;
    for viewer in &mut viewers {
        let mut left = Vec::new();
        let rest = viewer.read_to_end(&mut left);
        tokio::time::timeout(ANSWER_MAX, rest).await.expect("it is over in time").unwrap();
    }
    last.write_all(&[3, 0, 0, 0, 0, 0, 0, 1, 0, 1]).await.unwrap();
    let read = last.read_u8();
    tokio::time::timeout(ANSWER_MAX, read).await.expect("a picture in time").unwrap();
}

/// Somebody who looks at the screen, and says that nobody else is to.
async fn watch(qemu: &Qemu, others: Others) -> Box<dyn Connection> {
    let mut stream = qemu.screen("one", others).await.unwrap();
    let mut version = [0; 12];
    stream.read_exact(&mut version).await.unwrap();
    assert_eq!(&version, b"RFB 003.008\n");
    stream.write_all(&version).await.unwrap();
    let mut kinds = [0; 2];
    stream.read_exact(&mut kinds).await.unwrap();
    assert_eq!(kinds, [1, 1], "who gets here is let in");
    // Without a password, and not shared.
    stream.write_all(&[1]).await.unwrap();
    stream.read_exact(&mut [0; 4]).await.unwrap();
    stream.write_all(&[0]).await.unwrap();
    let mut screen = [0; 24];
    stream.read_exact(&mut screen).await.unwrap();
    let name = u32::from_be_bytes([screen[20], screen[21], screen[22], screen[23]]);
    stream.read_exact(&mut vec![0; name as usize]).await.unwrap();
    stream
}

async fn at_most_one_guest(qemu: &Qemu, order: &hypervisor::Machine) {
    let again = qemu.launch(order).await;
    assert!(matches!(again, Err(Error::AlreadyRuns { .. })), "{again:?}");
    // Another process of ours cannot either: the lock is the guest's.
    let other = hypervisor::Machine { id: "other".to_owned(), ..order.clone() };
    let shared = qemu.launch(&other).await.unwrap_err().to_string();
    assert!(shared.contains("Failed to get \"write\" lock"), "{shared}");
    assert_eq!(qemu.ids(), ["one"], "nothing is left of it");
    let held = images::Idle::hold(&order.disks[0].file);
    assert!(matches!(held, Err(images::Fault::InUse(_))), "{held:?}");
    assert!(qemu.remove("one").await.is_err(), "who runs is not forgotten");
}

async fn pauses(qemu: &Qemu) {
    qemu.pause("one").await.unwrap();
    assert_eq!(qemu.state("one").await, State::Paused(Pause::Asked));
    qemu.resume("one").await.unwrap();
    assert_eq!(qemu.state("one").await, State::Running);
}

async fn grows(qemu: &Qemu, root: &std::path::Path, console: &mut Console) {
    assert_eq!(images::grow(root, 96 * MIB).unwrap(), 96 * MIB);
    assert_eq!(qemu.disk_bytes("one", "root").await.unwrap(), 64 * MIB);
    qemu.resize("one", "root", 96 * MIB).await.unwrap();
    assert_eq!(qemu.disk_bytes("one", "root").await.unwrap(), 96 * MIB);
    let wait = "until grep -q 196608 /sys/block/vda/size; do sleep 0.1; done";
    console.run(wait).await;
}

async fn takes_another_disk(qemu: &Qemu, directory: &Directory, console: &mut Console) {
    let file = directory.0.join("data.img");
    images::blank(&file, 8 * MIB).unwrap();
    let held = images::Idle::hold(&file).unwrap();
    let refused = qemu.attach("one", &disk("data", &file, None)).await.unwrap_err().to_string();
    assert!(refused.contains("Failed to get \"write\" lock"), "{refused}");
    drop(held);
    qemu.attach("one", &disk("data", &file, None)).await.unwrap();
    qemu.attach("one", &disk("data", &file, None)).await.unwrap();
    console.run("until [ -e /dev/vdc ]; do sleep 0.1; done; cat /sys/block/vdc/size").await;
    qemu.detach("one", "data").await.unwrap();
    qemu.detach("one", "data").await.unwrap();
    let said = qemu.detach("one", "root").await.unwrap_err().to_string();
    assert_eq!(said, "the machine boots from the disk root: it stays while it runs");
    console.run("while [ -e /dev/vdc ]; do sleep 0.1; done").await;
}

/// An interface that comes and goes, and the bridge that it is on.
async fn takes_another_interface(qemu: &Qemu, console: &mut Console) {
    let bridge = format!("svh{}", std::process::id() % 1_000_000);
    let network = Network::Bridge(bridge.clone());
    let lan = Interface { name: "lan".to_owned(), ..interface("02:00:00:00:00:02", network) };
    let own = Interface { network: Network::Own, ..lan.clone() };
    assert!(qemu.attach_interface("one", &own).await.is_err(), "it has a network of its own");
    qemu.attach_interface("one", &lan).await.unwrap();
    qemu.attach_interface("one", &lan).await.unwrap();
    assert_eq!(qemu.interfaces("one").await.unwrap(), ["default", "lan"]);
    let seen = "until [ -e /sys/class/net/eth1 ]; do sleep 0.1; done";
    let seen = console.run(&format!("{seen}; cat /sys/class/net/eth1/address")).await;
    assert!(seen.contains("02:00:00:00:00:02"), "{seen}");
    let place = std::path::Path::new("/sys/class/net").join(&bridge);
    assert_eq!(std::fs::read_dir(place.join("brif")).unwrap().count(), 1);
    qemu.detach_interface("one", "lan").await.unwrap();
    qemu.detach_interface("one", "lan").await.unwrap();
    console.run("while [ -e /sys/class/net/eth1 ]; do sleep 0.1; done").await;
    assert!(!place.exists(), "nobody needs it any more");
}

/// An interface on a device of this machine, here one whose other end answers.
async fn shares_a_device(qemu: &Qemu, console: &mut Console) {
    let number = std::process::id() % 1_000_000;
    let (device, far) = (format!("svq{number}"), format!("svr{number}"));
    let ip = |words: &str| {
        let words = words.replace("NEAR", &device).replace("FAR", &far);
        let done = std::process::Command::new("ip").args(words.split(' ')).status();
        assert!(done.unwrap().success(), "ip {words}");
    };
    ip("link add NEAR type veth peer name FAR");
    ip("address add 10.79.0.1/24 dev FAR");
    ip("link set NEAR up");
    ip("link set FAR up");
    let network = Network::Device(device.clone());
    let lan = Interface { name: "lan".to_owned(), ..interface("02:00:00:00:00:03", network) };
    let count = || {
        let all = std::fs::read_dir("/sys/class/net").unwrap().flatten();
        let above = format!("lower_{device}");
        all.filter(|entry| entry.path().join(&above).exists()).count()
    };
    qemu.attach_interface("one", &lan).await.unwrap();
    assert_eq!(count(), 1);
    console.run("until [ -e /sys/class/net/eth1 ]; do sleep 0.1; done").await;
    console.run("ip link set eth1 up; ip address add 10.79.0.2/24 dev eth1").await;
    console.run("until ping -c1 -W1 10.79.0.1; do true; done").await;
    qemu.detach_interface("one", "lan").await.unwrap();
    assert_eq!(count(), 0, "nothing is left of it");
    let gone = Interface { network: Network::Device("svnone".to_owned()), ..lan };
    let said = qemu.attach_interface("one", &gone).await.unwrap_err().to_string();
    assert_eq!(said, "there is no interface svnone on this node");
    ip("link delete NEAR");
}

/// Processors that come while the machine runs. What came is not where it would be after a restart.
async fn gets_processors(qemu: &Qemu, directory: &Directory, console: &mut Console) {
    qemu.add_processors("one", 1).await.unwrap();
    qemu.add_processors("one", 2).await.unwrap();
    qemu.add_processors("one", 2).await.unwrap();
    console.run("until [ $(nproc) = 2 ]; do sleep 0.1; done").await;
    let said = qemu.add_processors("one", 4).await.unwrap_err().to_string();
    assert_eq!(said, "4 processors are more than the 3 it has room for");
    let memory = directory.0.join("later.memory");
    let said = qemu.copy("one", &[], Some(&memory)).await.unwrap_err().to_string();
    assert!(said.contains("can be kept after a restart") && !memory.exists(), "{said}");
}

const COUNT: &str = "(i=0; while true; do i=$((i+1)); echo $i > /count; sleep 0.1; done) & true";

/// Which boot of the guest it is.
async fn boot(console: &mut Console) -> String {
    let said = console.run("cat /proc/sys/kernel/random/boot_id").await;
    let mut lines = said.lines().map(str::trim);
    lines.find(|line| line.len() == 36 && line.contains('-')).expect("a boot").to_owned()
}

/// What a guest counted to.
async fn count(console: &mut Console) -> u64 {
    // While it is written it is empty for a moment.
    let said = console.run("n=; until [ $n ]; do n=$(cat /count); done; echo $n").await;
    let mut numbers = said.lines().filter_map(|line| line.trim().parse().ok());
    numbers.next().unwrap_or_else(|| panic!("no number: {said}"))
}

/// Keeps disks and memory of one instant, at which the guest counts, and says which boot it is.
async fn is_kept_with_its_memory(
    qemu: &Qemu,
    directory: &Directory,
    console: &mut Console,
) -> String {
    console.run(COUNT).await;
    console.run("until [ -e /count ]; do sleep 0.1; done").await;
    let boot = boot(console).await;
    let (to, memory) = (directory.0.join("kept.img"), directory.0.join("kept.memory"));
    let copies = [Copied { disk: "root".to_owned(), to }];
    assert_eq!(qemu.copy("one", &copies, Some(&memory)).await.unwrap(), Quiet::Kept);
    assert_eq!(qemu.state("one").await, State::Running, "it goes on");
    std::fs::write(directory.0.join("count"), count(console).await.to_string()).unwrap();
    boot
}

/// A machine whose disks and memory are those of before goes on counting.
async fn goes_on_where_it_was(
    qemu: &Qemu,
    directory: &Directory,
    (order, boot): (&hypervisor::Machine, &str),
) {
    let memory = directory.0.join("kept.memory");
    let mut order = order.clone();
    // What it writes is beside the copy, which stays as it is.
    let (base, link) = (directory.0.join("kept.img"), directory.0.join("link.qcow2"));
    images::link(&link, 96 * MIB).unwrap();
    order.disks[0].file = link;
    order.disks[0].base = Some(base.clone());
    let more = hypervisor::Machine { processors: 2, ..order.clone() };
    let said = hypervisor::qemu::memory::fits(&memory, &more).unwrap_err();
    assert_eq!(said, "the machine has other processors than when its memory was kept");
    hypervisor::qemu::memory::fits(&memory, &order).unwrap();
    order.goes_on_from = Some(memory.clone());
    qemu.launch(&order).await.unwrap();
    assert!(!memory.exists(), "it fits the disks no more");
    assert_eq!(qemu.state("one").await, State::Running);
    let mut console = Console::open(qemu, "one").await;
    assert_eq!(self::boot(&mut console).await, boot, "the same boot");
    let kept = std::fs::read_to_string(directory.0.join("count")).unwrap().parse::<u64>().unwrap();
    let now = count(&mut console).await;
    console
        .run(&format!("until [ $(cat /count) -gt {} ]; do sleep 0.1; done", now.max(kept)))
        .await;
    let read = format!("dd if=/dev/vda bs=512 skip={BLOCK} count=1 2>/dev/null | head -c4");
    assert!(console.run(&read).await.contains("kept"), "it has what its base has");
    let write = format!("echo link | dd of=/dev/vda bs=512 seek={BLOCK} conv=notrunc; sync");
    console.run(&write).await;
    let other = hypervisor::Machine { id: "base".to_owned(), ..machine("base", &base, "") };
    let said = qemu.launch(&other).await.unwrap_err().to_string();
    assert!(said.contains("lock"), "nobody writes a base: {said}");
    drop(console);
    assert_eq!(qemu.stop("one", Duration::ZERO).await.unwrap(), End::Killed);
    let mut bytes = [0; 4];
    std::fs::File::open(&base).unwrap().read_exact_at(&mut bytes, BLOCK * 512).unwrap();
    assert_eq!(&bytes, b"kept", "the base is as it was");
}

async fn is_copied_while_it_runs(qemu: &Qemu, directory: &Directory) {
    let to = directory.0.join("copy.img");
    let copies = [Copied { disk: "root".to_owned(), to: to.clone() }];
    assert_eq!(qemu.copy("one", &copies, None).await.unwrap(), Quiet::Frozen);
    let mut bytes = [0; 4];
    std::fs::File::open(&to).unwrap().read_exact_at(&mut bytes, BLOCK * 512).unwrap();
    assert_eq!(&bytes, b"kept");
    assert!(qemu.copy("one", &copies, None).await.is_err(), "what is there is not written over");
}
