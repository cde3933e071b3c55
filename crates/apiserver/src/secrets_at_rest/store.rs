//! A store that seals Secrets on their way in, and opens them once on their way out.
//!
//! What is opened is kept on the store's entry, where every reader looks first: a Secret is
//! decrypted by the first who reads it, and the reading code knows nothing of it. A Secret that
//! was written before sealing was turned on is read as it is, and sealed when it is next written.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use store::{
    Batch, Changes, Commit, Committed, Entry, Error, Key, KeyRange, Mutation, Page, PageRequest,
    Revision, Store, Visit, Watch,
};

use super::{Plain, Sealer, is_sealed};
use crate::persist::Stored;

/// Where Secrets are in the store.
pub const PREFIX: &str = "secrets/";
/// How many Secrets are looked at to tell whether the keys are the right ones.
const PROBE: usize = 64;

pub struct SealedStore {
    inner: Arc<dyn Store>,
    sealer: Arc<Sealer>,
    visit: Visit,
}

impl SealedStore {
    pub fn new(inner: Arc<dyn Store>, sealer: Sealer) -> SealedStore {
        let sealer = Arc::new(sealer);
        let opener = sealer.clone();
        let visit: Visit = Arc::new(move |batch: &Batch| {
            for change in &batch.changes {
                for entry in change.entry.iter().chain(&change.previous) {
                    open(&opener, entry)?;
                }
            }
            Ok(())
        });
        SealedStore { inner, sealer, visit }
    }

    /// Fails if there are Secrets that the keys do not open.
    pub async fn probe(&self) -> Result<(), Error> {
        let range = KeyRange::prefix(PREFIX);
        let page = self.inner.list(&range, PageRequest::first(PROBE), None).await?;
        let mut sealed = page.entries.iter().filter(|entry| is_sealed(&entry.value));
        sealed.try_for_each(|entry| opened(&self.sealer, entry).map(|_| ()))
    }

    fn seal(&self, key: &Key, value: &Bytes) -> Result<Bytes, Error> {
        let sealed = self.sealer.seal(key.as_str(), value);
        sealed.map(Bytes::from).map_err(|error| Error::Invalid { what: error.to_string() })
    }
}

/// Whether any Secret of the store is sealed.
pub async fn has_sealed(store: &dyn Store) -> Result<bool, Error> {
    let range = KeyRange::prefix(PREFIX);
    let page = store.list(&range, PageRequest::first(PROBE), None).await?;
    Ok(page.entries.iter().any(|entry| is_sealed(&entry.value)))
}

/// Puts what a sealed entry holds where readers look for it.
fn open(sealer: &Sealer, entry: &Entry) -> Result<(), Error> {
    let is_ours = entry.key.as_str().starts_with(PREFIX) && is_sealed(&entry.value);
    if !is_ours || entry.derived.get::<Stored>().is_some() {
        return Ok(());
    }
    let value = opened(sealer, entry)?;
    entry.derived.get_or_make(|| Stored::read(&value));
    Ok(())
}

fn opened(sealer: &Sealer, entry: &Entry) -> Result<Bytes, Error> {
    let opened = sealer.open(entry.key.as_str(), &entry.value, Plain::Refused);
    opened.map(Bytes::from).map_err(|error| {
        let why = format!("{error}; {}", error.remedy());
        Error::Unreadable { key: entry.key.clone(), why }
    })
}

#[async_trait]
impl Store for SealedStore {
    async fn get(&self, key: &Key, at: Option<Revision>) -> Result<Option<Arc<Entry>>, Error> {
        let entry = self.inner.get(key, at).await?;
        if let Some(entry) = &entry {
            open(&self.sealer, entry)?;
        }
        Ok(entry)
    }

    async fn list(
        &self,
        range: &KeyRange,
        page: PageRequest,
        at: Option<Revision>,
    ) -> Result<Page, Error> {
        let page = self.inner.list(range, page, at).await?;
        // Entries are in order: the Secrets among them are one stretch.
        let start = page.entries.partition_point(|entry| entry.key.as_str() < PREFIX);
        let rest = page.entries[start..].iter();
        for entry in rest.take_while(|entry| entry.key.as_str().starts_with(PREFIX)) {
            open(&self.sealer, entry)?;
        }
        Ok(page)
    }

    async fn commit(&self, mut commit: Commit) -> Result<Committed, Error> {
        for operation in &mut commit.operations {
            if let Mutation::Put(value) = &operation.mutation
                && operation.key.as_str().starts_with(PREFIX)
            {
                operation.mutation = Mutation::Put(self.seal(&operation.key, value)?);
            }
        }
        self.inner.commit(commit).await
    }

    async fn watch(&self, range: KeyRange, after: Revision) -> Result<Watch, Error> {
        Ok(self.inner.watch(range, after).await?.visited(self.visit.clone()))
    }

    async fn changes(
        &self,
        range: &KeyRange,
        after: Revision,
        to: Revision,
    ) -> Result<Changes, Error> {
        let changes = self.inner.changes(range, after, to).await?;
        for batch in &changes.batches {
            (self.visit)(batch)?;
        }
        Ok(changes)
    }

    async fn compact(&self, before: Revision) -> Result<(), Error> {
        self.inner.compact(before).await
    }

    fn revision(&self) -> Revision {
        self.inner.revision()
    }

    fn compacted(&self) -> Revision {
        self.inner.compacted()
    }

    fn health(&self) -> Result<(), Error> {
        self.inner.health()
    }

    async fn close(&self) {
        self.inner.close().await;
    }
}
