//! The store that is gone when the process is: for tests, simulation and throw-away clusters.

use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;

use crate::record::Record;
use crate::replica::{Backend, Replica};
use crate::sequence::Sequence;
use crate::state::{Start, State};
use crate::tasks::Tasks;
use crate::tree::Tree;
use crate::{Changes, Commit, Committed, Environment, Error, KeyRange, Retention, Revision, Store};

/// Opens an empty store.
pub fn open(retention: Retention, environment: Arc<dyn Environment>) -> Arc<dyn Store> {
    let start = Start {
        tree: Tree::default(),
        head: Revision::ZERO,
        compacted: Revision::ZERO,
        recent: Vec::new(),
        base: Revision::ZERO,
    };
    // There is no other history than the recent changes.
    let state = State::new(start, retention.bytes_max);
    let memory = Arc::new(Memory { state, sequence: Mutex::default(), tasks: Tasks::default() });
    if tokio::runtime::Handle::try_current().is_ok() {
        let forget = forget_old(Arc::downgrade(&memory), retention, environment);
        memory.tasks.spawn("retention", forget);
    }
    Arc::new(Replica::new(memory))
}

struct Memory {
    state: State,
    sequence: Mutex<Sequence>,
    tasks: Tasks,
}

#[async_trait]
impl Backend for Memory {
    fn state(&self) -> &State {
        &self.state
    }

    async fn catch_up(&self) -> Result<(), Error> {
        Ok(())
    }

    async fn commit(&self, commit: Commit) -> Result<Committed, Error> {
        let mut sequence = self.sequence.lock().unwrap_or_else(PoisonError::into_inner);
        sequence.admit(&commit)?;
        let revision = sequence.head.next();
        let batch = sequence.perform(Record::of(commit, revision));
        // Published under the lock: the order of revisions is the order of publication.
        self.state.publish(sequence.tree.clone(), [Arc::new(batch)]);
        self.state.compact_to_recent();
        Ok(Committed { revision })
    }

    async fn compact(&self, before: Revision) -> Result<(), Error> {
        self.state.compact(before);
        Ok(())
    }

    async fn older(
        &self,
        _range: &KeyRange,
        after: Revision,
        _to: Revision,
    ) -> Result<Changes, Error> {
        Err(Error::Compacted { requested: after.next(), oldest: self.state.compacted() })
    }

    fn health(&self) -> Result<(), Error> {
        Ok(())
    }

    async fn close(&self) {
        self.tasks.stop().await;
    }
}

async fn forget_old(
    memory: std::sync::Weak<Memory>,
    retention: Retention,
    environment: Arc<dyn Environment>,
) {
    let mut thinned = Revision::ZERO;
    loop {
        tokio::time::sleep(retention.interval).await;
        let Some(memory) = memory.upgrade() else { return };
        if let Some(thinning) = &retention.thinning {
            let before = thinning.until(environment.now());
            thinned = memory.state.thin_recent(thinned, before, thinning);
        }
        let oldest = environment.now().minus(retention.age_max);
        if let Some(revision) = memory.state.newest_before(oldest) {
            memory.state.compact(revision.next().min(memory.state.head()));
        }
    }
}
