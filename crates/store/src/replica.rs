//! The store every backend is: reads, watches and history over the shared state, once for all.
//!
//! A backend adds what differs: how a commit becomes durable, how commits of other processes
//! arrive, and where changes are found that are too old to be kept in memory.

use std::sync::Arc;

use async_trait::async_trait;

use crate::state::{Past, Since, State, View};
use crate::{
    Changes, Commit, Committed, Entry, Error, Key, KeyRange, Page, PageRequest, Revision, Store,
    Watch,
};

/// What differs between backends.
#[async_trait]
pub(crate) trait Backend: Send + Sync + 'static {
    fn state(&self) -> &State;

    /// Returns when the state holds every commit that was acknowledged, in any process, before the
    /// call.
    async fn catch_up(&self) -> Result<(), Error>;

    /// Makes a valid commit durable and visible in the state, or leaves no trace of it.
    async fn commit(&self, commit: Commit) -> Result<Committed, Error>;

    /// Forgets durably; the state too.
    async fn compact(&self, before: Revision) -> Result<(), Error>;

    /// Changes from the durable history, with what was there before each. `to` is at most the
    /// oldest revision the state can still reconstruct.
    async fn older(
        &self,
        range: &KeyRange,
        after: Revision,
        to: Revision,
    ) -> Result<Changes, Error>;

    fn health(&self) -> Result<(), Error>;

    async fn close(&self);
}

/// A store over a backend.
pub(crate) struct Replica {
    backend: Arc<dyn Backend>,
}

impl Replica {
    pub fn new(backend: Arc<dyn Backend>) -> Replica {
        Replica { backend }
    }

    fn state(&self) -> &State {
        self.backend.state()
    }

    async fn view(&self, range: &KeyRange, at: Option<Revision>) -> Result<View, Error> {
        let Some(at) = at else {
            self.backend.catch_up().await?;
            return Ok(self.state().live());
        };
        if at > self.state().head() {
            // Another process may be ahead of us.
            self.backend.catch_up().await?;
        }
        loop {
            let (mut view, base) = match self.state().at(at, range)? {
                Past::Known(view) => return Ok(view),
                Past::Older { view, base } => (view, base),
            };
            let mut batches = Vec::new();
            let mut through = at;
            while through < base {
                let changes = self.backend.older(range, through, base).await?;
                assert!(changes.through > through, "history must advance");
                through = changes.through;
                batches.extend(changes.batches);
            }
            // A compaction meanwhile may have taken away part of what was just read.
            if at < self.state().compacted() {
                let oldest = self.state().compacted();
                return Err(Error::Compacted { requested: at, oldest });
            }
            // Churn that the view still has may be missing among the changes: from where it is
            // missing on, both are without it.
            if self.state().thinned() > base {
                continue;
            }
            view.undo(&batches, range);
            view.revision = at;
            return Ok(view);
        }
    }
}

#[async_trait]
impl Store for Replica {
    async fn get(&self, key: &Key, at: Option<Revision>) -> Result<Option<Arc<Entry>>, Error> {
        let view = self.view(&KeyRange::single(key), at).await?;
        Ok(view.get(key))
    }

    async fn list(
        &self,
        range: &KeyRange,
        page: PageRequest,
        at: Option<Revision>,
    ) -> Result<Page, Error> {
        let view = self.view(range, at).await?;
        Ok(view.list(range, &page))
    }

    async fn commit(&self, commit: Commit) -> Result<Committed, Error> {
        commit.validate()?;
        self.health()?;
        self.backend.commit(commit).await
    }

    async fn watch(&self, range: KeyRange, after: Revision) -> Result<Watch, Error> {
        Watch::new(self.backend.clone(), range, after)
    }

    async fn changes(
        &self,
        range: &KeyRange,
        after: Revision,
        to: Revision,
    ) -> Result<Changes, Error> {
        if to > self.state().head() {
            self.backend.catch_up().await?;
        }
        let newest = self.state().head();
        if to > newest {
            return Err(Error::Future { requested: to, newest });
        }
        let changes = match self.state().since(after, range)? {
            Since::Older { base } => self.backend.older(range, after, base.min(to)).await?,
            Since::Recent { batches, through } => Changes { batches, through },
        };
        Ok(changes.up_to(to))
    }

    async fn compact(&self, before: Revision) -> Result<(), Error> {
        if before > self.state().head() {
            self.backend.catch_up().await?;
        }
        let newest = self.state().head();
        if before > newest {
            return Err(Error::Future { requested: before, newest });
        }
        if before <= self.state().compacted() {
            return Ok(());
        }
        self.backend.compact(before).await
    }

    fn revision(&self) -> Revision {
        self.state().head()
    }

    fn compacted(&self) -> Revision {
        self.state().compacted()
    }

    fn health(&self) -> Result<(), Error> {
        if self.state().is_closed() {
            return Err(Error::Stopped { reason: "it was closed".into() });
        }
        self.backend.health()
    }

    async fn close(&self) {
        self.backend.close().await;
        self.state().close();
    }
}

impl Changes {
    /// The same stretch, ended earlier.
    fn up_to(mut self, to: Revision) -> Changes {
        self.batches.retain(|batch| batch.revision <= to);
        self.through = self.through.min(to);
        self
    }
}
