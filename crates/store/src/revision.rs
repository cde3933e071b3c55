//! Revisions: the store's only notion of order.

use std::fmt;

/// The position of a commit in the total order. Zero is the empty store.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct Revision(pub u64);

impl Revision {
    pub const ZERO: Revision = Revision(0);

    pub fn next(self) -> Revision {
        Revision(self.0 + 1)
    }

    /// The revision before this one; zero has none and stays.
    pub fn before(self) -> Revision {
        Revision(self.0.saturating_sub(1))
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}
