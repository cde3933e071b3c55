//! A watch: replays what happened after a revision, then follows, without gap or duplicate.
//!
//! It holds a position, not a queue. The watcher that does not keep up is ended when the changes
//! it has not read are dropped; it is never served a gap.

use std::collections::VecDeque;
use std::sync::Arc;

use tokio::sync::watch;

use crate::replica::Backend;
use crate::state::Since;
use crate::topics::{Interest, Scope};
use crate::{Batch, Error, KeyRange, Revision};

/// A stream of changes.
pub struct Watch {
    backend: Arc<dyn Backend>,
    scope: Scope,
    /// Changes when something happens that is to be told.
    heads: watch::Receiver<Revision>,
    /// Everything up to here has been handed out.
    position: Revision,
    /// Taken but not handed out yet; bounded by what one look takes.
    taken: VecDeque<Arc<Batch>>,
    /// Where the position goes when `taken` is empty.
    through: Revision,
    visit: Option<Visit>,
}

/// Looks at every batch before it is handed out; a failure ends the watch.
pub type Visit = Arc<dyn Fn(&Batch) -> Result<(), Error> + Send + Sync>;

impl Watch {
    pub(crate) fn new(
        backend: Arc<dyn Backend>,
        range: KeyRange,
        after: Revision,
    ) -> Result<Watch, Error> {
        // A revision that is gone is an error now, not at the first change.
        backend.state().since(after, &range)?;
        let scope = Scope::whole(range);
        let heads = backend.state().join(&scope);
        let taken = VecDeque::new();
        Ok(Watch { backend, scope, heads, position: after, taken, through: after, visit: None })
    }

    /// The same watch, with somebody who looks at every batch first.
    pub fn visited(mut self, visit: Visit) -> Watch {
        self.visit = Some(visit);
        self
    }

    /// The same watch for one who wants only what some entries are told of: it sleeps while others
    /// change. What has happened before now comes whole.
    pub fn narrowed(mut self, interest: Interest) -> Watch {
        let narrow = Scope { range: self.scope.range.clone(), interest: Some(interest) };
        self.heads = self.backend.state().join(&narrow);
        self.backend.state().leave(&self.scope);
        self.scope = narrow;
        self
    }

    /// The next revision with changes in the range, with all of them.
    ///
    /// Can be dropped and called again without losing anything. After an error the watch is over:
    /// the same error comes again, or the caller relists.
    pub async fn next(&mut self) -> Result<Arc<Batch>, Error> {
        loop {
            if let Some(batch) = self.taken.pop_front() {
                assert!(batch.revision > self.position, "a watch must not go back");
                if let Some(visit) = &self.visit {
                    visit(&batch)?;
                }
                self.position = batch.revision;
                return Ok(batch);
            }
            self.position = self.through;
            self.heads.mark_unchanged();
            self.take().await?;
            if self.taken.is_empty() && self.through == self.position {
                // The sender lives as long as the state that the backend holds.
                self.heads.changed().await.map_err(|_| closed())?;
            }
        }
    }

    /// A bookmark: no change at or before it will come any more.
    pub fn position(&self) -> Revision {
        if !self.taken.is_empty() {
            return self.position;
        }
        // Nobody wakes a watch for what happens elsewhere, so look how far that went.
        match self.backend.state().follow(self.through, &self.scope) {
            Ok(Since::Recent { batches, through }) if batches.is_empty() => through,
            _ => self.through,
        }
    }

    async fn take(&mut self) -> Result<(), Error> {
        let (batches, through) = match self.backend.state().follow(self.position, &self.scope)? {
            Since::Recent { batches, through } => (batches, through),
            Since::Older { base } => {
                let changes = self.backend.older(&self.scope.range, self.position, base).await?;
                (changes.batches, changes.through)
            }
        };
        self.taken = batches.into();
        self.through = through;
        Ok(())
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.backend.state().leave(&self.scope);
    }
}

fn closed() -> Error {
    Error::Stopped { reason: "it was closed".into() }
}
