//! The network of pods on this machine: with privilege real namespaces and rules, without it
//! addresses of the loopback. Which of the two is tested is what the machine allows.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::services::{Choice, Protocol, Table};
use super::*;
use crate::runtimes::process::system;

const PATIENCE: Duration = Duration::from_secs(10);

/// A network whose records are gone, with everything else, when the test ends.
struct Place {
    directory: PathBuf,
    network: Arc<Network>,
}

impl Place {
    fn open(name: &str) -> Place {
        let name = format!("setpoint-network-{name}-{}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        let network = open(&directory);
        Place { directory, network }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.network.remove_all();
        let _ = fs::remove_dir_all(&self.directory);
    }
}

fn open(directory: &std::path::Path) -> Arc<Network> {
    let options = Options {
        rootless: None,
        directory: directory.to_owned(),
        node: "here".to_owned(),
        range: None,
        domain: DOMAIN.to_owned(),
        metadata: MetadataAccess::default(),
    };
    Arc::new(Network::open(options).expect("it opens"))
}

fn spec(pod: &str) -> SandboxSpec {
    SandboxSpec { pod: pod.to_owned(), ..SandboxSpec::default() }
}

fn address(sandbox: &Sandbox) -> Ipv4Addr {
    match sandbox.addresses[..] {
        [IpAddr::V4(address)] => address,
        ref other => panic!("one address: {other:?}"),
    }
}

/// Answers `text` to whoever connects, from within a pod.
fn serve(sandbox: &Sandbox, port: u16, text: &'static str) {
    let (network, at) = (sandbox.network.clone(), address(sandbox));
    let (told, ready) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        if let Some(network) = network {
            enter(&fs::File::open(network).expect("a namespace")).expect("it is entered");
        }
        let listener = TcpListener::bind((at, port)).expect("the port is free");
        told.send(()).expect("somebody waits");
        for stream in listener.incoming() {
            let _ = stream.expect("a connection").write_all(text.as_bytes());
        }
    });
    ready.recv_timeout(PATIENCE).expect("it listens");
}

/// What is answered at an address, asked from within a pod or from the machine.
fn ask(from: Option<&Sandbox>, to: (Ipv4Addr, u16)) -> io::Result<String> {
    let network = from.and_then(|sandbox| sandbox.network.clone());
    let asked = std::thread::spawn(move || {
        if let Some(network) = network {
            enter(&fs::File::open(network)?)?;
        }
        let mut stream = TcpStream::connect_timeout(&SocketAddr::from(to), PATIENCE)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let mut text = String::new();
        stream.read_to_string(&mut text)?;
        Ok(text)
    });
    asked.join().expect("it does not panic")
}

#[tokio::test]
async fn pods_have_addresses_of_their_own_that_outlive_us_and_go_with_them() {
    let mut place = Place::open("addresses");
    let one = place.network.make(&spec("one")).await.expect("it is made");
    let two = place.network.make(&spec("two")).await.expect("it is made");
    assert_ne!(address(&one), address(&two));
    assert_eq!(place.network.make(&spec("one")).await.expect("it is there"), one);
    // Both have the same port.
    serve(&one, 8080, "one");
    serve(&two, 8080, "two");
    for from in [None, Some(&one), Some(&two)] {
        for (to, text) in [(&one, "one"), (&two, "two")] {
            assert_eq!(ask(from, (address(to), 8080)).expect("an answer"), text);
        }
    }
    place.network = open(&place.directory);
    assert_eq!(place.network.find("one"), Some(one.clone()));
    assert_eq!(place.network.make(&spec("one")).await.expect("it is there"), one);
    assert_eq!(ask(None, (address(&one), 8080)).expect("an answer"), "one");
    // What a crash left without a record goes at the next start.
    place.network.records.remove("two");
    place.network = open(&place.directory);
    assert_eq!(place.network.pods(), ["one"]);
    if let Some(network) = &two.network {
        assert!(!network.exists(), "{network:?}");
    }
    place.network.remove("one");
    if let Some(network) = &one.network {
        assert!(!network.exists(), "{network:?}");
    }
    let text = fs::read_to_string("/proc/net/dev").expect("it is there");
    assert!(!text.contains(&place.network.marks.pods), "{text}");
    place.network.close();
    let text = fs::read_to_string("/proc/net/dev").expect("it is there");
    assert!(!text.contains(&place.network.marks.anchor), "{text}");
}

#[tokio::test]
async fn services_lead_to_pods_by_rules() {
    let place = Place::open("services");
    let network = &place.network;
    if network.mode == Mode::Loopback {
        // Rules need privilege; who has it must not get by without them.
        assert!(!system::is_root(), "root makes networks of pods");
        return;
    }
    let mut pods = Vec::new();
    for (name, text) in [("a", "a"), ("b", "b"), ("c", "c")] {
        let made = network.make(&spec(name)).await.expect("it is made");
        serve(&made, 8080, text);
        pods.push(made);
    }
    // An address that nobody else who tests here has.
    let [_, _, third, _] = network.range.network.octets();
    let service = Ipv4Addr::new(10, 98, third, 7);
    let all: Vec<(Ipv4Addr, u16)> = pods.iter().map(|pod| (address(pod), 8080)).collect();
    let mut table = Table::default();
    let choice =
        |targets: &[(Ipv4Addr, u16)], is_sticky| Choice { targets: targets.to_vec(), is_sticky };
    let node_port = 20_000 + u16::from(third);
    table.services.insert((service, Protocol::Tcp, 80), choice(&all, false));
    table.services.insert((service, Protocol::Tcp, 81), choice(&all, true));
    table.services.insert((service, Protocol::Tcp, 82), choice(&[], false));
    table.services.insert((service, Protocol::Tcp, 83), choice(&all[..1], false));
    table.node_ports.insert((Protocol::Tcp, node_port), choice(&all, false));
    table.node_ports.insert((Protocol::Tcp, node_port + 256), choice(&[], false));
    // Applied twice: the second replaces the first.
    for _ in 0..2 {
        ruleset::apply(&network.marks, network.range, &table).expect("the rules are taken");
    }
    for from in [None, Some(&pods[0])] {
        let answers = |port| -> BTreeSet<String> {
            let ask = |_| ask(from, (service, port)).expect("an answer");
            (0..40).map(ask).collect()
        };
        assert_eq!(answers(80).len(), 3, "everybody is asked at some time");
        assert_eq!(answers(81).len(), 1, "the same client gets the same");
        for port in [82, 99] {
            let refused = ask(from, (service, port)).expect_err("nobody is there");
            assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused, "{port}");
        }
    }
    // A pod reaches itself.
    assert_eq!(ask(Some(&pods[0]), (service, 83)).expect("an answer"), "a");
    for machine in [Ipv4Addr::LOCALHOST, network.range.gateway()] {
        ask(None, (machine, node_port)).expect("an answer");
        let refused = ask(None, (machine, node_port + 256)).expect_err("nobody is there");
        assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused);
    }
    let metadata = ask(Some(&pods[0]), (Ipv4Addr::new(169, 254, 169, 254), 80));
    let refused = metadata.expect_err("the metadata service is blocked");
    assert_eq!(refused.kind(), io::ErrorKind::ConnectionRefused, "{refused}");
    guests_do_not_reach_the_loopback();
    // The loopback of the machine is not for pods.
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let port = listener.local_addr().expect("an address").port();
    assert!(ask(Some(&pods[0]), (Ipv4Addr::LOCALHOST, port)).is_err());
    // Services may lead there all the same: the API server often listens there only.
    table
        .services
        .insert((service, Protocol::Tcp, 84), choice(&[(Ipv4Addr::LOCALHOST, port)], false));
    ruleset::apply(&network.marks, network.range, &table).expect("the rules are taken");
    let answering = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().expect("a connection");
        stream.write_all(b"machine").expect("it is sent");
    });
    assert_eq!(ask(Some(&pods[1]), (service, 84)).expect("an answer"), "machine");
    answering.join().expect("it ends");
    network.remove_all();
    assert!(!nftables::exists(&network.marks.table).expect("it is known"));
}

/// Connects to a port of the loopback as the user of a QEMU process, and as ourselves.
fn guests_do_not_reach_the_loopback() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let connect = |user: &str| {
        let mut command = std::process::Command::new("setpriv");
        command.args(["--reuid", user, "--regid", user, "--clear-groups", "bash", "-c"]);
        command.arg(format!("exec 3<>/dev/tcp/127.0.0.1/{port}"));
        command.stderr(std::process::Stdio::null()).status().expect("setpriv runs").success()
    };
    assert!(connect("1000"), "other users reach it");
    let guest = hypervisor::confinement::USERS_FROM + 7;
    assert!(!connect(&guest.to_string()), "guests do not");
}

/// Answers `text` to every packet, from within a pod.
fn echo(sandbox: &Sandbox, port: u16, text: &'static str) {
    let (network, at) = (sandbox.network.clone(), address(sandbox));
    let (told, ready) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        if let Some(network) = network {
            enter(&fs::File::open(network).expect("a namespace")).expect("it is entered");
        }
        let socket = UdpSocket::bind((at, port)).expect("the port is free");
        told.send(()).expect("somebody waits");
        while let Ok((_, from)) = socket.recv_from(&mut [0; 64]) {
            let _ = socket.send_to(text.as_bytes(), from);
        }
    });
    ready.recv_timeout(PATIENCE).expect("it listens");
}

#[tokio::test]
async fn who_goes_on_sending_reaches_who_is_there() {
    let place = Place::open("flows");
    let network = &place.network;
    if network.mode == Mode::Loopback {
        return;
    }
    let (mut pods, mut targets) = (Vec::new(), Vec::new());
    for text in ["a", "b"] {
        let made = network.make(&spec(text)).await.expect("it is made");
        echo(&made, 5353, text);
        targets.push((address(&made), 5353));
        pods.push(made);
    }
    let [_, _, third, _] = network.range.network.octets();
    let service = Ipv4Addr::new(10, 98, third, 8);
    let node_port = 21_000 + u16::from(third);
    let leads = |targets: &[(Ipv4Addr, u16)]| {
        let choice = Choice { targets: targets.to_vec(), is_sticky: false };
        let mut table = Table::default();
        table.services.insert((service, Protocol::Udp, 53), choice.clone());
        table.node_ports.insert((Protocol::Udp, node_port), choice);
        table
    };
    let client = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).expect("a port");
    client.set_read_timeout(Some(PATIENCE)).expect("a time");
    let ask = |to: (Ipv4Addr, u16)| {
        client.send_to(b"?", to).expect("it is sent");
        let mut text = [0; 64];
        let (count, _) = client.recv_from(&mut text).expect("somebody answers");
        String::from_utf8_lossy(&text[..count]).into_owned()
    };
    let (first, second) = (leads(&targets[..1]), leads(&targets[1..]));
    let places = [(service, 53), (Ipv4Addr::LOCALHOST, node_port)];
    proxy::replace(network, &Table::default(), &first).expect("the rules are taken");
    assert_eq!(places.map(ask), ["a", "a"]);
    // While both are there, who is asked stays.
    let both = leads(&targets);
    proxy::replace(network, &first, &both).expect("the rules are taken");
    assert_eq!(places.map(ask), ["a", "a"]);
    proxy::replace(network, &both, &second).expect("the rules are taken");
    assert_eq!(places.map(ask), ["b", "b"]);
}

/// Listens in a pod, and fills the queue of connections so that the kernel drops further SYNs.
fn listen_with_full_queue(
    sandbox: &Sandbox,
    port: u16,
) -> (tokio::net::TcpListener, Vec<TcpStream>) {
    const DROPPED: Duration = Duration::from_millis(200);
    let (network, at) = (sandbox.network.clone(), address(sandbox));
    let runtime = tokio::runtime::Handle::current();
    let listen = move || {
        let network = network.expect("a pod of this mode has a namespace");
        enter(&fs::File::open(network).expect("a namespace")).expect("it is entered");
        let _context = runtime.enter();
        let socket = tokio::net::TcpSocket::new_v4().expect("a socket");
        socket.bind((at, port).into()).expect("the port is free");
        socket.listen(0).expect("it listens")
    };
    let listener = std::thread::spawn(listen).join().expect("it listens");
    let connect = || TcpStream::connect_timeout(&(at, port).into(), DROPPED).ok();
    let queued = std::iter::from_fn(connect).collect();
    (listener, queued)
}

#[tokio::test]
async fn an_unanswered_connection_moves_to_another_endpoint() {
    let place = Place::open("syn");
    let network = &place.network;
    if network.mode == Mode::Loopback {
        return;
    }
    let full = network.make(&spec("full")).await.expect("it is made");
    let free = network.make(&spec("free")).await.expect("it is made");
    let _queue = listen_with_full_queue(&full, 8080);
    serve(&free, 8080, "free");
    let [_, _, third, _] = network.range.network.octets();
    let service = Ipv4Addr::new(10, 98, third, 9);
    let leads_to = |sandbox| {
        let choice = Choice { targets: vec![(address(sandbox), 8080)], is_sticky: false };
        let mut table = Table::default();
        table.services.insert((service, Protocol::Tcp, 80), choice);
        table
    };
    let (before, after) = (leads_to(&full), leads_to(&free));
    proxy::replace(network, &Table::default(), &before).expect("the rules are taken");
    let client = move || TcpStream::connect_timeout(&(service, 80).into(), PATIENCE);
    let connecting = std::thread::spawn(client);
    let is_tracked = || {
        let is_it = |flow: &flows::Flow| flow.destination == (service, 80) && !flow.has_reply;
        flows::list().expect("the kernel lists flows").iter().any(is_it)
    };
    while !is_tracked() {
        std::thread::yield_now();
    }
    proxy::replace(network, &before, &after).expect("the rules are taken");
    let mut stream = connecting.join().expect("no panic").expect("the next SYN is answered");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("an answer");
    assert_eq!(text, "free");
}

/// Says that the test runs in a network of its own, where a firewall may be set up.
const APART: &str = "SETPOINT_TEST_APART";

/// As Docker sets it up.
const DROP: &str = "ip link set lo up; iptables -P FORWARD DROP; exec \"$@\"";

#[tokio::test]
async fn behind_a_firewall() {
    if std::env::var_os(APART).is_none() {
        return;
    }
    let place = Place::open("firewall");
    let network = &place.network;
    let one = network.make(&spec("one")).await.expect("it is made");
    let two = network.make(&spec("two")).await.expect("it is made");
    serve(&one, 8080, "one");
    firewall::open(&network.marks);
    firewall::open(&network.marks);
    assert_eq!(ask(Some(&two), (address(&one), 8080)).expect("an answer"), "one");
    let rules = || {
        let told = std::process::Command::new("iptables").args(["-S", "FORWARD"]).output();
        String::from_utf8_lossy(&told.expect("iptables runs").stdout).into_owned()
    };
    assert_eq!(rules().matches(&network.marks.pods).count(), 2, "{}", rules());
    network.remove_all();
    assert_eq!(rules(), "-P FORWARD DROP\n", "what others set up stays");
}

/// Docker lets nothing be forwarded that is not its own; pods reach each other all the same.
#[test]
fn pods_reach_each_other_behind_the_firewall_of_docker() {
    if crate::contract::lacks_root() {
        return;
    }
    let own = std::env::current_exe().expect("this program");
    let mut command = std::process::Command::new("unshare");
    command.args(["--net", "sh", "-c", DROP, "sh"]).arg(own).env(APART, "1");
    command.args(["--exact", "network::tests::behind_a_firewall", "--nocapture"]);
    let ended = command.output().expect("unshare runs");
    let said = String::from_utf8_lossy(&ended.stdout).into_owned();
    let errors = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert!(ended.status.success() && said.contains("1 passed"), "{said}{errors}");
}
