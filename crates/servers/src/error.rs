//! What can go wrong with a test server, said so that the reader knows what to do next.

use std::fmt;
use std::io;
use std::time::Duration;

/// Why a server, a port or a proxy could not be had.
pub enum Error {
    /// The program is not installed.
    ProgramMissing { program: &'static str, package: &'static str },
    /// The server ended, or did not answer in time; `log_tail` is the end of what it wrote.
    DidNotStart { server: &'static str, reason: String, log_tail: String },
    /// A client library could not be installed; `said` is what the installer wrote.
    DidNotInstall { command: String, said: String },
    /// The server went on running after it was asked to stop, and was killed.
    DidNotStop { server: &'static str, waited: Duration },
    /// Every port that we tried was taken.
    NoFreePort { tried: u32 },
    /// An environment variable names a server in a form that we cannot read.
    BadAddress { variable: &'static str, value: String, expected: &'static str },
    /// The operating system refused something.
    Io { doing: String, source: io::Error },
}

impl Error {
    /// For `map_err`: names what we were doing.
    pub(crate) fn io(doing: impl Into<String>) -> impl FnOnce(io::Error) -> Error {
        let doing = doing.into();
        move |source| Error::Io { doing, source }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::ProgramMissing { program, package } => write!(
                f,
                "`{program}` is not installed: the Debian package {package} provides it, and \
                 `cargo xtask test` installs it"
            ),
            Error::DidNotStart { server, reason, log_tail } => {
                write!(f, "{server} did not start: {reason}")?;
                match log_tail.is_empty() {
                    true => write!(f, "; it wrote no log"),
                    false => write!(f, "; the end of its log:\n{log_tail}"),
                }
            }
            Error::DidNotInstall { command, said } => {
                write!(f, "{command} failed; is the registry reachable? It said:\n{said}")
            }
            Error::DidNotStop { server, waited } => write!(
                f,
                "{server} did not stop within {} s of SIGTERM and was killed",
                waited.as_secs()
            ),
            Error::NoFreePort { tried } => {
                write!(f, "none of {tried} loopback ports is free; are old servers still running?")
            }
            Error::BadAddress { variable, value, expected } => {
                write!(f, "{variable} is `{value}`, which is not {expected}; correct or unset it")
            }
            Error::Io { doing, source: _ } => write!(f, "could not {doing}"),
        }
    }
}

/// The same words as `Display`: tests unwrap, and what to do must be in what they print.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Io { source, .. } => write!(f, "{self}: {source}"),
            _ => write!(f, "{self}"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Io { source, .. } => Some(source),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_program_names_its_package_and_the_command_that_installs_it() {
        let error = Error::ProgramMissing { program: "etcd", package: "etcd-server" };
        assert_eq!(
            error.to_string(),
            "`etcd` is not installed: the Debian package etcd-server provides it, and \
             `cargo xtask test` installs it"
        );
    }
}
