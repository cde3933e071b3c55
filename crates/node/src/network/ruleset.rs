//! The packet rules of a node: services, ports of the machine, and the way out. What each rule is
//! for is said beside it.

use std::io;
use std::net::Ipv4Addr;

use super::Marks;
use super::nftables::{Base, Batch, FIRST, Field, Hook, SECOND, Step, THIRD};
use super::range::{CLUSTER, Range};
use super::services::{Choice, MetadataAccess, Protocol, Table};

/// QEMU processes have users of this range.
const SENT_BY_GUEST: Step = Step::SentBy {
    user: hypervisor::confinement::USERS_FROM,
    mask: !(hypervisor::confinement::USERS - 1),
};
/// Where in the order of everybody's rules ours are.
const BEFORE_TRACKING: i32 = -300;
/// Connections are known, and their destinations are not translated yet.
const TRACKED: i32 = -150;
const DESTINATION: i32 = -100;
const FILTER: i32 = 0;
const SOURCE: i32 = 100;

/// The service that tells virtual machines of a cloud their credentials.
const METADATA: Ipv4Addr = Ipv4Addr::new(169, 254, 169, 254);
const LOOPBACK: Range = Range { network: Ipv4Addr::new(127, 0, 0, 0), length: 8 };
const DNS_PORT: u16 = 53;

/// Replaces the rules of the node.
pub fn apply(marks: &Marks, range: Range, table: &Table) -> io::Result<()> {
    let mut batch = Batch::begin(&marks.table);
    for (name, hook, priority, kind) in [
        ("loopback", Hook::Prerouting, BEFORE_TRACKING, "filter"),
        ("arriving", Hook::Prerouting, DESTINATION, "nat"),
        ("guests", Hook::Output, TRACKED, "filter"),
        ("sending", Hook::Output, DESTINATION, "nat"),
        ("leaving", Hook::Postrouting, SOURCE, "nat"),
        ("refused-forward", Hook::Forward, FILTER, "filter"),
        ("refused-output", Hook::Output, FILTER, "filter"),
        ("refused-input", Hook::Input, FILTER, "filter"),
    ] {
        batch.chain(name, Some(Base { hook, priority, kind }));
    }
    maps(&mut batch, table, range);
    destinations(&mut batch, marks);
    sources(&mut batch, marks, range);
    refusals(&mut batch, marks);
    guests(&mut batch);
    if table.metadata == MetadataAccess::Blocked {
        metadata(&mut batch, marks);
    }
    batch.commit()
}

/// The chains of all choices, and the maps that lead to them.
fn maps(batch: &mut Batch, table: &Table, range: Range) {
    let mut chains = 0;
    let mut chain = |batch: &mut Batch, choice: &Choice| {
        let name = format!("choice-{chains}");
        chains += 1;
        batch.chain(&name, None);
        choose(batch, &name, choice);
        name
    };
    let reached = |choice: &&Choice| !choice.targets.is_empty();
    let (mut services, mut host_ports, mut node_ports) = (Vec::new(), Vec::new(), Vec::new());
    for (key, choice) in table.services.iter().filter(|(_, choice)| reached(choice)) {
        services.push((address_key(*key), chain(batch, choice)));
    }
    for (key, choice) in &table.host_ports {
        host_ports.push((address_key(*key), chain(batch, choice)));
    }
    for (key, choice) in table.node_ports.iter().filter(|(_, choice)| reached(choice)) {
        node_ports.push((port_key(*key), chain(batch, choice)));
    }
    batch.map("services", 12, &services);
    batch.map("host-ports", 12, &host_ports);
    batch.map("node-ports", 8, &node_ports);
    let own = table.targets().into_iter().filter(|address| range.contains(*address));
    let own: Vec<Vec<u8>> = own.map(|one| [one.octets(), one.octets()].concat()).collect();
    batch.set("themselves", 8, &own);
    let addresses: Vec<Vec<u8>> =
        table.addresses().iter().map(|one| one.octets().to_vec()).collect();
    batch.set("addresses", 4, &addresses);
    let unreached = table.node_ports.iter().filter(|(_, choice)| choice.targets.is_empty());
    let unreached: Vec<Vec<u8>> = unreached.map(|(key, _)| port_key(*key)).collect();
    batch.set("unreached-ports", 8, &unreached);
}

/// One of the targets.
fn choose(batch: &mut Batch, chain: &str, choice: &Choice) {
    let count = u32::try_from(choice.targets.len()).unwrap_or(u32::MAX);
    for (index, (address, port)) in (0..count).zip(&choice.targets) {
        let mut steps = Vec::new();
        match choice.is_sticky {
            _ if count - index == 1 => {}
            true => {
                steps.push(Step::Load(Field::Source, SECOND));
                steps.push(Step::Nth { register: SECOND, of: count, is: index });
            }
            // Of those that are left each is as likely.
            false => steps.push(Step::OneIn(count - index)),
        }
        steps.push(Step::Forward(*address, *port));
        batch.rule(chain, &steps);
    }
}

/// Where packets to services and to ports of the machine really go.
fn destinations(batch: &mut Batch, marks: &Marks) {
    let to_address = [
        Step::Load(Field::Destination, FIRST),
        Step::LoadProtocol(SECOND),
        Step::Load(Field::DestinationPort, THIRD),
    ];
    let to_port = [
        Step::ToThisMachine,
        Step::LoadProtocol(FIRST),
        Step::Load(Field::DestinationPort, SECOND),
        Step::Branch("node-ports"),
    ];
    let with = |begin: &[Step], map| [begin, &to_address, &[Step::Branch(map)]].concat();
    // Other nodes may run on this machine: of all that arrives only what our pods send is for us.
    batch.rule("arriving", &with(&[Step::CameBy(marks.pods.clone())], "services"));
    batch.rule("sending", &with(&[], "services"));
    for chain in ["arriving", "sending"] {
        batch.rule(chain, &with(&[], "host-ports"));
        batch.rule(chain, &to_port);
    }
}

/// In whose name packets leave.
fn sources(batch: &mut Batch, marks: &Marks, range: Range) {
    let loopback = (Ipv4Addr::new(127, 0, 0, 0), Ipv4Addr::new(255, 0, 0, 0));
    // A pod that reaches itself would not know its own packets for an answer.
    batch.rule(
        "leaving",
        &[
            Step::Load(Field::Source, FIRST),
            Step::Load(Field::Destination, SECOND),
            Step::In("themselves"),
            Step::Masquerade,
        ],
    );
    // Programs of the machine that ask on its loopback.
    let from_loopback = Step::Within { register: FIRST, network: loopback.0, mask: loopback.1 };
    batch.rule(
        "leaving",
        &[
            Step::LeavesBy(marks.pods.clone()),
            Step::Load(Field::Source, FIRST),
            from_loopback.clone(),
            Step::Masquerade,
        ],
    );
    // Nobody outside knows a way to pods; inside everybody does.
    let mask = range.mask();
    batch.rule(
        "leaving",
        &[
            Step::LeavesNotBy(marks.pods.clone()),
            Step::Load(Field::Source, FIRST),
            Step::Within { register: FIRST, network: range.network, mask },
            Step::Load(Field::Destination, FIRST),
            Step::Without { register: FIRST, network: CLUSTER.network, mask: CLUSTER.mask() },
            Step::Load(Field::Destination, FIRST),
            Step::Without { register: FIRST, network: range.network, mask },
            Step::Masquerade,
        ],
    );
    // The machine's loopback is reached through services only.
    batch.rule(
        "loopback",
        &[
            Step::CameBy(marks.pods.clone()),
            Step::Load(Field::Destination, FIRST),
            from_loopback,
            Step::Drop,
        ],
    );
}

/// A QEMU process opens connections for its guest. They must not reach servers that listen on the
/// loopback of this machine because they trust it, except its resolver.
fn guests(batch: &mut Batch) {
    batch.rule(
        "guests",
        &[
            SENT_BY_GUEST,
            Step::Load(Field::Destination, FIRST),
            Step::Within { register: FIRST, network: LOOPBACK.network, mask: LOOPBACK.mask() },
            Step::IsNew,
            Step::NotToPort(DNS_PORT),
            Step::Reject,
        ],
    );
}

/// Neither pods nor guests get the credentials of the cloud machine that they run on.
fn metadata(batch: &mut Batch, marks: &Marks) {
    let to_metadata = [
        Step::Load(Field::Destination, FIRST),
        Step::Within { register: FIRST, network: METADATA, mask: Ipv4Addr::BROADCAST },
        Step::Reject,
    ];
    let with = |begin: Step| [&[begin][..], &to_metadata].concat();
    batch.rule("refused-forward", &with(Step::CameBy(marks.pods.clone())));
    batch.rule("guests", &with(SENT_BY_GUEST));
}

/// What still goes to a service after all this goes nowhere: that is said at once.
fn refusals(batch: &mut Batch, marks: &Marks) {
    let to_service = [Step::Load(Field::Destination, FIRST), Step::In("addresses"), Step::Reject];
    let from_pods = [&[Step::CameBy(marks.pods.clone())][..], &to_service].concat();
    batch.rule("refused-forward", &from_pods);
    batch.rule("refused-output", &to_service);
    batch.rule(
        "refused-input",
        &[
            Step::LoadProtocol(FIRST),
            Step::Load(Field::DestinationPort, SECOND),
            Step::In("unreached-ports"),
            Step::Reject,
        ],
    );
}

fn address_key((address, protocol, port): (Ipv4Addr, Protocol, u16)) -> Vec<u8> {
    [address.octets().to_vec(), port_key((protocol, port))].concat()
}

/// Every part takes four bytes.
fn port_key((protocol, port): (Protocol, u16)) -> Vec<u8> {
    let [high, low] = port.to_be_bytes();
    vec![protocol.number(), 0, 0, 0, high, low, 0, 0]
}
