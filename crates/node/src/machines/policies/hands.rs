//! Sets up the interfaces of this machine. What is made is noted first, in a file that outlives
//! this process; what is noted and nobody asks for any more is taken away. What was there before
//! is never taken away, and an interface that joined a bridge gets back what it had.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::wanted::{Bridge, Tagged, Wanted};
use crate::network::interfaces::{Address, Interface, Route};
use crate::network::links::Links;

/// What was made here.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Made {
    bridges: BTreeSet<String>,
    tagged: BTreeSet<String>,
    /// Interfaces that joined a bridge, by name.
    ports: BTreeMap<String, Port>,
    /// Addresses that bridges were given.
    addresses: BTreeMap<String, Vec<Address>>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct Port {
    bridge: String,
    /// What it had before.
    addresses: Vec<Address>,
    routes: Vec<Route>,
    /// Whether the bridge has all of that. One of which that is not known is finished.
    #[serde(default)]
    is_joined: bool,
}

pub struct Hands {
    links: Links,
    file: PathBuf,
    made: Made,
}

impl Hands {
    /// Reads what was made before.
    pub fn open(file: &Path) -> io::Result<Hands> {
        let made = match fs::read(file) {
            Ok(bytes) => serde_json::from_slice(&bytes).map_err(io::Error::other)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Made::default(),
            Err(error) => return Err(error),
        };
        Ok(Hands { links: Links::open()?, file: file.to_owned(), made })
    }

    /// Makes what is wanted; what is so already stays.
    pub fn apply(&mut self, wanted: &Wanted) -> Result<(), String> {
        for name in &wanted.devices {
            self.find(name)?.ok_or_else(|| missing(name))?;
            self.links.set_up(name).map_err(doing(format!("set up {name}")))?;
        }
        for tagged in &wanted.tagged {
            self.make_tagged(tagged)?;
        }
        wanted.bridges.iter().try_for_each(|bridge| self.make_bridge(bridge))
    }

    /// Takes away what was made and none of these wants. Says whether something is still used.
    pub fn clear(&mut self, wanted: &[Wanted]) -> Result<bool, String> {
        let bridges = || wanted.iter().flat_map(|one| &one.bridges);
        let is_port = |name: &str, of: &Port| {
            let mut there = bridges().filter(|bridge| bridge.name == of.bridge);
            there.any(|bridge| bridge.ports.iter().any(|port| port == name))
        };
        let ports = self.made.ports.clone().into_iter();
        for (name, port) in ports.filter(|(name, port)| !is_port(name, port)) {
            self.let_go(&name, &port)?;
            self.made.ports.remove(&name);
            self.note()?;
        }
        self.take_addresses(&|name, address| {
            bridges().any(|bridge| bridge.name == name && bridge.addresses.contains(address))
        })?;
        let tagged = |name: &String| {
            wanted.iter().flat_map(|one| &one.tagged).any(|tagged| tagged.name == *name)
        };
        for name in self.made.tagged.clone().into_iter().filter(|name| !tagged(name)) {
            self.links.remove(&name).map_err(doing(format!("remove {name}")))?;
            self.made.tagged.remove(&name);
            self.note()?;
        }
        let mut is_used = false;
        let is_wanted = |name: &String| bridges().any(|bridge| bridge.name == *name);
        for name in self.made.bridges.clone().into_iter().filter(|name| !is_wanted(name)) {
            match self.is_empty(&name)? {
                // Machines are connected to it: it goes after the last.
                false => is_used = true,
                true => {
                    self.links.remove(&name).map_err(doing(format!("remove {name}")))?;
                    self.made.bridges.remove(&name);
                    self.note()?;
                }
            }
        }
        Ok(is_used)
    }

    fn take_addresses(&mut self, is_wanted: &dyn Fn(&str, &Address) -> bool) -> Result<(), String> {
        for (name, addresses) in self.made.addresses.clone() {
            let (kept, gone): (Vec<Address>, Vec<Address>) =
                addresses.into_iter().partition(|address| is_wanted(&name, address));
            if gone.is_empty() {
                continue;
            }
            if self.find(&name)?.is_some() {
                for address in gone {
                    let taken = self.links.take_address(&name, address);
                    taken.map_err(doing(format!("take an address from {name}")))?;
                }
            }
            match kept.is_empty() {
                true => drop(self.made.addresses.remove(&name)),
                false => drop(self.made.addresses.insert(name, kept)),
            }
            self.note()?;
        }
        Ok(())
    }

    fn make_tagged(&mut self, tagged: &Tagged) -> Result<(), String> {
        let Tagged { name, base, tag } = tagged;
        let base_of = self.find(base)?.ok_or_else(|| missing(base))?.index;
        match self.find(name)? {
            Some(one) if one.tag == Some(*tag) && one.base == Some(base_of) => {}
            Some(_) => return Err(format!("{name} is there, and is not the vlan {tag} of {base}")),
            None => {
                self.made.tagged.insert(name.clone());
                self.note()?;
                let made = self.links.add_tagged(name, (base, *tag));
                made.map_err(doing(format!("make {name}")))?;
            }
        }
        for name in [base, name] {
            self.links.set_up(name).map_err(doing(format!("set up {name}")))?;
        }
        Ok(())
    }

    fn make_bridge(&mut self, bridge: &Bridge) -> Result<(), String> {
        let name = &bridge.name;
        match self.find(name)? {
            Some(one) if one.kind == "bridge" => {}
            Some(_) => return Err(format!("{name} is there, and is no bridge")),
            None => {
                self.made.bridges.insert(name.clone());
                self.note()?;
                self.links.add_bridge(name).map_err(doing(format!("make {name}")))?;
            }
        }
        self.links.set_up(name).map_err(doing(format!("set up {name}")))?;
        for port in &bridge.ports {
            self.make_port(bridge, port)?;
        }
        self.give_addresses(bridge)
    }

    fn give_addresses(&mut self, bridge: &Bridge) -> Result<(), String> {
        let name = &bridge.name;
        let index = self.find(name)?.ok_or_else(|| missing(name))?.index;
        let doing = || doing(format!("give {name} an address"));
        let has = self.links.addresses(index).map_err(doing())?;
        for address in bridge.addresses.iter().filter(|address| !has.contains(address)) {
            let given = self.made.addresses.entry(name.clone()).or_default();
            if !given.contains(address) {
                given.push(*address);
            }
            self.note()?;
            self.links.put_address(name, *address).map_err(doing())?;
        }
        Ok(())
    }

    fn make_port(&mut self, bridge: &Bridge, name: &str) -> Result<(), String> {
        let port = self.find(name)?.ok_or_else(|| missing(name))?;
        let own = self.find(&bridge.name)?.ok_or_else(|| missing(&bridge.name))?;
        // What is noted and not done was begun by a process that did not come to the end of it: its
        // word on what the interface had counts, which may have lost some of that meanwhile.
        let noted = self.made.ports.get(name).filter(|noted| noted.bridge == bridge.name).cloned();
        match (port.bridge, &noted) {
            (Some(of), Some(noted)) if of == own.index && !noted.is_joined => {}
            (Some(of), _) if of == own.index => return Ok(()),
            (Some(_), _) => return Err(format!("{name} is a port of another bridge")),
            (None, _) => {}
        }
        let looking = || doing(format!("see what goes through {name}"));
        let had = self.had(bridge, &port, noted).map_err(looking())?;
        let is_way_out = self.links.is_way_out(port.index).map_err(looking())?;
        if is_way_out && bridge.addresses.is_empty() {
            return Err(format!(
                "{name} is how this node reaches others: as a port of {} it would not, unless the \
                 bridge gets the address of the node (nodeIP)",
                bridge.name
            ));
        }
        self.made.ports.insert(name.to_owned(), had.clone());
        self.note()?;
        match self.join(bridge, name, &had) {
            Ok(()) => {
                self.made.ports.insert(name.to_owned(), Port { is_joined: true, ..had });
                self.note()
            }
            Err(why) => {
                // The node must not be cut off because a step failed.
                self.let_go(name, &had)?;
                self.made.ports.remove(name);
                self.note()?;
                Err(why)
            }
        }
    }

    /// What an interface has, and had when its bridge began to take it from it.
    fn had(&mut self, bridge: &Bridge, port: &Interface, noted: Option<Port>) -> io::Result<Port> {
        let fresh = Port {
            bridge: bridge.name.clone(),
            addresses: Vec::new(),
            routes: Vec::new(),
            is_joined: false,
        };
        let mut had = Port { is_joined: false, ..noted.unwrap_or(fresh) };
        for address in self.links.addresses(port.index)? {
            if !had.addresses.contains(&address) {
                had.addresses.push(address);
            }
        }
        for route in self.links.routes(port.index)? {
            if !had.routes.contains(&route) {
                had.routes.push(route);
            }
        }
        Ok(had)
    }

    /// What an interface has, its bridge has from now on.
    fn join(&mut self, bridge: &Bridge, name: &str, had: &Port) -> Result<(), String> {
        let doing = || doing(format!("make {name} a port of {}", bridge.name));
        self.links.join(name, Some(&bridge.name)).map_err(doing())?;
        self.links.set_up(name).map_err(doing())?;
        for address in &had.addresses {
            self.links.take_address(name, *address).map_err(doing())?;
        }
        self.give_addresses(bridge)?;
        had.routes
            .iter()
            .filter(|_| !bridge.addresses.is_empty())
            .try_for_each(|route| self.links.put_route(&bridge.name, route).map_err(doing()))
    }

    /// An interface leaves its bridge, and has again what it had.
    fn let_go(&mut self, name: &str, had: &Port) -> Result<(), String> {
        let Some(port) = self.find(name)? else { return Ok(()) };
        let doing = || doing(format!("let {name} go"));
        let own = self.find(&had.bridge)?.map(|bridge| bridge.index);
        if port.bridge.is_some() && port.bridge == own {
            self.links.join(name, None).map_err(doing())?;
        }
        // What the bridge had of it leads elsewhere from now on.
        for address in had.addresses.iter().filter(|_| own.is_some()) {
            self.links.take_address(&had.bridge, *address).map_err(doing())?;
        }
        for address in &had.addresses {
            self.links.put_address(name, *address).map_err(doing())?;
        }
        for route in &had.routes {
            self.links.put_route(name, route).map_err(doing())?;
        }
        Ok(())
    }

    fn is_empty(&mut self, bridge: &str) -> Result<bool, String> {
        let all = self.links.interfaces().map_err(doing("list interfaces".to_owned()))?;
        let own = all.iter().find(|one| one.name == bridge).map(|one| one.index);
        Ok(own.is_none_or(|own| all.iter().all(|one| one.bridge != Some(own))))
    }

    fn find(&mut self, name: &str) -> Result<Option<Interface>, String> {
        let all = self.links.interfaces().map_err(doing("list interfaces".to_owned()))?;
        Ok(all.into_iter().find(|one| one.name == name))
    }

    /// Writes down what was made, as a whole or not at all.
    fn note(&self) -> Result<(), String> {
        let doing = || doing("note what is made".to_owned());
        let bytes = serde_json::to_vec(&self.made).map_err(io::Error::other).map_err(doing())?;
        if let Some(directory) = self.file.parent() {
            fs::create_dir_all(directory).map_err(doing())?;
        }
        let part = self.file.with_extension("part");
        fs::write(&part, bytes).and_then(|()| fs::rename(&part, &self.file)).map_err(doing())
    }
}

const KERNEL: &str = "the kernel of this node has no such interfaces";

fn missing(name: &str) -> String {
    format!("there is no interface {name} on this node")
}

fn doing(what: String) -> impl FnOnce(io::Error) -> String {
    move |error| match error.raw_os_error() {
        Some(libc::EPERM) => format!("could not {what}: only root may"),
        Some(libc::EOPNOTSUPP) => format!("could not {what}: {KERNEL}"),
        _ => format!("could not {what}: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;
    use crate::network::system;

    /// A file that goes with its directory.
    struct Place(PathBuf);

    impl Place {
        fn new(name: &str) -> Place {
            let name = format!("node-policies-{name}-{}", std::process::id());
            Place(std::env::temp_dir().join(name))
        }

        fn hands(&self) -> Hands {
            Hands::open(&self.0.join("links.json")).expect("opened")
        }
    }

    impl Drop for Place {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    /// In a network of its own, with an interface `eth9` that leads to another.
    fn alone(test: impl FnOnce(&mut Links) + Send + 'static) {
        let own = std::thread::spawn(move || {
            if let Err(error) = system::own_network() {
                assert!(!is_root(), "root must have network namespaces: {error}");
                return println!("only root has networks of its own");
            }
            let mut links = Links::open().expect("a way to the kernel");
            let there = fs::File::open("/proc/thread-self/ns/net").expect("a network");
            links.add_pair("eth9", ("far", &there)).expect("a pair");
            for name in ["eth9", "far"] {
                links.set_up(name).expect("set up");
            }
            test(&mut links);
        });
        own.join().expect("it holds");
    }

    fn is_root() -> bool {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        status.lines().any(|line| line.starts_with("Uid:\t0\t"))
    }

    fn own() -> Address {
        (Ipv4Addr::new(10, 9, 0, 2), 24)
    }

    fn lan(port: &str, addresses: Vec<Address>) -> Wanted {
        let (name, ports) = ("br-lan".to_owned(), vec![port.to_owned()]);
        Wanted { bridges: vec![Bridge { name, ports, addresses }], ..Wanted::default() }
    }

    fn named(links: &mut Links, name: &str) -> Option<Interface> {
        links.interfaces().expect("listed").into_iter().find(|one| one.name == name)
    }

    #[test]
    fn a_bridge_and_a_tagged_part_of_a_device_come_and_go() {
        let place = Place::new("tagged");
        alone(move |links| {
            let mut wanted = lan("eth9.7", Vec::new());
            wanted.tagged = vec![Tagged { name: "eth9.7".into(), base: "eth9".into(), tag: 7 }];
            match place.hands().apply(&wanted) {
                Err(why) if why.ends_with(KERNEL) => {
                    wanted = lan("eth9", Vec::new());
                    println!("{why}: the bridge is on the device itself");
                    place.hands().apply(&wanted).expect("made");
                }
                made => made.expect("made"),
            }
            place.hands().apply(&wanted).expect("it is so already");
            let bridge = named(links, "br-lan").expect("a bridge");
            let port = named(links, &wanted.bridges[0].ports[0]).expect("a port");
            let tag = wanted.tagged.first().map(|tagged| tagged.tag);
            assert_eq!((bridge.kind.as_str(), port.tag), ("bridge", tag));
            assert_eq!(port.bridge, Some(bridge.index));
            // Two want it, and one goes.
            assert_eq!(place.hands().clear(std::slice::from_ref(&wanted)), Ok(false));
            assert_eq!(named(links, &port.name).map(|one| one.bridge), Some(port.bridge));
            assert_eq!(place.hands().clear(&[]), Ok(false));
            assert_eq!((named(links, "br-lan"), named(links, "eth9.7")), (None, None));
            let device = named(links, "eth9").expect("it was there before");
            assert_eq!(device.bridge, None);
        });
    }

    #[test]
    fn the_way_out_of_a_node_is_not_taken_from_it() {
        let place = Place::new("way-out");
        alone(move |links| {
            links.put_address("eth9", own()).expect("an address");
            let gateway = Ipv4Addr::new(10, 9, 0, 1);
            let way = crate::network::links::Way::By { interface: "eth9", gateway };
            links.add_route((Ipv4Addr::UNSPECIFIED, 0), way).expect("a route");
            let device = named(links, "eth9").expect("a device").index;
            let said = place.hands().apply(&lan("eth9", Vec::new())).unwrap_err();
            assert!(said.contains("is how this node reaches others"), "{said}");
            assert!(links.is_way_out(device).expect("asked"));
            // With the address of the node the bridge is the way out.
            place.hands().apply(&lan("eth9", vec![own()])).expect("made");
            let bridge = named(links, "br-lan").expect("a bridge").index;
            assert!(links.is_way_out(bridge).expect("asked"));
            assert!(!links.is_way_out(device).expect("asked"));
            assert_eq!(links.addresses(bridge).expect("asked"), [own()]);
            assert_eq!(links.addresses(device).expect("asked"), []);
            // And when nobody asks for it, all is as it was.
            assert_eq!(place.hands().clear(&[]), Ok(false));
            assert_eq!(named(links, "br-lan"), None);
            assert_eq!(links.addresses(device).expect("asked"), [own()]);
            assert!(links.is_way_out(device).expect("asked"));
        });
    }

    /// Whoever begins is killed at each of its steps; whoever comes after it finishes, and in the
    /// end all is as it was.
    #[test]
    fn who_is_killed_between_two_steps_does_not_cut_the_node_off() {
        let place = Place::new("killed");
        alone(move |links| {
            let gateway = Ipv4Addr::new(10, 9, 0, 1);
            let way = || crate::network::links::Way::By { interface: "eth9", gateway };
            links.put_address("eth9", own()).expect("an address");
            links.add_route((Ipv4Addr::UNSPECIFIED, 0), way()).expect("a route");
            let device = named(links, "eth9").expect("a device").index;
            let had = Port {
                bridge: "br-lan".to_owned(),
                addresses: links.addresses(device).expect("asked"),
                routes: links.routes(device).expect("asked"),
                is_joined: false,
            };
            for steps in 0..4 {
                let mut killed = place.hands();
                killed.made.bridges.insert("br-lan".to_owned());
                killed.made.ports.insert("eth9".to_owned(), had.clone());
                killed.note().expect("noted");
                killed.links.add_bridge("br-lan").expect("a bridge");
                killed.links.set_up("br-lan").expect("set up");
                if steps > 0 {
                    killed.links.join("eth9", Some("br-lan")).expect("joined");
                }
                if steps > 1 {
                    killed.links.take_address("eth9", own()).expect("taken");
                }
                if steps > 2 {
                    // It was about to give back what it had taken.
                    killed.links.join("eth9", None).expect("left");
                }
                drop(killed);
                place.hands().apply(&lan("eth9", vec![own()])).expect("finished");
                let bridge = named(links, "br-lan").expect("a bridge").index;
                assert!(links.is_way_out(bridge).expect("asked"), "after {steps}");
                assert_eq!(links.addresses(bridge).expect("asked"), [own()], "after {steps}");
                assert_eq!(links.addresses(device).expect("asked"), [], "after {steps}");
                place.hands().apply(&lan("eth9", vec![own()])).expect("it is so already");
                assert_eq!(place.hands().clear(&[]), Ok(false));
                assert_eq!(links.addresses(device).expect("asked"), [own()], "after {steps}");
                assert!(links.is_way_out(device).expect("asked"), "after {steps}");
            }
        });
    }

    #[test]
    fn what_cannot_be_is_said_and_changes_nothing() {
        let place = Place::new("refused");
        alone(move |links| {
            links.put_address("eth9", own()).expect("an address");
            let said = place.hands().apply(&lan("eth8", Vec::new())).unwrap_err();
            assert_eq!(said, "there is no interface eth8 on this node");
            let mut taken = lan("eth9", Vec::new());
            taken.bridges[0].name = "far".to_owned();
            let said = place.hands().apply(&taken).unwrap_err();
            assert_eq!(said, "far is there, and is no bridge");
            let none = Tagged { name: "far".into(), base: "eth9".into(), tag: 7 };
            let said = place.hands().apply(&Wanted { tagged: vec![none], ..Wanted::default() });
            assert_eq!(said.unwrap_err(), "far is there, and is not the vlan 7 of eth9");
            // A bridge that machines are connected to stays as long as they are.
            place.hands().apply(&lan("eth9", Vec::new())).expect("made");
            links.join("far", Some("br-lan")).expect("joined");
            assert_eq!(place.hands().clear(&[]), Ok(true));
            let device = named(links, "eth9").expect("a device");
            assert_eq!(device.bridge, None);
            assert_eq!(links.addresses(device.index).expect("asked"), [own()]);
            assert!(named(links, "br-lan").is_some());
            links.join("far", None).expect("left");
            assert_eq!(place.hands().clear(&[]), Ok(false));
            assert_eq!(named(links, "br-lan"), None);
        });
    }
}
