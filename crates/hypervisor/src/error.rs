//! What can go wrong, said for people.

use std::io;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("could not {doing}")]
    Io {
        doing: String,
        #[source]
        source: io::Error,
    },
    #[error("machine {id} already runs")]
    AlreadyRuns { id: String },
    #[error("machine {id} does not run")]
    NotRunning { id: String },
    #[error("{program} is not installed: the package {package} has it")]
    NotInstalled { program: &'static str, package: &'static str },
    #[error("the machine did not start: {said}")]
    DidNotStart { said: String },
    #[error("{command} was refused: {said}")]
    Refused { command: String, said: String },
    #[error("{command} was not answered")]
    NotAnswered { command: String },
    #[error("{0}")]
    Invalid(String),
    #[error("{0}")]
    Image(#[from] crate::images::Fault),
}

impl Error {
    pub fn io(doing: impl Into<String>) -> impl FnOnce(io::Error) -> Error {
        let doing = doing.into();
        |source| Error::Io { doing, source }
    }

    /// The error with what caused it, in one line.
    pub fn chain(&self) -> String {
        match self {
            Error::Io { doing, source } => format!("could not {doing}: {source}"),
            other => other.to_string(),
        }
    }
}
