//! Tables of packet filter rules, as messages to the kernel. Writes what it is told; which rules
//! there are is `ruleset.rs`.
//!
//! Upstream: include/uapi/linux/netfilter/nf_tables.h of Linux

use std::io;
use std::net::Ipv4Addr;

use super::netlink::{APPEND, CREATE, Message, Socket};

const SUBSYSTEM: u16 = 10;
const BATCH_BEGIN: u16 = 0x10;
const BATCH_END: u16 = 0x11;
const FAMILY: u8 = 2;
const NEW_TABLE: u16 = 0;
const DELETE_TABLE: u16 = 2;
const NEW_CHAIN: u16 = 3;
const NEW_RULE: u16 = 6;
const NEW_SET: u16 = 9;
const NEW_ELEMENT: u16 = 12;
/// Elements of one message, whose length has 16 bits.
const ELEMENTS_MAX: usize = 400;

const VERDICT: u32 = 0;
const VERDICT_TYPE: u32 = 0xffff_ff00;
/// Registers of four bytes, one after another.
pub const FIRST: u32 = 8;
pub const SECOND: u32 = 9;
pub const THIRD: u32 = 10;

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Hook {
    Prerouting,
    Input,
    Forward,
    Output,
    Postrouting,
}

/// A place where packets come by.
#[derive(Clone, Copy)]
pub struct Base {
    pub hook: Hook,
    pub priority: i32,
    /// `filter` or `nat`.
    pub kind: &'static str,
}

#[derive(Clone, Copy)]
pub enum Field {
    Source,
    Destination,
    /// Of the transport, two bytes.
    DestinationPort,
}

/// One step of a rule.
#[derive(Clone)]
pub enum Step {
    Load(Field, u32),
    LoadProtocol(u32),
    /// The first bytes of the name of the interface it came by, or leaves by, are these.
    CameBy(String),
    LeavesBy(String),
    LeavesNotBy(String),
    /// The register, masked, is that, or is not.
    Within {
        register: u32,
        network: Ipv4Addr,
        mask: Ipv4Addr,
    },
    Without {
        register: u32,
        network: Ipv4Addr,
        mask: Ipv4Addr,
    },
    /// The socket that sends it belongs to a user whose number, masked, is that.
    SentBy {
        user: u32,
        mask: u32,
    },
    /// It begins a connection.
    IsNew,
    /// It goes to another port than that.
    NotToPort(u16),
    /// It goes to an address of this machine.
    ToThisMachine,
    /// The registers are a key of the map, which says where to go on.
    Branch(&'static str),
    /// The registers are in the set.
    In(&'static str),
    /// One in so many, by chance.
    OneIn(u32),
    /// Those whose register, by its hash, falls on one of so many.
    Nth {
        register: u32,
        of: u32,
        is: u32,
    },
    Drop,
    Reject,
    Masquerade,
    Forward(Ipv4Addr, u16),
}

/// A table that replaces the one of the same name, all at once.
pub struct Batch {
    table: String,
    messages: Vec<Message>,
    sets: u32,
}

/// Whether this machine can have tables and we may write them.
pub fn probe(table: &str) -> io::Result<()> {
    let mut batch = Batch::begin(&format!("{table}-probe"));
    // Some kernels have tables but cannot translate addresses.
    let base = Base { hook: Hook::Output, priority: -100, kind: "nat" };
    batch.chain("output", Some(base));
    batch.chain("probe", None);
    batch.rule("probe", &[Step::OneIn(2), Step::Forward(Ipv4Addr::LOCALHOST, 1)]);
    batch.rule("probe", &[Step::ToThisMachine, Step::Masquerade]);
    // It must be possible, but is not to be.
    batch.delete();
    batch.commit()
}

/// Removes a table; one that is not there is fine.
pub fn remove(table: &str) -> io::Result<()> {
    let mut batch = Batch::begin(table);
    batch.delete();
    batch.commit()
}

/// Whether there is a table of that name.
#[cfg(test)]
pub fn exists(table: &str) -> io::Result<bool> {
    let get = 1;
    let mut message = Message::new((SUBSYSTEM << 8) | get, 0, &[FAMILY, 0, 0, 0]);
    message.text(1, table);
    match Socket::open(libc::NETLINK_NETFILTER)?.request(message) {
        Ok(()) => Ok(true),
        Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(false),
        Err(error) => Err(error),
    }
}

impl Batch {
    pub fn begin(table: &str) -> Batch {
        let begin = Message::new(BATCH_BEGIN, 0, &[0, 0, 0, 10]);
        let mut batch = Batch { table: table.to_owned(), messages: vec![begin], sets: 0 };
        // To delete what is perhaps not there: make it, delete it, make it.
        batch.create();
        batch.delete();
        batch.create();
        batch
    }

    fn message(&mut self, kind: u16, flags: u16) -> &mut Message {
        let kind = (SUBSYSTEM << 8) | kind;
        self.messages.push(Message::new(kind, flags, &[FAMILY, 0, 0, 0]));
        let table = self.table.clone();
        let message = self.messages.last_mut().expect("it was just put there");
        message.text(1, &table)
    }

    fn create(&mut self) {
        self.message(NEW_TABLE, CREATE);
    }

    fn delete(&mut self) {
        self.message(DELETE_TABLE, 0);
    }

    pub fn chain(&mut self, name: &str, base: Option<Base>) {
        let message = self.message(NEW_CHAIN, CREATE);
        message.text(3, name);
        if let Some(Base { hook, priority, kind }) = base {
            message.nest(4, |inner| {
                inner.number(1, hook.number()).number(2, priority.cast_unsigned());
            });
            message.text(7, kind);
        }
    }

    pub fn rule(&mut self, chain: &str, steps: &[Step]) {
        let message = self.message(NEW_RULE, CREATE | APPEND);
        message.text(2, chain).nest(4, |list| {
            for step in steps {
                write(list, step);
            }
        });
    }

    /// A set of keys of so many bytes.
    pub fn set(&mut self, name: &str, key_bytes: u32, keys: &[Vec<u8>]) {
        self.new_set(name, key_bytes, None);
        for some in keys.chunks(ELEMENTS_MAX) {
            self.elements(name, some.iter().map(|key| (key.as_slice(), None)));
        }
    }

    /// A map from keys to the chains where it goes on.
    pub fn map(&mut self, name: &str, key_bytes: u32, chains: &[(Vec<u8>, String)]) {
        self.new_set(name, key_bytes, Some(VERDICT_TYPE));
        for some in chains.chunks(ELEMENTS_MAX) {
            let pairs = some.iter().map(|(key, chain)| (key.as_slice(), Some(chain.as_str())));
            self.elements(name, pairs);
        }
    }

    fn new_set(&mut self, name: &str, key_bytes: u32, data: Option<u32>) {
        self.sets += 1;
        let (id, is_map) = (self.sets, 8);
        // How tools show a key: an address, a protocol and a port, or what of them there is.
        let (address, protocol, port) = (7, 12, 13);
        let key_type = match key_bytes {
            12 => (address << 12) | (protocol << 6) | port,
            8 if data.is_some() => (protocol << 6) | port,
            8 => (address << 6) | address,
            _ => address,
        };
        let message = self.message(NEW_SET, CREATE);
        message.text(2, name).number(3, if data.is_some() { is_map } else { 0 });
        message.number(4, key_type).number(5, key_bytes);
        if let Some(data) = data {
            message.number(6, data);
        }
        message.number(10, id);
    }

    fn elements<'a>(
        &mut self,
        set: &str,
        elements: impl Iterator<Item = (&'a [u8], Option<&'a str>)>,
    ) {
        let message = self.message(NEW_ELEMENT, CREATE);
        message.text(2, set).nest(3, |list| {
            for (key, chain) in elements {
                list.nest(1, |element| {
                    element.nest(1, |data| {
                        data.attribute(1, key);
                    });
                    if let Some(chain) = chain {
                        element.nest(2, |data| verdict(data, GOTO, Some(chain)));
                    }
                });
            }
        });
    }

    pub fn commit(mut self) -> io::Result<()> {
        self.messages.push(Message::new(BATCH_END, 0, &[0, 0, 0, 10]));
        Socket::open(libc::NETLINK_NETFILTER)?.batch(self.messages)
    }
}

impl Hook {
    fn number(self) -> u32 {
        match self {
            Hook::Prerouting => 0,
            Hook::Input => 1,
            Hook::Forward => 2,
            Hook::Output => 3,
            Hook::Postrouting => 4,
        }
    }
}

const DROP: i32 = 0;
const GOTO: i32 = -4;

fn verdict(data: &mut Message, code: i32, chain: Option<&str>) {
    data.nest(2, |verdict| {
        verdict.number(1, code.cast_unsigned());
        if let Some(chain) = chain {
            verdict.text(2, chain);
        }
    });
}

fn expression(list: &mut Message, name: &str, inner: impl FnOnce(&mut Message)) {
    list.nest(1, |element| {
        element.text(1, name).nest(2, inner);
    });
}

fn write(list: &mut Message, step: &Step) {
    match step {
        Step::Load(field, register) => load(list, *field, *register),
        Step::LoadProtocol(register) => meta(list, META_PROTOCOL, *register),
        Step::CameBy(prefix) => {
            meta(list, META_CAME_BY, FIRST);
            compare(list, (FIRST, IS), prefix.as_bytes());
        }
        Step::LeavesBy(prefix) => {
            meta(list, META_LEAVES_BY, FIRST);
            compare(list, (FIRST, IS), prefix.as_bytes());
        }
        Step::LeavesNotBy(prefix) => {
            meta(list, META_LEAVES_BY, FIRST);
            compare(list, (FIRST, IS_NOT), prefix.as_bytes());
        }
        Step::Within { register, network, mask } => {
            masked(list, *register, *mask);
            compare(list, (*register, IS), &network.octets());
        }
        Step::Without { register, network, mask } => {
            masked(list, *register, *mask);
            compare(list, (*register, IS_NOT), &network.octets());
        }
        Step::SentBy { user, mask } => {
            meta(list, META_SOCKET_USER, FIRST);
            mask_register(list, FIRST, mask.to_ne_bytes());
            compare(list, (FIRST, IS), &user.to_ne_bytes());
        }
        Step::IsNew => is_new(list),
        Step::NotToPort(port) => {
            load(list, Field::DestinationPort, FIRST);
            compare(list, (FIRST, IS_NOT), &port.to_be_bytes());
        }
        Step::ToThisMachine => {
            let (by_destination, kind_of_address, local) = (2, 3, 2_u32);
            expression(list, "fib", |fib| {
                fib.number(1, FIRST).number(2, kind_of_address).number(3, by_destination);
            });
            compare(list, (FIRST, IS), &local.to_ne_bytes());
        }
        Step::Branch(map) => expression(list, "lookup", |lookup| {
            lookup.text(1, map).number(2, FIRST).number(3, VERDICT);
        }),
        Step::In(set) => expression(list, "lookup", |lookup| {
            lookup.text(1, set).number(2, FIRST);
        }),
        Step::OneIn(count) => {
            let random = 1;
            expression(list, "numgen", |numgen| {
                numgen.number(1, FIRST).number(2, *count).number(3, random).number(4, 0);
            });
            compare(list, (FIRST, IS), &0_u32.to_ne_bytes());
        }
        Step::Nth { register, of, is } => {
            hash(list, *register, *of);
            compare(list, (FIRST, IS), &is.to_ne_bytes());
        }
        Step::Drop => expression(list, "immediate", |immediate| {
            immediate.number(1, VERDICT).nest(2, |data| verdict(data, DROP, None));
        }),
        Step::Reject => expression(list, "reject", |reject| {
            let (unreachable, port) = (0, 3);
            reject.number(1, unreachable).attribute(2, &[port]);
        }),
        Step::Masquerade => expression(list, "masq", |_| {}),
        Step::Forward(address, port) => forward(list, *address, *port),
    }
}

/// Loads the hash of a register, below `of`, into the first one.
fn hash(list: &mut Message, register: u32, of: u32) {
    let (bytes, seed) = (4, 1);
    expression(list, "hash", |hash| {
        hash.number(1, register).number(2, FIRST).number(3, bytes);
        hash.number(4, of).number(5, seed).number(7, 0);
    });
}

/// Continues for packets that begin a connection.
fn is_new(list: &mut Message) {
    let (state, new) = (0, 8_u32);
    expression(list, "ct", |tracking| {
        tracking.number(1, FIRST).number(2, state);
    });
    mask_register(list, FIRST, new.to_ne_bytes());
    compare(list, (FIRST, IS_NOT), &0_u32.to_ne_bytes());
}

fn forward(list: &mut Message, address: Ipv4Addr, port: u16) {
    immediate(list, FIRST, &address.octets());
    immediate(list, SECOND, &port.to_be_bytes());
    expression(list, "nat", |nat| {
        let to_another = 1;
        nat.number(1, to_another).number(2, u32::from(FAMILY));
        nat.number(3, FIRST).number(5, SECOND);
    });
}

const META_CAME_BY: u32 = 6;
const META_LEAVES_BY: u32 = 7;
const META_SOCKET_USER: u32 = 10;
const META_PROTOCOL: u32 = 16;
const IS: u32 = 0;
const IS_NOT: u32 = 1;

fn meta(list: &mut Message, key: u32, register: u32) {
    expression(list, "meta", |meta| {
        meta.number(1, register).number(2, key);
    });
}

fn compare(list: &mut Message, (register, how): (u32, u32), with: &[u8]) {
    expression(list, "cmp", |compare| {
        compare.number(1, register).number(2, how).nest(3, |data| {
            data.attribute(1, with);
        });
    });
}

fn immediate(list: &mut Message, register: u32, value: &[u8]) {
    expression(list, "immediate", |immediate| {
        immediate.number(1, register).nest(2, |data| {
            data.attribute(1, value);
        });
    });
}

fn masked(list: &mut Message, register: u32, mask: Ipv4Addr) {
    mask_register(list, register, mask.octets());
}

fn mask_register(list: &mut Message, register: u32, mask: [u8; 4]) {
    expression(list, "bitwise", |bitwise| {
        bitwise.number(1, register).number(2, register).number(3, 4);
        bitwise.nest(4, |data| {
            data.attribute(1, &mask);
        });
        bitwise.nest(5, |data| {
            data.attribute(1, &[0; 4]);
        });
    });
}

fn load(list: &mut Message, field: Field, register: u32) {
    let (network, transport) = (1, 2);
    let (base, offset, bytes) = match field {
        Field::Source => (network, 12, 4),
        Field::Destination => (network, 16, 4),
        Field::DestinationPort => (transport, 2, 2),
    };
    expression(list, "payload", |payload| {
        payload.number(1, register).number(2, base).number(3, offset).number(4, bytes);
    });
}
