//! Results of the commands on machines: a line for people, an object for programs.

use std::fmt;

use serde::Serialize;

/// An action on a machine.
#[derive(Serialize)]
pub struct Done {
    pub name: String,
    /// Such as `start`.
    pub action: &'static str,
    pub state: State,
    /// Remark for people.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub note: String,
}

/// Progress of an action.
#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// The server accepted it; controllers perform it.
    #[serde(rename = "asked")]
    Requested,
    Done,
}

impl Done {
    pub fn new(name: impl Into<String>, action: &'static str, state: State) -> Done {
        Done { name: name.into(), action, state, note: String::new() }
    }
}

impl fmt::Display for Done {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Done { name, action, note, .. } = self;
        match *action {
            "create" | "clone" => write!(formatter, "machine {name} created")?,
            "delete" => write!(formatter, "machine {name} deleted")?,
            "start" => write!(formatter, "machine {name} starting")?,
            "stop" => write!(formatter, "machine {name} stopping")?,
            "restart" => write!(formatter, "machine {name} restarting")?,
            "pause" => write!(formatter, "machine {name} paused")?,
            "unpause" => write!(formatter, "machine {name} resumed")?,
            "snapshot" => write!(formatter, "snapshot {name} created")?,
            action => write!(formatter, "machine {name} {action}")?,
        }
        if !note.is_empty() {
            write!(formatter, "; {note}")?;
        }
        Ok(())
    }
}

/// Local address of a machine's screen or port.
#[derive(Serialize)]
pub struct Reached {
    pub name: String,
    /// `vnc`, or a port of the machine.
    pub what: String,
    pub address: String,
}

impl fmt::Display for Reached {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Reached { name, what, address } = self;
        match what.as_str() {
            "vnc" => write!(formatter, "the screen of {name} is at {address}; Ctrl-C ends"),
            port => write!(formatter, "{address} -> {name}:{port}"),
        }
    }
}
