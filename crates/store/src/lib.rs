//! An ordered map of keys to bytes in which every change gets the next revision.
//!
//! This is the ground state of the system; everything else can be derived from it again. The crate
//! knows nothing of Kubernetes. Read [`Store`] first, then `replica.rs` (the reads every backend
//! shares), then one backend.

mod change;
mod derived;
mod environment;
mod error;
mod key;
mod page;
mod provenance;
mod record;
mod replica;
mod retention;
mod revision;
mod sequence;
mod state;
mod tasks;
mod thinning;
mod topics;
mod tree;
mod watch;

pub mod backends;
#[cfg(feature = "testing")]
pub mod contract;

use async_trait::async_trait;

pub use change::{Batch, Change, Changes, Commit, Committed, Entry, Epoch};
pub use change::{COMMIT_BYTES_MAX, COMMIT_OPERATIONS_MAX, VALUE_BYTES_MAX};
pub use change::{Mutation, Operation, Precondition};
pub use derived::Derived;
pub use environment::{Environment, System};
pub use error::Error;
pub use key::{KEY_BYTES_MAX, Key, KeyRange};
pub use page::{PAGE_ENTRIES_MAX, Page, PageRequest};
pub use provenance::{Provenance, Timestamp};
pub use retention::Retention;
pub use revision::Revision;
pub use thinning::Thinning;
pub use topics::{Facet, Interest};
pub use watch::{Visit, Watch};

/// An ordered map in which every change gets the next revision.
///
/// # Guarantees
///
/// 1. Commits are totally ordered: each successful commit has a revision of its own, larger than
///    that of every commit that was acknowledged before it began, in any process on the store.
/// 2. A commit is whole or absent, also when its caller is dropped, the process is killed or the
///    machine loses power. What was acknowledged is never lost.
/// 3. A watch after `r` sees every later change in its range once, in order, all changes of one
///    revision together, or it ends with [`Error::Compacted`]. There is never a gap.
/// 4. A page names the revision it was read at and can be continued at that revision. It is not
///    older than any commit acknowledged before the call began.
/// 5. `compact(c)` leaves the state at `c` and later, and the changes from `c` on, as they were.
///    What is older answers [`Error::Compacted`], never a part of the truth.
/// 6. Where [`Retention::thinning`] is given, changes that are old enough and churn may be missing,
///    if a later one of the same key is there: a watch that begins among them is told of both as
///    one.
/// 7. Every method except [`Store::commit`] can be dropped and called again without effect.
///
/// # Assumptions
///
/// A disk keeps what a completed sync wrote; a database server keeps what it acknowledged. Other
/// programs may write below the same etcd prefix, but not into our MySQL tables or our directory.
///
/// # Errors
///
/// [`Error::is_terminal`] says whether the same call can succeed later.
/// [`Error::OutcomeUnknown`] is the only answer after which a commit may or may not have happened;
/// the backends read back before they give it.
#[async_trait]
pub trait Store: Send + Sync + 'static {
    /// The entry under `key`, now or as it was at a revision.
    async fn get(
        &self,
        key: &Key,
        at: Option<Revision>,
    ) -> Result<Option<std::sync::Arc<Entry>>, Error>;

    /// Entries of a range in key order, now or as they were at a revision.
    async fn list(
        &self,
        range: &KeyRange,
        page: PageRequest,
        at: Option<Revision>,
    ) -> Result<Page, Error>;

    /// Performs all operations in one revision, or none.
    async fn commit(&self, commit: Commit) -> Result<Committed, Error>;

    /// Every change of the range after a revision, then those to come.
    async fn watch(&self, range: KeyRange, after: Revision) -> Result<Watch, Error>;

    /// The changes of the range after one revision, up to and including another.
    ///
    /// The answer may stop early; it says how far it goes, and the caller asks again from there.
    async fn changes(
        &self,
        range: &KeyRange,
        after: Revision,
        to: Revision,
    ) -> Result<Changes, Error>;

    /// Forgets the history before a revision. Going backwards does nothing.
    async fn compact(&self, before: Revision) -> Result<(), Error>;

    /// The newest revision this process knows.
    fn revision(&self) -> Revision;

    /// The oldest revision that can still be read.
    fn compacted(&self) -> Revision;

    /// Whether commits are possible, and if not, why.
    fn health(&self) -> Result<(), Error>;

    /// Ends watches and background work. Later commits answer [`Error::Stopped`].
    async fn close(&self);
}
