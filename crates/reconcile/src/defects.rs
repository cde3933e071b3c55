//! Defects that are planted on purpose, to show that the simulation finds them.
//!
//! Each is a cargo feature and is not in any program: without the features nothing of this is
//! built. Where several are built, `SETPOINT_DEFECT` chooses one.

/// What can be planted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Defect {
    /// Deletes go by name alone.
    DeleteWithoutUid,
    /// A reconcile starts from whatever the caches hold.
    NoReadYourWrites,
    /// A status is written whether it differs or not.
    StatusEveryTime,
    /// Children have other names each time.
    RandomChildNames,
    /// A write whose answer was lost counts as done.
    IgnoreLostAnswer,
    /// What failed is not tried again.
    ForgetFailures,
    /// What failed is tried again at once.
    NoBackoff,
    /// A server that asks for time does not get it.
    IgnoreRetryAfter,
    /// Writes of a leader do not say in which term.
    NoTerm,
    /// A cache takes a list that is older than what it holds.
    TravelBack,
    /// A watch that is too old is begun again where it was.
    NoRelist,
    /// What went unseen stays in the cache.
    KeepWhatWent,
}

/// Whether the code at hand is to be wrong.
#[cfg(not(feature = "defects"))]
pub(crate) const fn is_planted(_: Defect) -> bool {
    false
}

#[cfg(feature = "defects")]
pub(crate) fn is_planted(defect: Defect) -> bool {
    use std::sync::OnceLock;

    static CHOSEN: OnceLock<Option<String>> = OnceLock::new();
    let chosen = CHOSEN.get_or_init(|| std::env::var("SETPOINT_DEFECT").ok());
    let (name, is_built) = built(defect);
    is_built && chosen.as_ref().is_none_or(|chosen| chosen == name)
}

#[cfg(feature = "defects")]
const fn built(defect: Defect) -> (&'static str, bool) {
    match defect {
        Defect::DeleteWithoutUid => {
            ("delete-without-uid", cfg!(feature = "defect-delete-without-uid"))
        }
        Defect::NoReadYourWrites => {
            ("no-read-your-writes", cfg!(feature = "defect-no-read-your-writes"))
        }
        Defect::StatusEveryTime => {
            ("status-every-time", cfg!(feature = "defect-status-every-time"))
        }
        Defect::RandomChildNames => {
            ("random-child-names", cfg!(feature = "defect-random-child-names"))
        }
        Defect::IgnoreLostAnswer => {
            ("ignore-lost-answer", cfg!(feature = "defect-ignore-lost-answer"))
        }
        Defect::ForgetFailures => ("forget-failures", cfg!(feature = "defect-forget-failures")),
        Defect::NoBackoff => ("no-backoff", cfg!(feature = "defect-no-backoff")),
        Defect::IgnoreRetryAfter => {
            ("ignore-retry-after", cfg!(feature = "defect-ignore-retry-after"))
        }
        Defect::NoTerm => ("no-term", cfg!(feature = "defect-no-term")),
        Defect::TravelBack => ("travel-back", cfg!(feature = "defect-travel-back")),
        Defect::NoRelist => ("no-relist", cfg!(feature = "defect-no-relist")),
        Defect::KeepWhatWent => ("keep-what-went", cfg!(feature = "defect-keep-what-went")),
    }
}
