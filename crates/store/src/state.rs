//! What a process knows of the store: the live tree and the recent changes.
//!
//! One writer publishes; readers take a view (two reference counts) and go. A watcher is a position
//! on the shared list of recent changes: a slow one costs nothing, and is ended when what it has
//! not read yet is dropped.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use tokio::sync::watch;

use crate::page::PAGE_ENTRIES_MAX;
use crate::thinning::without_churn;
use crate::topics::{Known, Scope, Topics, Wake};
use crate::tree::Tree;
use crate::{Batch, Change, Entry, Error, Key, KeyRange, Page, PageRequest, Revision};
use crate::{Thinning, Timestamp};

/// How many batches a watcher takes at once.
pub(crate) const TAKE_BATCHES_MAX: usize = 256;

/// The shared state of one open store.
pub(crate) struct State {
    inner: RwLock<Inner>,
    head: watch::Sender<Revision>,
    /// Recent changes are kept up to this cost; older ones are the backend's to find.
    recent_bytes_max: u64,
}

struct Inner {
    tree: Tree,
    head: Revision,
    compacted: Revision,
    /// Every change after `base`, oldest first.
    recent: VecDeque<Arc<Batch>>,
    base: Revision,
    recent_bytes: u64,
    /// Older history than this may lack churn that the recent changes had.
    thinned: Revision,
    topics: Topics,
    closed: bool,
}

/// What to begin with.
pub(crate) struct Start {
    pub tree: Tree,
    pub head: Revision,
    pub compacted: Revision,
    /// Every change after `base`.
    pub recent: Vec<Arc<Batch>>,
    pub base: Revision,
}

/// Changes a watcher asked for.
pub(crate) enum Since {
    /// All matching changes up to `through`.
    Recent { batches: Vec<Arc<Batch>>, through: Revision },
    /// They are older than what is kept here: everything up to `base` is the backend's to find.
    Older { base: Revision },
}

impl State {
    pub fn new(start: Start, recent_bytes_max: u64) -> State {
        let recent_bytes = start.recent.iter().map(|batch| batch.cost()).sum();
        let mut inner = Inner {
            tree: start.tree,
            head: start.head,
            compacted: start.compacted,
            recent: start.recent.into(),
            base: start.base,
            recent_bytes,
            thinned: Revision::ZERO,
            topics: Topics::default(),
            closed: false,
        };
        inner.trim(recent_bytes_max);
        let (head, _) = watch::channel(inner.head);
        State { inner: RwLock::new(inner), head, recent_bytes_max }
    }

    /// Makes new batches visible, all at once.
    pub fn publish(&self, tree: Tree, batches: impl IntoIterator<Item = Arc<Batch>>) {
        let mut inner = self.write();
        let mut wakes = Vec::new();
        for batch in batches {
            assert!(batch.revision > inner.head, "published revisions must grow");
            inner.head = batch.revision;
            inner.recent_bytes += batch.cost();
            inner.topics.add(&batch, &mut wakes);
            inner.recent.push_back(batch);
        }
        // The old tree may be the last of its kind; dropping it is left until after the lock.
        let old = std::mem::replace(&mut inner.tree, tree);
        inner.trim(self.recent_bytes_max);
        let head = inner.head;
        drop(inner);
        drop(old);
        self.wake(wakes, head);
    }

    /// Starts over from a state whose history is not known: watchers behind it must end.
    pub fn reset(&self, tree: Tree, head: Revision) {
        let mut inner = self.write();
        assert!(head >= inner.head, "a store must not go back");
        inner.recent.clear();
        inner.recent_bytes = 0;
        inner.tree = tree;
        inner.head = head;
        inner.base = head;
        inner.compacted = inner.compacted.max(head);
        inner.topics.reset(head);
        let wakes = inner.topics.wakes();
        drop(inner);
        self.wake(wakes, head);
    }

    /// After the lock: whoever is woken reads at once.
    fn wake(&self, wakes: Vec<Wake>, head: Revision) {
        self.head.send_replace(head);
        for wake in wakes {
            wake.send_replace(head);
        }
    }

    pub fn compact(&self, before: Revision) {
        let mut inner = self.write();
        if before <= inner.compacted {
            return;
        }
        inner.compacted = before;
        while inner.recent.front().is_some_and(|batch| batch.revision < before) {
            inner.drop_oldest();
        }
        inner.base = inner.base.max(before.before());
        let head = inner.head;
        let wakes = inner.topics.wakes();
        drop(inner);
        // Watchers behind it must learn of it.
        self.wake(wakes, head);
    }

    /// What is forgotten for good when there is no older history than the recent changes.
    pub fn compact_to_recent(&self) {
        let mut inner = self.write();
        if inner.base != Revision::ZERO {
            inner.compacted = inner.compacted.max(inner.base.next());
        }
    }

    /// The history up to a revision is about to be thinned out, or was by another process: what is
    /// kept of it here goes, since changes taken back must be those that the backend finds.
    pub fn forget_thinned(&self, through: Revision) {
        let mut inner = self.write();
        let through = through.min(inner.head);
        if through <= inner.thinned {
            return;
        }
        inner.thinned = through;
        while inner.recent.front().is_some_and(|batch| batch.revision <= through) {
            inner.drop_oldest();
        }
        inner.base = inner.base.max(through);
    }

    /// History up to here may lack churn.
    pub fn thinned(&self) -> Revision {
        self.read().thinned
    }

    /// Takes churn out of the recent changes after a revision that were made before a time, where
    /// there is no other history than them. Answers up to where it looked.
    pub fn thin_recent(&self, after: Revision, before: Timestamp, thinning: &Thinning) -> Revision {
        let old: Vec<Arc<Batch>> = {
            let inner = self.read();
            let later = inner.recent.range(inner.first_after(after)..);
            later.take_while(|batch| batch.provenance.time < before).cloned().collect()
        };
        let Some(last) = old.last().map(|batch| batch.revision) else { return after };
        let thinned = without_churn(&old, thinning);
        if thinned.is_empty() {
            return last;
        }
        let mut inner = self.write();
        // Topics hold batches of their own; whoever is behind reads the recent changes instead.
        inner.topics.forget_through(last);
        for batch in &mut inner.recent {
            if let Some(other) = thinned.get(&batch.revision) {
                *batch = other.clone();
            }
        }
        inner.recent.retain(|batch| !batch.changes.is_empty());
        inner.recent_bytes = inner.recent.iter().map(|batch| batch.cost()).sum();
        last
    }

    /// The newest change made before a time, among those kept.
    pub fn newest_before(&self, time: Timestamp) -> Option<Revision> {
        let inner = self.read();
        let older = inner.recent.iter().take_while(|batch| batch.provenance.time < time);
        older.last().map(|batch| batch.revision)
    }

    pub fn head(&self) -> Revision {
        self.read().head
    }

    pub fn compacted(&self) -> Revision {
        self.read().compacted
    }

    pub fn live(&self) -> View {
        let inner = self.read();
        View { tree: inner.tree.clone(), overlay: BTreeMap::new(), revision: inner.head }
    }

    /// The state at a revision; `Older` when changes must be undone that are not kept here.
    pub fn at(&self, at: Revision, range: &KeyRange) -> Result<Past, Error> {
        let inner = self.read();
        inner.check_readable(at)?;
        let revision = at.max(inner.base);
        let mut view = View { tree: inner.tree.clone(), overlay: BTreeMap::new(), revision };
        // Copy the pointers under the lock, look at the changes outside of it.
        let from = inner.first_after(revision);
        let batches: Vec<_> = inner.recent.range(from..).cloned().collect();
        let base = inner.base;
        drop(inner);
        view.undo(&batches, range);
        Ok(if at < base { Past::Older { view, base } } else { Past::Known(view) })
    }

    /// Matching changes after a position.
    pub fn since(&self, position: Revision, range: &KeyRange) -> Result<Since, Error> {
        let inner = self.read();
        if inner.closed {
            return Err(Error::Stopped { reason: "it was closed".into() });
        }
        if position.next() < inner.compacted {
            let requested = position.next();
            return Err(Error::Compacted { requested, oldest: inner.compacted });
        }
        if position < inner.base {
            return Ok(Since::Older { base: inner.base });
        }
        let mut batches = Vec::new();
        let mut through = inner.head.max(position);
        for batch in inner.recent.range(inner.first_after(position)..) {
            if batches.len() == TAKE_BATCHES_MAX {
                through = batch.revision.before();
                break;
            }
            batches.extend(within(batch, range));
        }
        Ok(Since::Recent { batches, through })
    }

    /// What happened after a watcher's position; the watcher has joined.
    pub fn follow(&self, position: Revision, scope: &Scope) -> Result<Since, Error> {
        let inner = self.read();
        if inner.closed {
            return Err(Error::Stopped { reason: "it was closed".into() });
        }
        match inner.topics.since(position, scope, inner.head) {
            Known::Changes { batches, through } => Ok(Since::Recent { batches, through }),
            Known::Older => {
                drop(inner);
                self.since(position, &scope.range)
            }
        }
    }

    /// Waits until a revision is visible here.
    pub async fn reached(&self, revision: Revision) -> Result<(), Error> {
        let mut heads = self.head.subscribe();
        loop {
            let head = *heads.borrow_and_update();
            if head >= revision {
                return Ok(());
            }
            if self.read().closed || heads.changed().await.is_err() {
                return Err(Error::Stopped { reason: "it was closed".into() });
            }
        }
    }

    /// Adds a watcher, who is woken when something happens that it is to be told of.
    pub fn join(&self, scope: &Scope) -> watch::Receiver<Revision> {
        let mut inner = self.write();
        let head = inner.head;
        inner.topics.join(scope, head)
    }

    pub fn leave(&self, scope: &Scope) {
        self.write().topics.leave(scope);
    }

    pub fn close(&self) {
        let mut inner = self.write();
        inner.closed = true;
        let (wakes, head) = (inner.topics.wakes(), inner.head);
        drop(inner);
        self.wake(wakes, head);
    }

    pub fn is_closed(&self) -> bool {
        self.read().closed
    }

    // A panic while the lock is held leaves whole values: every mutation below is a plain store.
    fn read(&self) -> RwLockReadGuard<'_, Inner> {
        self.inner.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Inner> {
        self.inner.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inner {
    fn trim(&mut self, recent_bytes_max: u64) {
        // The newest batch stays, however large.
        while self.recent_bytes > recent_bytes_max && self.recent.len() > 1 {
            self.drop_oldest();
        }
    }

    fn drop_oldest(&mut self) {
        if let Some(batch) = self.recent.pop_front() {
            self.topics.forget(&batch);
            self.recent_bytes -= batch.cost();
            self.base = batch.revision;
        }
    }

    fn first_after(&self, revision: Revision) -> usize {
        self.recent.partition_point(|batch| batch.revision <= revision)
    }

    fn check_readable(&self, at: Revision) -> Result<(), Error> {
        if at < self.compacted {
            return Err(Error::Compacted { requested: at, oldest: self.compacted });
        }
        if at > self.head {
            return Err(Error::Future { requested: at, newest: self.head });
        }
        Ok(())
    }
}

/// The part of a batch that lies in a range; the batch itself when that is all of it.
pub(crate) fn within(batch: &Arc<Batch>, range: &KeyRange) -> Option<Arc<Batch>> {
    let matching = batch.changes.iter().filter(|change| range.contains(&change.key)).count();
    if matching == 0 {
        return None;
    }
    if matching == batch.changes.len() {
        return Some(batch.clone());
    }
    let inside = |change: &&Change| range.contains(&change.key);
    Some(Arc::new(Batch {
        revision: batch.revision,
        provenance: batch.provenance.clone(),
        changes: batch.changes.iter().filter(inside).cloned().collect(),
    }))
}

/// The state at a revision, or as near to it as is known here.
pub(crate) enum Past {
    Known(View),
    /// The state at `base`; the changes between are the backend's to find and to undo.
    Older {
        view: View,
        base: Revision,
    },
}

/// A readable state: a tree, and what differs from it.
pub(crate) struct View {
    tree: Tree,
    overlay: BTreeMap<Key, Option<Arc<Entry>>>,
    pub revision: Revision,
}

impl View {
    /// Takes changes back, so that the view is as before the first of them. They must come in
    /// order and end where the view begins; older changes may be undone later.
    pub fn undo(&mut self, batches: &[Arc<Batch>], range: &KeyRange) {
        for batch in batches.iter().rev() {
            for change in batch.changes.iter().filter(|change| range.contains(&change.key)) {
                self.overlay.insert(change.key.clone(), change.previous.clone());
            }
        }
    }

    pub fn get(&self, key: &Key) -> Option<Arc<Entry>> {
        match self.overlay.get(key) {
            Some(entry) => entry.clone(),
            None => self.tree.get(key).cloned(),
        }
    }

    pub fn list(&self, range: &KeyRange, request: &PageRequest) -> Page {
        let range = match &request.after {
            Some(key) => range.after(key),
            None => range.clone(),
        };
        let limit = request.limit.unwrap_or(PAGE_ENTRIES_MAX).min(PAGE_ENTRIES_MAX);
        let entries: Vec<_> = self.walk(&range).take(limit).cloned().collect();
        let remaining = self.count(&range) - entries.len();
        let last = entries.last().map(|entry| entry.key.clone());
        let next = if remaining > 0 { last.or(request.after.clone()) } else { None };
        Page { entries, revision: self.revision, next, remaining }
    }

    /// The tree and the overlay, merged in key order.
    fn walk<'a>(&'a self, range: &'a KeyRange) -> impl Iterator<Item = &'a Arc<Entry>> {
        let mut live = self.tree.range(range).peekable();
        let inside = |(key, _): &(&Key, _)| range.contains(key);
        let mut other = self.overlay.iter().filter(inside).peekable();
        std::iter::from_fn(move || {
            loop {
                let Some(&(key, entry)) = other.peek() else { return live.next() };
                match live.peek() {
                    Some(next) if next.key < *key => return live.next(),
                    Some(next) if next.key == *key => {
                        live.next();
                    }
                    _ => {}
                }
                other.next();
                if entry.is_some() {
                    return entry.as_ref();
                }
            }
        })
    }

    fn count(&self, range: &KeyRange) -> usize {
        let mut count = self.tree.count(range);
        for (key, entry) in self.overlay.iter().filter(|(key, _)| range.contains(key)) {
            match (self.tree.get(key).is_some(), entry.is_some()) {
                (true, false) => count -= 1,
                (false, true) => count += 1,
                _ => {}
            }
        }
        count
    }
}
