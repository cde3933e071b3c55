//! Why a look came to nothing.

use std::time::Duration;

use reconcile::Error;

#[derive(Debug)]
pub enum Failure {
    /// What there is does not allow it; whoever asked for it is told.
    Because(String),
    /// The server could not be asked, or refused: nothing is known of what was looked at.
    Server(Error),
}

impl Failure {
    pub fn said(&self) -> String {
        match self {
            Failure::Because(why) => why.clone(),
            Failure::Server(error) => error.said(),
        }
    }

    /// How long the server asked to be left alone.
    pub fn retry_after(&self) -> Duration {
        match self {
            Failure::Because(_) => Duration::ZERO,
            Failure::Server(error) => error.retry_after().unwrap_or_default(),
        }
    }
}

impl From<String> for Failure {
    fn from(why: String) -> Failure {
        Failure::Because(why)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::Server(error)
    }
}
