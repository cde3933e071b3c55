//! The life of one machine: it boots, is looked at and changed while it runs, is found again by
//! another process, is switched off, and boots again with what it wrote.

use std::os::unix::fs::FileExt;
use std::time::Duration;

use hypervisor::qemu::Qemu;
use hypervisor::{Copied, End, Error, Hypervisor, Pause, State, images};

use crate::console::{Console, Directory, bootable, disk, machine};

const MIB: u64 = 1 << 20;
/// Where the guest writes: behind its kernel.
const BLOCK: u64 = 90_000;

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

    at_most_one_guest(&qemu, &order).await;
    pauses(&qemu).await;
    grows(&qemu, &root, &mut console).await;
    takes_another_disk(&qemu, &directory, &mut console).await;
    let write = format!("echo kept | dd of=/dev/vda bs=512 seek={BLOCK} conv=notrunc; sync");
    console.run(&write).await;
    is_copied_while_it_runs(&qemu, &directory).await;
    drop((console, qemu));

    // Killed at the worst moment, it would not even have been written down which process it is.
    std::fs::remove_file(directory.0.join("machines/one/process.json")).unwrap();
    let qemu = Qemu::open(&directory.0).await.unwrap();
    assert_eq!(qemu.state("one").await, State::Running);
    assert_eq!(qemu.figures("one").await.unwrap().pid, pid, "it is the same process");
    let mut console = Console::open(&qemu, "one").await;
    console.run("true").await;
    drop(console);
    assert_eq!(qemu.stop("one", Duration::from_secs(60)).await.unwrap(), End::Shutdown);
    assert_eq!(qemu.state("one").await, State::Ended(End::Shutdown));
    // Who started it has not waited for it here: it was dropped as if it had been killed.
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    assert!(stat.is_empty() || stat.contains(") Z "), "it does not run any more: {stat}");

    qemu.launch(&order).await.unwrap();
    let mut console = Console::open(&qemu, "one").await;
    let read = format!("dd if=/dev/vda bs=512 skip={BLOCK} count=1 2>/dev/null | head -c4");
    assert!(console.run(&read).await.contains("kept"));
    assert_eq!(qemu.stop("one", Duration::ZERO).await.unwrap(), End::Killed);
    qemu.remove("one").await.unwrap();
    assert_eq!(qemu.state("one").await, State::Absent);
    assert_eq!(qemu.ids(), [""; 0]);
}

async fn at_most_one_guest(qemu: &Qemu, order: &hypervisor::Machine) {
    let again = qemu.launch(order).await;
    assert!(matches!(again, Err(Error::AlreadyRuns { .. })), "{again:?}");
    // Another process of ours cannot either: the lock is the guest's.
    let other = hypervisor::Machine { id: "other".to_owned(), ..order.clone() };
    let shared = qemu.launch(&other).await.unwrap_err().to_string();
    assert!(shared.contains("Failed to get \"write\" lock"), "{shared}");
    assert_eq!(qemu.ids(), ["one"], "nothing is left of it");
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
    qemu.resize("one", "root", 96 * MIB).await.unwrap();
    let wait = "until grep -q 196608 /sys/block/vda/size; do sleep 0.1; done";
    console.run(wait).await;
}

async fn takes_another_disk(qemu: &Qemu, directory: &Directory, console: &mut Console) {
    let file = directory.0.join("data.img");
    images::blank(&file, 8 * MIB).unwrap();
    qemu.attach("one", &disk("data", &file, None)).await.unwrap();
    qemu.attach("one", &disk("data", &file, None)).await.unwrap();
    console.run("until [ -e /dev/vdc ]; do sleep 0.1; done; cat /sys/block/vdc/size").await;
    qemu.detach("one", "data").await.unwrap();
    qemu.detach("one", "data").await.unwrap();
    console.run("while [ -e /dev/vdc ]; do sleep 0.1; done").await;
}

async fn is_copied_while_it_runs(qemu: &Qemu, directory: &Directory) {
    let to = directory.0.join("copy.img");
    let copies = [Copied { disk: "root".to_owned(), to: to.clone() }];
    qemu.copy_disks("one", &copies).await.unwrap();
    let mut bytes = [0; 4];
    std::fs::File::open(&to).unwrap().read_exact_at(&mut bytes, BLOCK * 512).unwrap();
    assert_eq!(&bytes, b"kept");
    assert!(qemu.copy_disks("one", &copies).await.is_err(), "what is there is not written over");
}
