//! Machines that are only said to run: for trials. What is asked of them is remembered, guests do
//! what `play` says.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;

use crate::error::Error;
use crate::machine::{Disk, End, Figures, Guest, Interface, Machine, Opened, Pause, Port, State};
use crate::{Connection, Copied, Hypervisor, Kind, Listener, Others, Quiet};

const CONSOLE_BUFFER_BYTES: usize = 4 << 10;

#[derive(Default)]
pub struct Simulated {
    machines: Mutex<BTreeMap<String, (Machine, State)>>,
    listener: Mutex<Option<Listener>>,
    deeds: Mutex<Vec<Deed>>,
    /// Which ports of guests are open, and where.
    ports: Mutex<BTreeMap<String, BTreeSet<(Ipv4Addr, Port)>>>,
}

/// What really happened to machines, in its order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Deed {
    Launched {
        id: String,
        name: String,
    },
    /// It was to be started while another had one of its disks.
    Refused {
        id: String,
        name: String,
    },
    Ended {
        id: String,
    },
    Removed {
        id: String,
    },
    /// It was paused, resumed or reset.
    Disturbed {
        id: String,
    },
}

impl Simulated {
    /// What a guest does by itself, or what happens to it.
    pub fn play(&self, id: &str, state: State) {
        if let Some((_, current)) = lock(&self.machines).get_mut(id) {
            if matches!(state, State::Ended(_)) {
                self.note(Deed::Ended { id: id.to_owned() });
            }
            *current = state;
        }
        let listener = lock(&self.listener).clone();
        if let Some(listener) = listener {
            listener(id);
        }
    }

    /// How often a machine was started.
    pub fn launches(&self) -> usize {
        let deeds = lock(&self.deeds);
        deeds.iter().filter(|deed| matches!(deed, Deed::Launched { .. })).count()
    }

    /// Which ports of a guest are open.
    pub fn ports(&self, id: &str) -> BTreeSet<(Ipv4Addr, Port)> {
        lock(&self.ports).get(id).cloned().unwrap_or_default()
    }

    pub fn deeds(&self) -> Vec<Deed> {
        lock(&self.deeds).clone()
    }

    fn note(&self, deed: Deed) {
        lock(&self.deeds).push(deed);
    }

    /// Changes a machine that has not ended.
    fn change<T>(
        &self,
        id: &str,
        change: impl FnOnce(&mut Machine, &mut State) -> T,
    ) -> Result<T, Error> {
        match lock(&self.machines).get_mut(id) {
            Some((machine, state)) if !matches!(state, State::Ended(_)) => {
                Ok(change(machine, state))
            }
            _ => Err(Error::NotRunning { id: id.to_owned() }),
        }
    }
}

fn lock<T>(held: &Mutex<T>) -> MutexGuard<'_, T> {
    held.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A connection whose other side is gone.
fn silence() -> Box<dyn Connection> {
    Box::new(tokio::io::duplex(CONSOLE_BUFFER_BYTES).0)
}

#[async_trait]
impl Hypervisor for Simulated {
    fn ids(&self) -> Vec<String> {
        lock(&self.machines).keys().cloned().collect()
    }

    async fn launch(&self, machine: &Machine) -> Result<(), Error> {
        let mut machines = lock(&self.machines);
        let state = machines.get(&machine.id).map(|(_, state)| state);
        if state.is_some_and(|state| !matches!(state, State::Ended(_))) {
            return Err(Error::AlreadyRuns { id: machine.id.clone() });
        }
        let shares = |other: &Machine| {
            other.disks.iter().any(|one| machine.disks.iter().any(|own| own.file == one.file))
        };
        let is_live = |state: &State| !matches!(state, State::Ended(_));
        if machines.values().any(|(other, state)| is_live(state) && shares(other)) {
            let (id, name) = (machine.id.clone(), machine.name.clone());
            self.note(Deed::Refused { id, name });
            let said = "another machine has one of its disks".to_owned();
            return Err(Error::DidNotStart { said });
        }
        let state = match machine.starts_paused {
            true => State::Paused(Pause::Asked),
            false => State::Running,
        };
        machines.insert(machine.id.clone(), (machine.clone(), state));
        self.note(Deed::Launched { id: machine.id.clone(), name: machine.name.clone() });
        Ok(())
    }

    async fn state(&self, id: &str) -> State {
        let machines = lock(&self.machines);
        machines.get(id).map_or(State::Absent, |(_, state)| state.clone())
    }

    async fn press(&self, id: &str) -> Result<(), Error> {
        self.change(id, |_, state| {
            *state = State::Ended(End::Shutdown);
            self.note(Deed::Ended { id: id.to_owned() });
        })?;
        let listener = lock(&self.listener).clone();
        if let Some(listener) = listener {
            listener(id);
        }
        Ok(())
    }

    async fn stop(&self, id: &str, grace: Duration) -> Result<End, Error> {
        let end = if grace.is_zero() { End::Killed } else { End::Shutdown };
        let mut machines = lock(&self.machines);
        let found = machines.get_mut(id).ok_or_else(|| Error::NotRunning { id: id.to_owned() })?;
        if let State::Ended(end) = &found.1 {
            return Ok(end.clone());
        }
        found.1 = State::Ended(end.clone());
        self.note(Deed::Ended { id: id.to_owned() });
        Ok(end)
    }

    async fn remove(&self, id: &str) -> Result<(), Error> {
        let mut machines = lock(&self.machines);
        match machines.get(id) {
            Some((_, State::Ended(_))) => {
                machines.remove(id);
                lock(&self.ports).remove(id);
                self.note(Deed::Removed { id: id.to_owned() });
            }
            Some(_) => return Err(Error::AlreadyRuns { id: id.to_owned() }),
            None => {}
        }
        Ok(())
    }

    async fn reset(&self, id: &str) -> Result<(), Error> {
        self.note(Deed::Disturbed { id: id.to_owned() });
        self.change(id, |_, _| ())
    }

    async fn pause(&self, id: &str) -> Result<(), Error> {
        self.note(Deed::Disturbed { id: id.to_owned() });
        self.change(id, |_, state| *state = State::Paused(Pause::Asked))
    }

    async fn resume(&self, id: &str) -> Result<(), Error> {
        self.note(Deed::Disturbed { id: id.to_owned() });
        self.change(id, |_, state| *state = State::Running)
    }

    async fn attach(&self, id: &str, disk: &Disk) -> Result<(), Error> {
        self.change(id, |machine, _| {
            if !machine.disks.iter().any(|one| one.name == disk.name) {
                machine.disks.push(disk.clone());
            }
        })
    }

    async fn detach(&self, id: &str, disk: &str) -> Result<(), Error> {
        self.change(id, |machine, _| machine.disks.retain(|one| one.name != disk))
    }

    async fn attach_interface(&self, id: &str, interface: &Interface) -> Result<(), Error> {
        self.change(id, |machine, _| {
            if !machine.interfaces.iter().any(|one| one.name == interface.name) {
                machine.interfaces.push(interface.clone());
            }
        })
    }

    async fn detach_interface(&self, id: &str, interface: &str) -> Result<(), Error> {
        self.change(id, |machine, _| machine.interfaces.retain(|one| one.name != interface))
    }

    async fn interfaces(&self, id: &str) -> Result<Vec<String>, Error> {
        self.change(id, |machine, _| {
            machine.interfaces.iter().map(|one| one.name.clone()).collect()
        })
    }

    async fn add_processors(&self, id: &str, count: u32) -> Result<(), Error> {
        self.change(id, |machine, _| machine.processors = machine.processors.max(count))
    }

    async fn resize(&self, id: &str, _: &str, _: u64) -> Result<(), Error> {
        self.change(id, |_, _| ())
    }

    async fn disk_bytes(&self, id: &str, disk: &str) -> Result<u64, Error> {
        let file = self.change(id, |machine, _| {
            let found = machine.disks.iter().find(|one| one.name == disk);
            found.map(|one| one.file.clone())
        })?;
        let none = || Error::Invalid(format!("the machine has no disk {disk}"));
        Ok(std::fs::metadata(file.ok_or_else(none)?).map_or(0, |found| found.len()))
    }

    async fn copy(&self, id: &str, _: &[Copied], memory: Option<&Path>) -> Result<Quiet, Error> {
        self.change(id, |_, _| if memory.is_some() { Quiet::Kept } else { Quiet::Unasked })
    }

    async fn serial(&self, id: &str) -> Result<Box<dyn Connection>, Error> {
        self.change(id, |_, _| silence())
    }

    async fn screen(&self, id: &str, _: Others) -> Result<Box<dyn Connection>, Error> {
        self.change(id, |_, _| silence())
    }

    async fn dial(&self, id: &str, _: u16) -> Result<Box<dyn Connection>, Error> {
        self.change(id, |_, _| silence())
    }

    async fn open_ports(
        &self,
        id: &str,
        at: Ipv4Addr,
        ports: &BTreeSet<Port>,
    ) -> Result<Opened, Error> {
        self.change(id, |_, _| {
            let mut all = lock(&self.ports);
            let own = all.entry(id.to_owned()).or_default();
            own.extend(ports.iter().map(|port| (at, *port)));
            // It is open under its own number: nobody listens, so that nobody is in the way.
            let at = ports.iter().map(|port| (*port, port.number)).collect();
            Opened { at, refused: BTreeMap::new() }
        })
    }

    async fn close_other_ports(
        &self,
        id: &str,
        at: Ipv4Addr,
        ports: &BTreeSet<Port>,
    ) -> Result<(), Error> {
        self.change(id, |_, _| {
            if let Some(own) = lock(&self.ports).get_mut(id) {
                own.retain(|(address, port)| *address == at && ports.contains(port));
            }
        })
    }

    async fn figures(&self, id: &str) -> Result<Figures, Error> {
        self.change(id, |_, _| Figures::default())
    }

    async fn guest(&self, id: &str) -> Result<Option<Guest>, Error> {
        self.change(id, |_, _| None)
    }

    async fn kind(&self) -> Kind {
        Kind::Simulated
    }

    /// The newest counts: what is simulated outlives whoever listens.
    fn listen(&self, listener: Listener) {
        *lock(&self.listener) = Some(listener);
    }
}
