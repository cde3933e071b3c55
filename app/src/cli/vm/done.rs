//! What was done, or asked for: a line for people, an object for programs.

use std::fmt;

use serde::Serialize;

/// Something that was asked of a machine.
#[derive(Serialize)]
pub struct Done {
    pub name: String,
    /// Such as `start`.
    pub action: &'static str,
    pub state: State,
    /// What else people should know.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub note: String,
}

/// How far it is.
#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// It comes.
    Asked,
    Done,
}

impl Done {
    pub fn new(name: impl Into<String>, action: &'static str, state: State) -> Done {
        Done { name: name.into(), action, state, note: String::new() }
    }
}

impl fmt::Display for Done {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Done { name, action, state, note } = self;
        match state {
            State::Asked => write!(formatter, "{name}: {action} was asked for")?,
            State::Done => write!(formatter, "{name}: {action} is done")?,
        }
        if !note.is_empty() {
            write!(formatter, "; {note}")?;
        }
        Ok(())
    }
}

/// Where something of a machine can be reached on this one.
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
