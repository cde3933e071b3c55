//! Who wrote, why and when: kept with every commit, so that history and causes can be read later.

use std::sync::Arc;

use crate::Error;
use crate::Revision;

/// The longest text in a provenance.
pub const PROVENANCE_TEXT_BYTES_MAX: usize = 1_024;

/// Microseconds since 1970-01-01 UTC.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct Timestamp(pub i64);

impl Timestamp {
    /// This time less a duration; saturates.
    pub fn minus(self, duration: std::time::Duration) -> Timestamp {
        let micros = i64::try_from(duration.as_micros()).unwrap_or(i64::MAX);
        Timestamp(self.0.saturating_sub(micros))
    }
}

/// Where a commit comes from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Provenance {
    pub time: Timestamp,
    /// The user or component on whose behalf the write was made.
    pub actor: Arc<str>,
    /// The field manager, or empty.
    pub manager: Arc<str>,
    /// The id of the request, or empty.
    pub request: Arc<str>,
    /// The revision whose change caused this write, when a controller reacted to one.
    pub cause: Option<Revision>,
    /// The reconcile that wrote, or empty.
    pub reconcile: Arc<str>,
}

impl Provenance {
    /// A provenance that names only the time and the actor.
    pub fn of(time: Timestamp, actor: impl Into<Arc<str>>) -> Provenance {
        let empty: Arc<str> = "".into();
        Provenance {
            time,
            actor: actor.into(),
            manager: empty.clone(),
            request: empty.clone(),
            cause: None,
            reconcile: empty,
        }
    }

    pub(crate) fn validate(&self) -> Result<(), Error> {
        let texts = [&self.actor, &self.manager, &self.request, &self.reconcile];
        let longest = texts.iter().map(|text| text.len()).max().unwrap_or(0);
        if longest > PROVENANCE_TEXT_BYTES_MAX {
            let max = PROVENANCE_TEXT_BYTES_MAX;
            return Err(Error::TooLarge { what: "provenance", bytes: longest, max });
        }
        Ok(())
    }
}
