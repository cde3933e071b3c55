//! Two machines on one bridge, which is there as long as they are.

use std::path::Path;
use std::time::Duration;

use hypervisor::qemu::Qemu;
use hypervisor::{Hypervisor, Network, State};

use crate::console::{Console, Directory, bootable, interface, machine};

#[tokio::test(flavor = "multi_thread")]
async fn two_machines_reach_each_other_and_their_bridge_goes_with_them() {
    let directory = Directory::new("bridged");
    let bridge = format!("svt{}", std::process::id() % 1_000_000);
    let qemu = Qemu::open(&directory.0).await.unwrap();
    for number in [1, 2] {
        let root = directory.0.join(format!("disk{number}.img"));
        bootable(&root, 48 << 20).await;
        let told = format!("# guest-run: ip address add 10.77.0.{number}/24 dev eth0");
        let mut order = machine(&format!("m{number}"), &root, &told);
        let address = format!("02:00:00:00:77:0{number}");
        order.interfaces = vec![interface(&address, Network::Bridge(bridge.clone()))];
        order.has_screen = false;
        qemu.launch(&order).await.unwrap();
    }
    let place = Path::new("/sys/class/net").join(&bridge);
    assert_eq!(std::fs::read_dir(place.join("brif")).unwrap().count(), 2);
    leaves_no_bridge_where_it_does_not_start(&qemu, &directory).await;
    let (mut one, _two) = tokio::join!(Console::open(&qemu, "m1"), Console::open(&qemu, "m2"));
    one.run("until ping -c1 -W1 10.77.0.2; do true; done").await;
    drop(one);
    qemu.stop("m1", Duration::ZERO).await.unwrap();
    assert!(place.exists(), "it is the other's still");
    // One that is killed behind our back takes everything with it as well.
    let pid = qemu.figures("m2").await.unwrap().pid;
    let killed = std::process::Command::new("kill").args(["-9", &pid.to_string()]).status();
    assert!(killed.unwrap().success());
    loop {
        match qemu.state("m2").await {
            State::Ended(end) => break assert!(!end.is_success()),
            _ => tokio::task::yield_now().await,
        }
    }
    assert!(!place.exists(), "nobody needs it any more");
}

/// A machine whose disk another has.
async fn leaves_no_bridge_where_it_does_not_start(qemu: &Qemu, directory: &Directory) {
    let bridge = format!("svu{}", std::process::id() % 1_000_000);
    let mut order = machine("m3", &directory.0.join("disk1.img"), "");
    order.interfaces = vec![interface("02:00:00:00:77:03", Network::Bridge(bridge.clone()))];
    assert!(qemu.launch(&order).await.is_err());
    assert!(!Path::new("/sys/class/net").join(&bridge).exists(), "nobody needs it");
}
