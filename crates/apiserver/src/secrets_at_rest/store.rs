//! A store that encrypts objects of confidential kinds (`kinds.rs`) on write, and decrypts them
//! once on read.
//!
//! The decrypted object is kept on the store's entry, where every reader looks first: the first
//! reader decrypts it, and the reading code knows nothing of it. An object that was written before
//! its kind was confidential is read as it is, and encrypted at the next write or start.

use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use store::{
    Batch, Changes, Commit, Committed, Entry, Error, Key, KeyRange, Mutation, Operation, Page,
    PageRequest, Precondition, Provenance, Revision, Store, Timestamp, Visit, Watch,
};

use super::kinds::{CONFIDENTIAL_KINDS, is_confidential_key};
use super::{Plain, Sealer, is_sealed};
use crate::persist::Stored;

/// Objects of each kind that are read to check the keys.
const PROBE: usize = 64;
/// Objects that are read at once to encrypt them again.
const RESEAL_PAGE: usize = 500;
/// Author of the writes that encrypt objects again.
const RESEALER: &str = "setpoint-encryption";

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

    /// Fails if there are encrypted objects that the keys do not open.
    pub async fn probe(&self) -> Result<(), Error> {
        for kind in &CONFIDENTIAL_KINDS {
            let range = KeyRange::prefix(kind.prefix);
            let page = self.inner.list(&range, PageRequest::first(PROBE), None).await?;
            let mut sealed = page.entries.iter().filter(|entry| is_sealed(&entry.value));
            sealed.try_for_each(|entry| opened(&self.sealer, entry).map(|_| ()))?;
        }
        Ok(())
    }

    /// Writes every object again that the newest key did not encrypt, and returns how many there
    /// were. An object that changes meanwhile is encrypted by that change; one that no key opens
    /// stays as it is.
    pub async fn reseal(&self, now: Timestamp) -> Result<usize, Error> {
        let mut count = 0;
        for kind in &CONFIDENTIAL_KINDS {
            let mut after = None;
            loop {
                let request = PageRequest { limit: Some(RESEAL_PAGE), after: after.take() };
                let page = self.inner.list(&KeyRange::prefix(kind.prefix), request, None).await?;
                for entry in &page.entries {
                    count += usize::from(self.reseal_entry(entry, now).await?);
                }
                match page.next {
                    Some(next) => after = Some(next),
                    None => break,
                }
            }
        }
        Ok(count)
    }

    async fn reseal_entry(&self, entry: &Entry, now: Timestamp) -> Result<bool, Error> {
        if !self.sealer.is_stale(&entry.value) {
            return Ok(false);
        }
        let value = match is_sealed(&entry.value).then(|| opened(&self.sealer, entry)) {
            None => entry.value.clone(),
            Some(Ok(value)) => value,
            Some(Err(error)) => {
                tracing::warn!(key = %entry.key, %error, "object not encrypted again");
                return Ok(false);
            }
        };
        let (key, when) = (entry.key.clone(), Precondition::At(entry.modified));
        let operations = vec![Operation { key, mutation: Mutation::Put(value), when }];
        let provenance = Provenance::of(now, RESEALER);
        match self.commit(Commit { operations, epoch: None, provenance }).await {
            Ok(_) => Ok(true),
            Err(Error::Conflict { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn seal(&self, key: &Key, value: &Bytes) -> Result<Bytes, Error> {
        let sealed = self.sealer.seal(key.as_str(), value);
        sealed.map(Bytes::from).map_err(|error| Error::Invalid { what: error.to_string() })
    }
}

/// Returns whether any object of the store is encrypted.
pub async fn has_sealed(store: &dyn Store) -> Result<bool, Error> {
    for kind in &CONFIDENTIAL_KINDS {
        let range = KeyRange::prefix(kind.prefix);
        let page = store.list(&range, PageRequest::first(PROBE), None).await?;
        if page.entries.iter().any(|entry| is_sealed(&entry.value)) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Puts what a sealed entry holds where readers look for it.
fn open(sealer: &Sealer, entry: &Entry) -> Result<(), Error> {
    let is_ours = is_sealed(&entry.value) && is_confidential_key(entry.key.as_str());
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
        // Entries are in order: those of one kind are one stretch.
        for kind in &CONFIDENTIAL_KINDS {
            let start = page.entries.partition_point(|entry| entry.key.as_str() < kind.prefix);
            let rest = page.entries[start..].iter();
            for entry in rest.take_while(|entry| entry.key.as_str().starts_with(kind.prefix)) {
                open(&self.sealer, entry)?;
            }
        }
        Ok(page)
    }

    async fn commit(&self, mut commit: Commit) -> Result<Committed, Error> {
        for operation in &mut commit.operations {
            if let Mutation::Put(value) = &operation.mutation
                && is_confidential_key(operation.key.as_str())
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
